package inbound

import (
	"testing"

	"gobtl/internal/seq"
	"gobtl/reliability"
)

// received returns a receiver whose next packet is first, and a function that lets the window pass
// a number of packets.
func received(t *testing.T, first seq.Num) (*reliability.Receiver, func(packets int)) {
	t.Helper()
	rules, err := reliability.Profile("adaptive")
	if err != nil {
		t.Fatal(err)
	}
	rcv := new(reliability.Receiver)
	rcv.Init(first, rules.WindowPackets)
	return rcv, func(packets int) {
		for range packets {
			rcv.Accept(1, rcv.Next(), &rules)
		}
	}
}

// The refusals that are stored have a bound, and are removed when the window has passed them.
func TestRefusalsAreBounded(t *testing.T) {
	const first = seq.Num(1<<32 - 20)
	rcv, pass := received(t, first)
	asm, _ := assembler(t)
	var r Refusals
	const last = 2*refusalsMax - 1
	for i := range uint32(last + 1) {
		r.Add(rcv, first.Add(i), i)
		r.Add(rcv, first.Add(i), i)
		r.Add(rcv, first.Add(i+1), i) // another chunk of the fragment
	}
	if n := len(r.all()); n != refusalsMax || r.all()[n-1].fragID != last {
		t.Errorf("%d refusals are stored, the last is %+v", n, r.all()[n-1])
	}
	r.CameWithout(first.Add(last), nil, asm)
	if !r.Ended(rcv, last) || r.Ended(rcv, last-1) {
		t.Error("the wrong fragment has ended")
	}
	pass(int(rcv.Size()) + 2*refusalsMax)
	if r.Ended(rcv, last) || r.Any() {
		t.Errorf("%d refusals are stored for ever", len(r.all()))
	}
}

// A copy of a refused shared packet is refused again, and no other shared packet because of the
// fragment. Of the fragment, all chunks are refused.
func TestRefusalOfCopies(t *testing.T) {
	rcv, _ := received(t, 1)
	var r Refusals
	r.Add(rcv, 5, 7)
	for _, c := range []struct {
		seq  seq.Num
		frag uint32
		want bool
	}{{5, 7, true}, {6, 7, false}, {5, 8, false}} {
		if got := r.Has(c.seq, c.frag); got != c.want {
			t.Errorf("packet %d of fragment %d is refused: %v", c.seq, c.frag, got)
		}
	}
	if !r.HasFragment(7) || r.HasFragment(8) {
		t.Error("the wrong fragment is refused")
	}
}
