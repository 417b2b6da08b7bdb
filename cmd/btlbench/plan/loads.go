package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// windowList is a list of windows (messages in flight), where an empty list means the test's own
// default.
type windowList []int

const (
	windowMax = 1 << 16
	// windowsMax is the largest number of windows in one list.
	windowsMax = 64

	windowFlow = 64 // the default of tests of a flow
	// windowLoad is the window of the stream in lat_load, with one message in flight and the next
	// one ready.
	windowLoad = 2
)

// windowsRate are the default windows of the rate test.
var windowsRate = windowList{1, 8, 64, 512}

// UnmarshalText parses "1,8,64".
func (l *windowList) UnmarshalText(text []byte) error {
	var list windowList
	for part := range strings.SplitSeq(string(text), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > windowMax {
			return fmt.Errorf("--window must be 1 to %d, or several with commas", windowMax)
		}
		list = append(list, n)
	}
	if len(list) > windowsMax {
		return fmt.Errorf("more than %d windows", windowsMax)
	}
	*l = list
	return nil
}

// MarshalJSON writes a single window as a number.
func (l windowList) MarshalJSON() ([]byte, error) {
	switch len(l) {
	case 0:
		return json.Marshal(windowFlow)
	case 1:
		return json.Marshal(l[0])
	}
	return json.Marshal([]int(l))
}

// Windows returns the windows of a test and size without duplicates, which are the requested ones
// or the test's defaults, as far as memory permits.
func (f *Flags) Windows(test string, sizeBytes int) []int {
	list := f.Window
	switch {
	case test == TestLatLoad:
		sizeBytes = int(f.LoadSize)
		if len(list) == 0 {
			list = windowList{windowLoad}
		}
	case len(list) == 0 && (test == TestRate || test == TestAtomic || test == TestAtomicPost):
		list = windowsRate
	case len(list) == 0:
		list = windowList{windowFlow}
	case IsLatency(test):
		list = list[:1] // It makes no difference.
	}
	var windows []int
	for _, window := range list {
		if n := WindowFor(window, sizeBytes); !slices.Contains(windows, n) {
			windows = append(windows, n)
		}
	}
	return windows
}

// Load is the load of the stream in lat_load, which is nothing, a percentage of the stream's rate
// alone, or as much as possible.
type Load int

// The constants below are loads that are not a percentage.
const (
	LoadIdle Load = 0
	LoadMax  Load = 101
)

const loadSizeMax Bytes = inFlightBytesMax / windowLoad

// String formats a load as loadList parses it.
func (l Load) String() string {
	switch l {
	case LoadIdle:
		return "idle"
	case LoadMax:
		return "max"
	}
	return strconv.Itoa(int(l)) + "%"
}

// loadList is a list of different loads, always including the idle one.
type loadList []Load

// UnmarshalText parses "25%,50%,max".
func (l *loadList) UnmarshalText(text []byte) error {
	var list loadList
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		v := LoadMax
		if part != "max" {
			percent, ok := strings.CutSuffix(part, "%")
			n, err := strconv.Atoi(percent)
			if err != nil || !ok || n < 1 || n > 100 {
				return fmt.Errorf("%q is no load: write a percentage as 50%%, or max", part)
			}
			v = Load(n)
		}
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	*l = list
	return nil
}

// MarshalJSON writes the text that was given.
func (l loadList) MarshalJSON() ([]byte, error) {
	texts := []string{}
	for _, v := range l {
		texts = append(texts, v.String())
	}
	return json.Marshal(texts)
}
