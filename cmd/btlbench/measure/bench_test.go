package measure

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// turns is a bench that measures nothing and notes whose turn it was.
type turns struct {
	Bench
	took  []string
	until int // the round that fails, if not 0
}

var errTurn = errors.New("no more")

func newTurns(rounds int) *turns {
	f := &plan.Flags{Rounds: rounds}
	t := &turns{Bench: Bench{Flags: f, Doc: NewDocument("pair", f)}}
	t.bar = report.NewProgress(io.Discard, 0)
	t.runRound = func(s *plan.Spec, m []session.Meters) ([]*session.Outcome, error) {
		h := m[0].Hist
		if t.took = append(t.took, s.String()); len(t.took) == t.until {
			return nil, errTurn
		}
		o := sampleOutcome(s.Test, s.Layer, 0)
		if h != nil {
			h.Merge(o.Meter.Hist)
			o.Meter.Hist = h
		}
		return []*session.Outcome{o}, nil
	}
	return t
}

// turnsPlan is two tests, one of them on two layers, of two sizes.
func turnsPlan() (todo []combination) {
	both := []variant{{layer: plan.LayerRaw}, {layer: plan.LayerBTL}}
	for _, c := range []combination{
		{test: plan.TestBW, window: 1, variants: both},
		{test: plan.TestGetLat, window: 1, variants: both[1:]},
	} {
		for _, c.sizeBytes = range []int{8, 64} {
			todo = append(todo, c)
		}
	}
	return todo
}

// TestTurns has each round measure every test of a size once, who was first is last in the next,
// and the report is in the order of the tests all the same.
func TestTurns(t *testing.T) {
	b := newTurns(3)
	if err := b.measureAll(t.Context(), turnsPlan()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bw 8 (raw)", "bw 8 (btl)", "get_lat 8 (btl)",
		"get_lat 8 (btl)", "bw 8 (btl)", "bw 8 (raw)",
		"bw 8 (raw)", "bw 8 (btl)", "get_lat 8 (btl)",
		"bw 64 (raw)", "bw 64 (btl)", "get_lat 64 (btl)",
		"get_lat 64 (btl)", "bw 64 (btl)", "bw 64 (raw)",
		"bw 64 (raw)", "bw 64 (btl)", "get_lat 64 (btl)",
	}
	if !slices.Equal(b.took, want) {
		t.Errorf("turns %q, want %q", b.took, want)
	}
	checkRuns(t, b.Doc, 3, []string{
		"bw 8 (raw)", "bw 8 (btl)", "bw 64 (raw)", "bw 64 (btl)", "get_lat 8 (btl)", "get_lat 64 (btl)",
	})
}

// TestTurnsCutShort reports what was measured until then, of each test of the size.
func TestTurnsCutShort(t *testing.T) {
	b := newTurns(3)
	b.until = 7
	if err := b.measureAll(t.Context(), turnsPlan()); !errors.Is(err, errTurn) {
		t.Fatal(err)
	}
	checkRuns(t, b.Doc, 2, []string{"bw 8 (raw)", "bw 8 (btl)", "get_lat 8 (btl)"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTurn)
	b = newTurns(3)
	if err := b.measureAll(ctx, turnsPlan()); !errors.Is(err, errTurn) || len(b.took) > 0 {
		t.Errorf("%v after %q", err, b.took)
	}
}

func checkRuns(t *testing.T, d *Document, rounds int, want []string) {
	t.Helper()
	var got []string
	for i := range d.Runs {
		r := &d.Runs[i]
		got = append(got, (&plan.Spec{Test: r.Test, SizeBytes: r.SizeBytes, Layer: r.Layer}).String())
		if len(r.Rounds) != rounds {
			t.Errorf("%s has %d rounds, want %d", got[i], len(r.Rounds), rounds)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
}
