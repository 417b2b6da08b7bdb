package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
)

// TestGate opens when all are there, and lets nobody wait for one that does not come.
func TestGate(t *testing.T) {
	g := newGate(3)
	passed := make(chan error, 3)
	for range 2 {
		go func() { passed <- g.wait() }()
	}
	select {
	case err := <-passed:
		t.Fatalf("open for two of three: %v", err)
	case <-time.After(20 * time.Millisecond): // Nothing is to happen.
	}
	if err := g.wait(); err != nil || <-passed != nil || <-passed != nil {
		t.Error("not open for all")
	}
	g = newGate(2)
	go func() { passed <- g.wait() }()
	g.shut()
	g.shut()
	if err := <-passed; !errors.Is(err, errOther) {
		t.Errorf("shut: %v", err)
	}
}

// TestFirstReason prefers the error of the stream that failed by itself.
func TestFirstReason(t *testing.T) {
	own := errors.New("mine")
	other := fmt.Errorf("stream: %w", errOther)
	for _, errs := range [][]error{{nil, other, own, other}, {own, other}, {other, own, nil}} {
		if err := firstReason(errs); !errors.Is(err, own) {
			t.Errorf("%v: %v", errs, err)
		}
	}
	if err := firstReason([]error{nil, nil}); err != nil {
		t.Error(err)
	}
}

// TestSum adds what streams have, but not what belongs to their process.
func TestSum(t *testing.T) {
	one := func(elapsed time.Duration, cpuNs int64) *Outcome {
		o := &Outcome{Meter: layers.Meter{
			Hist: layers.NewHist(), Messages: 10, Bytes: 80, Elapsed: elapsed, Lost: 1, Window: 8,
		}}
		o.Meter.Hist.Record(1000)
		o.Client = RoundResult{
			Usage: layers.Usage{WallNs: 100, CPUNs: cpuNs, Sleeps: 2}, Sent: 10,
			Counters: layers.Counters{Retransmits: 3}, Tally: layers.Tally{VerifiedBytes: 5},
		}
		o.Server = o.Client
		return o
	}
	sum := Sum([]*Outcome{one(time.Second, 90), one(2*time.Second, 95)})
	m, c := &sum.Meter, &sum.Server
	if m.Messages != 20 || m.Bytes != 160 || m.Elapsed != 2*time.Second || m.Lost != 2 ||
		m.Window != 8 || m.Hist.Count() != 2 {
		t.Errorf("%+v", m)
	}
	if c.Usage.WallNs != 100 || c.Usage.CPUNs != 95 || c.Usage.Sleeps != 4 || c.Sent != 20 ||
		c.Counters.Retransmits != 6 || c.Tally.VerifiedBytes != 10 {
		t.Errorf("%+v", c)
	}
}
