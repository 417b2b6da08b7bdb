package impair

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gobtl/fabric"
)

// DelayMax bounds Faults.Delay.
const DelayMax = 10 * time.Second

// Faults says what happens to arriving datagrams. Loss, Dup, Reorder, Corrupt and Truncate are the
// probabilities, 0 to 1, that a datagram suffers that; the zero value makes no faults.
type Faults struct {
	Loss    float64 // it does not arrive
	Dup     float64 // it arrives twice
	Reorder float64 // 1 to 16 later ones overtake it, as far as they come within 1 ms
	// Delay is how much later it arrives, 0 to DelayMax. DelayP is the share of datagrams that are
	// delayed; 0 means all of them. The others overtake them.
	Delay    time.Duration
	DelayP   float64
	Corrupt  float64 // one bit of it is inverted (not of an empty one)
	Truncate float64 // bytes are missing at its end, from one to all (not of an empty one)
	// Seed chooses the sequence of faults. Two ends with the same seed suffer the same sequence, each
	// from its own arrivals; give them different ones if that matters.
	Seed uint64
}

// probability is a field of Faults that Parse and String treat alike.
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

// knownKeys lists the valid keys, for the error about an unknown one.
const knownKeys = "loss, dup, reorder, delay, delayp, corrupt, truncate, seed"

// Validate says which field is out of range, in an error that wraps fabric.ErrBadConfig.
func (f Faults) Validate() error {
	for _, p := range f.probabilities() {
		if !(*p.value >= 0 && *p.value <= 1) { // so that NaN is out of range, too
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

// Parse reads faults as
// "loss=1%,dup=0.5%,reorder=5%,delay=200us,corrupt=1e-4,truncate=0.1%,seed=7": any of the fields,
// in any order, each once; probabilities as a percentage or a fraction, the delay as
// time.ParseDuration reads it. "" and "none" are no faults. Errors wrap fabric.ErrBadConfig and
// name the part that is wrong.
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

// String writes faults as Parse reads them: Parse(f.String()) is f for every valid f.
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

// formatProbability prefers the shortest percentage that gives the same number back. 15 digits hide
// what the multiplication by 100 adds in the last place (1e-6 is 0.0001%).
func formatProbability(p float64) string {
	for _, digits := range []int{15, -1} {
		s := strconv.FormatFloat(p*100, 'g', digits, 64) + "%"
		if back, err := parseProbability(s); err == nil && back == p {
			return s
		}
	}
	return strconv.FormatFloat(p, 'g', -1, 64)
}
