package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/internal/usage"
)

// The constants are the tests, in the order in which they are reported.
const (
	TestLat     = "lat"
	TestBW      = "bw"
	TestBiBW    = "bibw"
	TestReverse = "bw_reverse" // bw from the server to the client
	TestRate    = "rate"
	TestLatLoad = "lat_load"
	TestPutLat  = "put_lat"
	TestPutBW   = "put_bw"
	TestNotice  = "notice"
	TestGetLat  = "get_lat"
	TestGetBW   = "get_bw"

	TestAtomicLat  = "atomic_lat"  // one after the other, each answered with the old value
	TestAtomic     = "atomic"      // many in flight, likewise
	TestAtomicPost = "atomic_post" // many in flight, without the old value
)

// tests describes each test, and a new test must be added here.
var tests = []struct {
	name, title               string
	latency, pingPong, remote bool
}{
	{
		name: TestLat, latency: true, pingPong: true,
		title: "Latency: ping-pong, half round trips in us",
	},
	{name: TestBW, title: "Bandwidth: one direction"},
	{name: TestBiBW, title: "Bandwidth: both directions together"},
	{name: TestReverse, title: "Bandwidth: one direction, from the server to the client"},
	{name: TestRate, title: "Message rate: windows, each answered as a whole before the next"},
	{
		name: TestLatLoad, latency: true, pingPong: true,
		title: "Latency under load: beside a stream of %s messages, half round trips in us",
	},
	{
		name: TestPutLat, latency: true, remote: true,
		title: "Put latency: ping-pong through memory, half round trips in us",
	},
	{name: TestPutBW, remote: true, title: "Put bandwidth: one direction"},
	{
		name: TestNotice, latency: true, pingPong: true, remote: true,
		title: "Notice latency: ping-pong of puts, each told by its notice, half round trips in us",
	},
	{
		name: TestGetLat, latency: true, remote: true,
		title: "Get latency: half of the time from asking until all is there, in us",
	},
	{name: TestGetBW, remote: true, title: "Get bandwidth: one direction"},
	{
		name: TestAtomicLat, latency: true, remote: true,
		title: "Atomic latency: half of the time from asking until the old value is there, in us",
	},
	{name: TestAtomic, remote: true, title: "Atomic operations that return the old value"},
	{name: TestAtomicPost, remote: true, title: "Atomic operations that return nothing"},
}

// AllTests returns the names of all tests.
var AllTests = func() (names []string) {
	for i := range tests {
		names = append(names, tests[i].name)
	}
	return names
}()

// Title is the heading of a test's table. The title of lat_load has a %s for the size of its
// stream's messages, and an unknown test has an empty title.
func Title(test string) string {
	if i := slices.Index(AllTests, test); i >= 0 {
		return tests[i].title
	}
	return ""
}

// IsLatency reports whether a test measures single round trips, and not a flow.
func IsLatency(test string) bool {
	i := slices.Index(AllTests, test)
	return i >= 0 && tests[i].latency
}

// IsPingPong reports whether each message of a test gets its own reply.
func IsPingPong(test string) bool {
	i := slices.Index(AllTests, test)
	return i >= 0 && tests[i].pingPong
}

// IsStream reports whether a test is a stream of messages, to which --rate applies.
func IsStream(test string) bool { return test == TestBW || ServerSends(test) }

// ServerSends reports whether the server of a test has a stream of its own.
func ServerSends(test string) bool { return test == TestBiBW || test == TestReverse }

// IsRemote reports whether a test uses exposed memory, which the bare fabric does not have.
func IsRemote(test string) bool {
	i := slices.Index(AllTests, test)
	return i >= 0 && tests[i].remote
}

// IsAtomic reports whether a test measures operations on a single number.
func IsAtomic(test string) bool {
	return test == TestAtomicLat || test == TestAtomic || test == TestAtomicPost
}

// AtomicBytes is the size of the number of an atomic operation.
const AtomicBytes = 8

// The constants below are the layers.
const (
	LayerRaw  = "raw"  // the bare fabric endpoint
	LayerBTL  = "btl"  // the transport
	LayerBoth = "both" // both in turn
	// LayerRunner is the transport as ordinary programs use it, through a runner.Runner.
	LayerRunner = "runner"
)

// TestList is a comma-separated list of tests without repetition.
type TestList []string

