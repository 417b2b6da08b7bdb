package impair

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gobtl/fabric"
)

// DelayMax is the largest value of Faults.Delay.
const DelayMax = 10 * time.Second

// Faults describe the faults that are injected into arriving datagrams. Loss, Dup, Reorder, Corrupt
// and Truncate are the probabilities, from 0 to 1, that a datagram has the named fault. The zero
// value of Faults injects no faults.
type Faults struct {
	Loss    float64 // the datagram does not arrive
	Dup     float64 // the datagram arrives twice
	Reorder float64 // 1 to 16 later datagrams overtake the datagram, if they arrive within 1 ms
	// Delay is the additional delay of a delayed datagram, 0 to DelayMax. DelayP is the probability
	// that a datagram is delayed, except that a DelayP of 0 delays every datagram. A datagram that is
	// not delayed overtakes delayed datagrams.
	Delay    time.Duration
	DelayP   float64
	Corrupt  float64 // one bit is inverted, unless the datagram is empty
	Truncate float64 // one or more bytes at the end are missing, unless the datagram is empty
	// Seed selects the sequence of random faults. Two Domains with the same Seed get the same sequence
	// of random faults.
	Seed uint64
}

// probability describes a field of Faults whose value is a probability, for Parse and String.
type probability struct {
	key   string
	value *float64
}

func (f *Faults) probabilities() []probability {
	return []probability{
		{"loss", &f.Loss},
		{"dup", &f.Dup},
		{"reorder", &f.Reorder},
		{"delayp", &f.DelayP},
		{"corrupt", &f.Corrupt},
		{"truncate", &f.Truncate},
	}
}

// knownKeys lists the valid keys, for the error about an unknown key.
const knownKeys = "loss, dup, reorder, delay, delayp, corrupt, truncate, seed"

// Validate returns an error for the first field that is out of its range. The error of Validate
// wraps fabric.ErrBadConfig.
func (f Faults) Validate() error {
	for _, p := range f.probabilities() {
		if !(*p.value >= 0 && *p.value <= 1) { // NaN is also out of range
			return fmt.Errorf("%w: impair: %s is %v, want 0 to 1 (0%% to 100%%)", fabric.ErrBadConfig,
				p.key, *p.value)
		}
	}
	if f.Delay < 0 || f.Delay > DelayMax {
		return fmt.Errorf("%w: impair: delay is %v, want 0 to %v", fabric.ErrBadConfig, f.Delay,
			DelayMax)
	}
	return nil
}

// Parse parses faults such as
// "loss=1%,dup=0.5%,reorder=5%,delay=200us,corrupt=1e-4,truncate=0.1%,seed=7". The text may contain
// the fields in any order, each field at most once. Probabilities are percentages or fractions, and
// the field "delay" has the format of time.ParseDuration. For the texts "" and "none", Parse
// returns the zero Faults. The errors of Parse wrap fabric.ErrBadConfig and name the invalid part
// of the text.
func Parse(s string) (Faults, error) {
	var f Faults
	if s = strings.TrimSpace(s); s == "" || s == "none" {
		return f, nil
	}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(s, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		var err error
		switch {
		case !found:
			err = fmt.Errorf("want key=value; the keys are %s", knownKeys)
		case seen[key]:
			err = fmt.Errorf("%s is given twice", key)
		default:
			err = f.set(key, value)
		}
		if err != nil {
			return Faults{}, fmt.Errorf("%w: impair: %q: %w", fabric.ErrBadConfig, part, err)
		}
		seen[key] = true
	}
	return f, nil
}

func (f *Faults) set(key, value string) error {
	for _, p := range f.probabilities() {
		if p.key != key {
			continue
		}
		v, err := parseProbability(value)
		*p.value = v
		return err
	}
	switch key {
	case "delay":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > DelayMax {
			return fmt.Errorf("want a duration such as 200us, at most %v", DelayMax)
		}
		f.Delay = d
	case "seed":
		seed, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("want a number from 0 to %d", uint64(math.MaxUint64))
		}
		f.Seed = seed
	default:
		return fmt.Errorf("unknown key; the keys are %s", knownKeys)
	}
	return nil
}

func parseProbability(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("want a probability from 0%% to 100%%, or a fraction from 0 to 1")
	}
	return math.Abs(v), nil // no negative zero
}

// String formats the faults in the syntax that Parse accepts. For every valid f, Parse(f.String())
// returns f.
func (f Faults) String() string {
	var parts []string
	for _, p := range f.probabilities() {
		if *p.value != 0 {
			parts = append(parts, p.key+"="+formatProbability(*p.value))
		}
	}
	if f.Delay != 0 {
		parts = append(parts, "delay="+f.Delay.String())
	}
	if f.Seed != 0 {
		parts = append(parts, "seed="+strconv.FormatUint(f.Seed, 10))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// formatProbability formats a probability as the shortest percentage that Parse converts back to
// exactly the same number, if there is one, and otherwise as a fraction.
func formatProbability(p float64) string {
	for _, digits := range []int{15, -1} {
		s := strconv.FormatFloat(p*100, 'g', digits, 64) + "%"
		if back, err := parseProbability(s); err == nil && back == p {
			return s
		}
	}
	return strconv.FormatFloat(p, 'g', -1, 64)
}
