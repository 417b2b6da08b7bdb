package peer

import (
	"testing"

	"gobtl/internal/seq"
)

// On a counted link, a Nack is not searched from the oldest fragment on, but from where the
// previous Nack was.
func TestNacksOfCountedLink(t *testing.T) {
	const count = 100
	first := seq.Num(1<<32 - 50)
	var c countedState
	for i := range uint32(count) {
		f := new(Fragment)
		f.until = first.Add(i)
		c.confirm.push(f)
	}
	find := func(n seq.Num, wantBefore bool) {
		t.Helper()
		f, before := c.refused(n)
		if f == nil || f.until != n || (before != nil) != wantBefore ||
			wantBefore && before.until != n-1 {
			t.Errorf("Nack %d is for %+v, behind %+v", n, f, before)
		}
	}
	find(first, false)
	find(first+60, true)
	oldest := c.confirm.first
	c.confirm.first = nil // a search from the oldest fragment finds nothing
	find(first+60, true)
	find(first+61, true)
	c.confirm.first = oldest
	for range count - 1 {
		c.confirmed()
	}
	find(first+count-1, false)
	if f, _ := c.refused(first + count); f != nil {
		t.Errorf("the Nack for an unknown packet is for %+v", f)
	}
	c.confirmed()
	if f, before := c.refused(first + count); f != nil || before != nil || c.nacks.passed != nil {
		t.Errorf("without fragments, a Nack is for %+v, behind %+v", f, before)
	}
}

// Of the Nacks for one packet, each tag counts once. After an acknowledgement, the numbers of
// packets may wrap.
func TestNacksOnce(t *testing.T) {
	var k nacks
	const n = seq.Num(7)
	for _, c := range []struct {
		n     seq.Num
		tag   uint8
		isNew bool
	}{
		{n, 3, true},
		{n, 3, false},
		{n, 4, true},
		{n, 3, false},
		{n - 1, 3, false},
		{n + 1, wholePacket, true},
		{n + 1, wholePacket, false},
		{n, 4, false},
	} {
		if got := k.isNew(c.n, c.tag); got != c.isNew {
			t.Errorf("Nack %d for tag %d is new: %v", c.n, c.tag, got)
		}
	}
	k.acked(n)
	if k.isNew(n+1, wholePacket) {
		t.Error("the Nack of a packet that is not acknowledged counts again")
	}
	k.acked(n + 1)
	if half := seq.Num(1 << 31); !k.isNew(n+half+9, 3) {
		t.Error("a Nack after 2^31 packets does not count")
	}
}
