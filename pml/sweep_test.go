package pml

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// When many peers end at the same time, a pass handles the messages of some of them, and the next
// pass is due at once. A receive that matches an announcement of an ended peer ends with its error.
func TestEndsInTurns(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 1, Config{})
	l := layers[0]
	peers := []*Peer{newPeer(1), newPeer(2), newPeer(3)}
	for _, p := range peers {
		for range sweepMost {
			l.unexpected.add(l.memory.keep(&Message{peer: p, tag: 7, size: 1}, nil))
		}
		p.early = []*Message{nil, l.memory.keep(&Message{peer: p, eager: true, size: 1}, []byte{1})}
	}
	now := step()
	check := func(messages, bytes int) {
		t.Helper()
		s := l.Stats()
		if s.UnexpectedMessages != messages || s.UnexpectedBytes != bytes {
			t.Errorf("%d messages and %d bytes are left, want %d and %d", s.UnexpectedMessages,
				s.UnexpectedBytes, messages, bytes)
		}
		if due := l.Deadline() == now; due != (messages > 0) {
			t.Errorf("with %d messages left, the next pass is due: %v", messages, due)
		}
	}
	for _, p := range peers {
		l.end(p, btl.ErrClosed)
	}
	check(2*sweepMost, 2)
	var r Request
	if err := l.Recv(now, &r, nil, 7, exactly, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if !r.Done() || !errors.Is(r.Err(), ErrPeer) || r.Peer() != peers[1] {
		t.Errorf("the receive is done: %v, %v", r.Done(), r.Err())
	}
	now = step()
	check(sweepMost, 1)
	now = step()
	check(0, 0)
	if err := l.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// While the messages of ended peers have more than TotalBytes, a pass handles more than sweepMost
// messages.
func TestEndsBeyondTotal(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 1, Config{})
	l := layers[0]
	step()
	l.swept.left = 0
	for i := range 3 {
		p := newPeer(uint32(i + 1))
		for range sweepMost {
			l.unexpected.add(l.memory.keep(&Message{peer: p, tag: 7, size: 1}, nil))
		}
		l.swept.add(p, l.cfg.TotalBytes)
	}
	l.swept.sweep()
	if n := l.Stats().UnexpectedMessages; n != sweepMost {
		t.Errorf("%d messages are left, want %d", n, sweepMost)
	}
	step()
	if n := l.Stats().UnexpectedMessages; n != 0 || l.swept.bytes != 0 {
		t.Errorf("%d messages and %d bytes are left", n, l.swept.bytes)
	}
}

// A large table of early messages takes its share of a pass, also if it is empty.
func TestEndsWithEarlyTables(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 1, Config{})
	l := layers[0]
	now := step()
	for i := range 2 {
		p := newPeer(uint32(i + 1))
		p.early = make([]*Message, earlyPerMessage*sweepMost)
		l.end(p, btl.ErrClosed)
	}
	if l.Deadline() != now || l.swept.peers.first == nil {
		t.Error("one pass handles both tables")
	}
	step()
	if l.swept.peers.first != nil {
		t.Error("the next pass does not handle the second table")
	}
}
