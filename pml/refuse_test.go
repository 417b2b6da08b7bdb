package pml

import "testing"

// No more than refusedMax groups are refused: the latest ones.
func TestRefusedMost(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 1, Config{})
	l, now := layers[0], step()
	const more = 10
	refuse := func(i int) { l.Refuse(now, uint64(i)<<GroupBits, nil) }
	for i := range refusedMax + more {
		refuse(i)
		refuse(i) // does not count twice
	}
	if n := l.refused.groups.Len(); n != refusedMax {
		t.Errorf("%d groups are refused, want %d", n, refusedMax)
	}
	wants := map[int]bool{0: false, more - 1: false, more: true, refusedMax + more - 1: true}
	for i, want := range wants {
		if got := l.refused.has(uint64(i)<<GroupBits + 5); got != want {
			t.Errorf("group %d is refused: %v, want %v", i, got, want)
		}
	}
}

// A pass drops some of the messages of a refused group, and the next pass is due at once. A further
// group that is refused meanwhile is looked for in all messages. A probe does not find a
// message of a refused group.
func TestRefuseInTurns(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 2, Config{})
	to := connected(t, step, layers[1], layers[0])
	l, p := layers[0], newPeer(99)
	p.ep, p.err = to.ep, ErrPeer // so that nothing is sent
	for n := range uint64(2 * sweepMost) {
		m := &Message{peer: p, tag: (1+n%2)<<GroupBits + n, eager: true}
		l.unexpected.add(l.memory.keep(m, nil))
	}
	now := step()
	check := func(want int) {
		t.Helper()
		if n := l.Stats().UnexpectedMessages; n != want {
			t.Errorf("%d messages are left, want %d", n, want)
		}
		if due := l.Deadline() == now; due != (want > 0) {
			t.Errorf("with %d messages left, the next pass is due: %v", want, due)
		}
	}
	l.Refuse(now, 1<<GroupBits, nil)
	check(2*sweepMost - sweepMost/2)
	if m := l.MProbe(nil, 1<<GroupBits+sweepMost, exactly); m != nil {
		t.Error("a probe finds a message of a refused group")
	}
	check(2*sweepMost - sweepMost/2)
	l.Refuse(now, 2<<GroupBits, nil)
	now = step()
	check(sweepMost / 2)
	now = step()
	check(0)
}
