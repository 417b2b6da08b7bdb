package reliability

import (
	"reflect"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// TestPostRun: a run leaves behind what its packets would have left one by one.
func TestPostRun(t *testing.T) {
	const count = 7
	var after [2]struct {
		segs *Segments
		snd  Sender
	}
	for way := range after {
		g, err := NewAdaptive(16, 1, Adaptive())
		if err != nil {
			t.Fatal(err)
		}
		s := &after[way].snd
		s.Init(0, wrapsSoon, 16)
		s.Adapt(g, 50*time.Microsecond, true)
		s.Grant(16)
		now := mono.Time(1000)
		var run []Token
		first := s.next
		for i := range Token(count) {
			n := s.Admit(count - i)
			if way == 0 {
				g.PostTo(now, count-i, s, n, Data, false, time.Second)
			} else {
				run = append(run, count-i)
			}
		}
		if way == 1 {
			g.PostRun(now, run, s, first, Data, time.Second)
		}
		if err := s.Check(g); err != nil {
			t.Error(err)
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		after[way].segs = g
	}
	if a, b := after[0].segs.segs, after[1].segs.segs; !reflect.DeepEqual(a, b) {
		t.Errorf("one by one %+v\nat once %+v", a, b)
	}
	if a, b := *after[0].snd.rec, *after[1].snd.rec; !reflect.DeepEqual(a, b) {
		t.Errorf("one by one %+v\nat once %+v", a, b)
	}
	if a, b := after[0].segs.InFlight(), after[1].segs.InFlight(); a != count || b != count {
		t.Errorf("%d and %d in flight, not %d", a, b, count)
	}
}

// wrapsSoon puts the wrap of the numbers into the run.
const wrapsSoon = ^seq.Num(2)
