package matrix

import (
	"maps"
	"math"
	"testing"
)

// TestSituations runs each situation once. All figures are numbers, and the same every time.
func TestSituations(t *testing.T) {
	skipRace(t)
	for _, s := range situations {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			f, err := s.run(0)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(f)
			some := false
			for unit, x := range f {
				some = some || x > 0
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
					t.Errorf("%v %s", x, unit)
				}
			}
			if !some {
				t.Error("nothing was measured")
			}
			if s.Name != "ping-pong" && s.Name != "tunnel" {
				return
			}
			if again, err := s.run(0); err != nil || !maps.Equal(f, again) {
				t.Errorf("%v, and then %v: %v", f, again, err)
			}
		})
	}
	for _, name := range []string{"urgent", "1ms 1G queue 1 loss 1% reorder 0%"} {
		if s, err := FindSituation(name); err != nil || s.Name != name {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := FindSituation("none"); err == nil {
		t.Errorf("found %v", s)
	}
}
