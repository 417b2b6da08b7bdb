package impair_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/fabric"
	"gobtl/fabric/impair"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want impair.Faults
		text string // of want
	}{
		{"", impair.Faults{}, "none"},
		{"none", impair.Faults{}, "none"},
		{"  ", impair.Faults{}, "none"},
		{"loss=1%", impair.Faults{Loss: 0.01}, "loss=1%"},
		{"loss=0.01", impair.Faults{Loss: 0.01}, "loss=1%"},
		{"loss=100%,dup=0", impair.Faults{Loss: 1}, "loss=100%"},
		{
			" delay = 200us , seed = 7 ",
			impair.Faults{Delay: 200 * time.Microsecond, Seed: 7},
			"delay=200µs,seed=7",
		},
		{"loss=1%,dup=1%,reorder=5%,delay=200us,corrupt=0.1%,truncate=0.1%,seed=7", impair.Faults{
			Loss: 0.01, Dup: 0.01, Reorder: 0.05, Delay: 200 * time.Microsecond, Corrupt: 0.001,
			Truncate: 0.001, Seed: 7,
		}, "loss=1%,dup=1%,reorder=5%,corrupt=0.1%,truncate=0.1%,delay=200µs,seed=7"},
		{
			"delay=1ms,delayp=10%",
			impair.Faults{Delay: time.Millisecond, DelayP: 0.1},
			"delayp=10%,delay=1ms",
		},
		{"corrupt=1e-6", impair.Faults{Corrupt: 1e-6}, "corrupt=0.0001%"},
		{"seed=18446744073709551615", impair.Faults{Seed: math.MaxUint64}, "seed=18446744073709551615"},
	} {
		got, err := impair.Parse(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", tc.in, got, err, tc.want)
		}
		if text := got.String(); text != tc.text {
			t.Errorf("Parse(%q).String() = %q, want %q", tc.in, text, tc.text)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ in, says string }{
		{"lost=1%", `"lost=1%": unknown key; the keys are loss, dup`},
		{"loss", `"loss": want key=value`},
		{"loss=1%,,dup=1%", `"": want key=value`},
		{"loss=1%,", `"": want key=value`},
		{"loss=1%,loss=2%", "loss is given twice"},
		{"loss=101%", `"loss=101%": want a probability`},
		{"loss=-1%", "want a probability"},
		{"dup=2", `"dup=2": want a probability`},
		{"dup=NaN", "want a probability"},
		{"dup=%", "want a probability"},
		{"dup=1%%", "want a probability"},
		{"reorder=much", "want a probability"},
		{"delay=200", `"delay=200": want a duration`},
		{"delay=-1us", "want a duration"},
		{"delay=11s", "at most 10s"},
		{"seed=-1", "want a number from 0"},
		{"seed=x", "want a number from 0"},
		{"=", "unknown key"},
	} {
		got, err := impair.Parse(tc.in)
		if !errors.Is(err, fabric.ErrBadConfig) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("Parse(%q): error %v, want one that says %q", tc.in, err, tc.says)
		}
		if got != (impair.Faults{}) {
			t.Errorf("Parse(%q) returned %+v with an error", tc.in, got)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []impair.Faults{
		{Loss: -0.1},
		{Dup: 1.1},
		{Reorder: math.NaN()},
		{Corrupt: math.Inf(1)},
		{Truncate: 2},
		{DelayP: -1},
		{Delay: -1},
		{Delay: impair.DelayMax + 1},
	} {
		if err := bad.Validate(); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("Validate of %+v: %v, want ErrBadConfig", bad, err)
		}
	}
	all := impair.Faults{Loss: 1, Dup: 1, Reorder: 1, Corrupt: 1, Truncate: 1, Delay: impair.DelayMax}
	if err := all.Validate(); err != nil {
		t.Errorf("Validate of the largest values: %v", err)
	}
}

// TestStringRoundTrip checks that Parse reads the text of every valid Faults.
func TestStringRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Float64Range(0, 1)
		f := impair.Faults{
			Loss:     p.Draw(t, "loss"),
			Dup:      p.Draw(t, "dup"),
			Reorder:  p.Draw(t, "reorder"),
			Delay:    time.Duration(rapid.Int64Range(0, int64(impair.DelayMax)).Draw(t, "delay")),
			DelayP:   p.Draw(t, "delayp"),
			Corrupt:  p.Draw(t, "corrupt"),
			Truncate: p.Draw(t, "truncate"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		got, err := impair.Parse(f.String())
		if err != nil || got != f {
			t.Fatalf("Parse(%q) = %+v, %v, want %+v", f.String(), got, err, f)
		}
	})
}

// FuzzParse checks that the result of Parse is valid and has a text with the same meaning.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "none", "loss=1%,dup=1%,reorder=5%,delay=200us,corrupt=0.1%,truncate=0.1%,seed=7",
		"loss=0x1p-3", "delay=1h", "seed=00", "loss=-0", "loss=1e400", ",=,", "loss=Inf",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := impair.Parse(s)
		if err != nil {
			if !errors.Is(err, fabric.ErrBadConfig) {
				t.Fatalf("Parse(%q): %v", s, err)
			}
			return
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("Parse(%q) = %+v: %v", s, got, err)
		}
		if again, err := impair.Parse(got.String()); err != nil || again != got {
			t.Fatalf("Parse(%q) = %+v, its text %q parses as %+v, %v", s, got, got, again, err)
		}
	})
}
