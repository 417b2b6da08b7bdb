package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// firstPart sends the first Part of a packet with number n, and none of the others.
func firstPart(s *script, n seq.Num) {
	const sliceBytes, totalBytes = 512, 9000
	b := make([]byte, frag.PartHeaderBytes+sliceBytes)
	h := frag.Header{Conn: s.conn, Seq: n}
	frag.PutPart(b, &h, 0, totalBytes, sliceBytes)
	s.raw(1, b)
	s.run(2)
}

// The memory of a packet that the peer does not complete is free after the dead time-out, although
// the peer stays connected. If a packet began later, its memory is free later.
func TestPartsTimeOut(t *testing.T) {
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	ep := s.connect()
	rules := &s.m.all.Timers.Watches.Rules
	bytes := s.m.rx.PartsBytes
	firstPart(s, s.next)
	firstPart(s, s.next+5)
	s.l.idleFor(rules.PeerTimeout / 2)
	firstPart(s, s.next+1)
	all := bytes()
	s.l.idleFor(rules.PeerTimeout/2 - 10*time.Millisecond)
	if got := bytes(); got != all || all == 0 {
		t.Errorf("%d bytes are left of %d before the time-out", got, all)
	}
	s.l.idleFor(20*time.Millisecond + rules.PressAfter())
	if got := bytes(); got != all/3 {
		t.Errorf("%d bytes are left of %d after the time-out of two of three packets", got, all)
	}
	s.l.idleFor(rules.PeerTimeout)
	if got := bytes(); got != 0 || ep.Err() != nil {
		t.Errorf("%d bytes are left, the endpoint has ended with %v", got, ep.Err())
	}
	if got := s.m.rx.PartsDeadline(); got != Never {
		t.Errorf("without Parts, they expire at %d", got)
	}
}

// The Bye of a peer that aborts the connection is accepted while packets are incomplete, and frees
// their memory.
func TestPartsOfAbort(t *testing.T) {
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	ep := s.connect()
	firstPart(s, s.next)
	firstPart(s, s.next+5)
	if s.m.rx.PartsBytes() == 0 {
		t.Fatal("no Part is kept")
	}
	code := make([]byte, frag.ByeCodeBytes)
	s.raw(0, encode(frag.Header{
		Kind: frag.KindFrag, Conn: s.conn, Seq: s.next + 6, Tag: frag.TagBye,
	}, code[:frag.PutByeCode(code, frag.ByeAborted)]))
	s.run(2)
	if ep.Err() == nil || s.m.rx.PartsBytes() != 0 {
		t.Errorf("the endpoint has ended with %v, %d bytes are left", ep.Err(), s.m.rx.PartsBytes())
	}
}