// UnmarshalText parses "lat,bw" or "all".
func (l *TestList) UnmarshalText(text []byte) error {
	if string(text) == "all" {
		*l = slices.Clone(AllTests)
		return nil
	}
	var list TestList
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(AllTests, name) {
			return fmt.Errorf("unknown test %q%s: tests are %s, or all",
				name, Suggestion(name, AllTests), strings.Join(AllTests, ", "))
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	*l = list
	return nil
}

// SizeBytesMax is the maximum size of a message.
const SizeBytesMax = usage.SizeBytesMax

// Bytes is a number of bytes, such as 64K, in a flag.
type Bytes = usage.Size

// sizesMax is the largest number of sizes in one list.
const sizesMax = 256

// SizeList is a list of message sizes in bytes.
type SizeList []int

// UnmarshalText parses a text such as "0,8,1K,..,4M", with the binary suffixes K, M and G, and ".."
// for the doublings between two sizes.
func (l *SizeList) UnmarshalText(text []byte) error {
	var list SizeList
	parts := strings.Split(string(text), ",")
	for i := 0; i < len(parts); i++ {
		part := strings.TrimSpace(parts[i])
		if part != ".." {
			size, err := usage.ParseSize(part)
			if err != nil {
				return err
			}
			list = append(list, size)
		} else {
			doubled, err := doublings(list, parts[i+1:])
			if err != nil {
				return err
			}
			list = append(list, doubled...)
		}
		if len(list) > sizesMax {
			return fmt.Errorf("more than %d sizes", sizesMax)
		}
	}
	*l = list
	return nil
}

// doublings returns the sizes for which ".." stands between the last of before and the first of
// after.
func doublings(before SizeList, after []string) (SizeList, error) {
	if len(before) == 0 || len(after) == 0 {
		return nil, errors.New(`".." needs a size before and after it, as in 1K,..,4M`)
	}
	from := before[len(before)-1]
	to, err := usage.ParseSize(strings.TrimSpace(after[0]))
	if err != nil {
		return nil, err
	}
	if from <= 0 || to < from {
		return nil, fmt.Errorf("cannot double from %d to %d bytes", from, to)
	}
	var list SizeList
	for size := 2 * from; size < to; size *= 2 {
		list = append(list, size)
	}
	return list, nil
}

// SizeText formats a size in the largest unit that needs no fraction.
func SizeText(sizeBytes int) string { return usage.SizeText(sizeBytes) }

// Amount is a number of messages or a time, whichever is not zero.
type Amount struct {
	Messages int64
	Time     time.Duration
}

// UnmarshalText parses "1000" or "50ms".
func (a *Amount) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n >= 0 {
		*a = Amount{Messages: n}
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither a number of messages (1000) nor a time (50ms)", text)
	}
	*a = Amount{Time: d}
	return nil
}

// MarshalJSON writes the text that was given.
func (a Amount) MarshalJSON() ([]byte, error) {
	if a.Time > 0 {
		return json.Marshal(a.Time.String())
	}
	return json.Marshal(a.Messages)
}

// Span is a time on a command line, such as 1s, 250ms, or a number of seconds.
type Span time.Duration

// Time returns the span as a Duration.
func (s Span) Time() time.Duration { return time.Duration(s) }

// UnmarshalText parses "10s", "250ms", "10" or "0.5".
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		d, err = time.ParseDuration(string(text) + "s")
	}
	if err != nil {
		return fmt.Errorf("%q is no time: write 10s, 250ms, or a number of seconds", text)
	}
	*s = Span(d)
	return nil
}

// Split returns the i-th of n nearly equal parts of a.
func (a Amount) Split(i, n int) Amount {
	count := int64(n)
	part := Amount{
		Messages: a.Messages / count,
		Time:     (a.Time + time.Duration(count) - 1) / time.Duration(count),
	}
	if int64(i) < a.Messages%int64(n) {
		part.Messages++
	}
	return part
}

// BitRate is a number of bits per second.
type BitRate float64

const (
	bitRateMin BitRate = 1e3
	bitRateMax BitRate = 1e13
)

// UnmarshalText parses bits per second such as "500M", "1G" or "2.5G", with the decimal suffixes K,
// M, G and T.
func (r *BitRate) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "KMGTkmgt")
	suffix := strings.ToUpper(string(text[len(digits):]))
	unit, ok := map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[suffix]
	n, err := strconv.ParseFloat(digits, 64)
	rate := BitRate(n * unit)
	if err != nil || !ok || !(rate >= bitRateMin && rate <= bitRateMax) {
		return fmt.Errorf("%q is no rate: write bits a second from 1K to 10T, as 500M or 1G", text)
	}
	*r = rate
	return nil
}

// BytesPerNs is the rate in bytes per nanosecond.
func (r BitRate) BytesPerNs() float64 { return float64(r) / 8e9 }

// CPUList is a list of CPU numbers, where nil means not given and empty means "none".
type CPUList []int

// CPUsMax is one more than the largest CPU number in the fixed mask of sched_setaffinity.
const CPUsMax = 1024

// UnmarshalText parses "0,1", "2-3" or "none".
func (l *CPUList) UnmarshalText(text []byte) error {
	list := CPUList{}
	if string(text) == "none" {
		*l = list
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi >= CPUsMax {
			return fmt.Errorf("%q is no list of CPUs: write 0,1 or 2-3 or none", text)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			list = append(list, cpu)
		}
	}
	*l = list
	return nil
}

// String formats the list in the syntax of UnmarshalText.
func (l CPUList) String() string {
	if len(l) == 0 {
		return "none"
	}
	var parts []string
	for _, cpu := range l {
		parts = append(parts, strconv.Itoa(cpu))
	}
	return strings.Join(parts, ",")
}
