package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// A peer that closes with a code is heard out, and the code told; each side's event comes once.
func TestCloseWith(t *testing.T) {
	for _, code := range []uint16{0, 7, CloseCodeMax} {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		got := 0
		l.mods[1].Handle(1, func(_ *Endpoint, _ Tag, data []byte) { got += len(data) })
		a, b := l.pair()
		sendOrFail(t, a, 1, make([]byte, 5000))
		if err := a.CloseWith(l.now, code); err != nil {
			t.Fatal(err)
		}
		l.until("closed", 100*time.Microsecond, time.Second, func() bool {
			return a.Err() != nil && b.Err() != nil
		})
		l.step(time.Microsecond)
		var why *errs.EndedError
		ends := l.ends(1, b)
		if len(ends) != 1 || ends[0].ev != EventClosed || !errors.Is(ends[0].err, ErrPeerClosed) ||
			!errors.As(ends[0].err, &why) || !why.Owner || why.Code != code {
			t.Errorf("code %d: the peer heard %v", code, ends)
		}
		if ends := l.ends(0, a); len(ends) != 1 || ends[0].ev != EventClosed || ends[0].err != nil {
			t.Errorf("code %d: this side heard %v", code, ends)
		}
		if got != 5000 {
			t.Errorf("code %d: %d bytes delivered", code, got)
		}
	}
	l := newLab(t, mem.Config{}, 2, smallConfig())
	a, _ := l.pair()
	if err := a.CloseWith(l.now, CloseCodeMax+1); !errors.Is(err, ErrConfig) || a.Err() != nil ||
		a.c.Closing {
		t.Errorf("a code that is too large: %v, the endpoint %v", err, a.Err())
	}
}

// Who gives a connection up says so once. If that is lost the peer finds out by itself.
func TestAbortIsTold(t *testing.T) {
	for _, lost := range []bool{false, true} {
		cfg := smallConfig()
		cfg.PeerTimeout = 500 * time.Millisecond
		l := newLab(t, mem.Config{}, 2, cfg)
		l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
		a, b := l.pair()
		l.settle(time.Second)
		dropped := 0
		l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
			if lost && pkt[3] == frag.TagBye {
				dropped++
				return mem.Drop
			}
			return mem.Deliver
		})
		a.Abort()
		for range 3 {
			l.step(time.Microsecond)
		}
		if lost {
			if b.Err() != nil || dropped != 1 {
				t.Fatalf("the peer ended with %v, %d told it", b.Err(), dropped)
			}
			sendOrFail(t, b, 1, []byte("is anybody there"))
			l.until("noticed", time.Millisecond, 5*time.Second, func() bool { return b.Err() != nil })
			if !errors.Is(b.Err(), ErrPeerDead) || dropped != 2 { // for it says that it gives up
				t.Errorf("the peer ended with %v, %d told it", b.Err(), dropped)
			}
			continue
		}
		var why *errs.EndedError
		ends := l.ends(1, b)
		if len(ends) != 1 || ends[0].ev != EventFailed || !errors.As(ends[0].err, &why) || why.Owner ||
			why.Code != frag.ByeAborted || !errors.Is(ends[0].err, ErrPeerClosed) {
			t.Errorf("the peer heard %v", ends)
		}
		l.settle(time.Second)
		l.wantIdle(0)
		l.wantEmpty(1)
	}
}

// A Bye that ends at once counts near the next number only, whatever code it has; it waits for
// nothing, and nothing is said to it.
func TestEndAtOnce(t *testing.T) {
	for _, code := range []uint16{frag.ByeAborted, frag.ByeDead, 6, frag.ByeOwner - 1} {
		s := scripted(t, smallConfig())
		ep := s.connect()
		window := seq.Num(s.m.Config().Rules.WindowPackets)
		say := func(n seq.Num) {
			h := frag.Header{
				Kind: frag.KindFrag, Tag: frag.TagBye, Conn: s.conn, Seq: n, PayloadLen: frag.ByeCodeBytes,
				Number: 1,
			}
			b := make([]byte, frag.FragHeaderBytes+frag.ByeCodeBytes)
			frag.PutByeCode(b[h.Encode(b):], code)
			s.raw(0, b)
			s.run(2)
		}
		for _, n := range []seq.Num{s.next - 1, s.next + window + 1, s.next + 1<<31} {
			if say(n); ep.Err() != nil {
				t.Fatalf("code %d: number %d, expected is %d: %v", code, n, s.next, ep.Err())
			}
		}
		s.take()
		say(s.next + window)
		var why *errs.EndedError
		if !errors.As(ep.Err(), &why) || why.Code != code || why.Owner {
			t.Errorf("code %d: %v", code, ep.Err())
		}
		if sent := s.run(5); len(sent) != 0 {
			t.Errorf("code %d is answered: %v", code, sent[0].hdr)
		}
		if n := peersOf(s.m); n != 0 {
			t.Errorf("code %d: %d endpoints left", code, n)
		}
	}
}

// Nothing counts that has a higher number than a Bye which is here, though that waits for others.
func TestNothingAfterBye(t *testing.T) {
	s := scripted(t, smallConfig())
	got := 0
	s.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	ep := s.connect()
	bye := frag.Header{Kind: frag.KindFrag, Tag: frag.TagBye, Conn: s.conn, Seq: s.next + 1, Number: 1}
	b := make([]byte, frag.FragHeaderBytes)
	bye.Encode(b)
	s.raw(0, b)
	s.frag(s.next+2, 1, []byte("late"))
	s.run(2)
	if got != 0 || ep.Err() != nil {
		t.Fatalf("%d delivered behind the Bye, endpoint %v", got, ep.Err())
	}
	s.frag(s.next, 1, []byte("in time"))
	s.run(2)
	if got != 1 || !errors.Is(ep.Err(), ErrPeerClosed) {
		t.Errorf("%d delivered, endpoint %v", got, ep.Err())
	}
}

// A chunk that is refused for want of memory is no copy of one that was received.
func TestRefusedIsNoCopy(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<20, 1<<20
	s := scripted(t, cfg)
	s.m.Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := s.connect()
	copies := func() uint32 {
		_, _, _, n := ep.c.Rcv.Latest(s.l.now)
		return n
	}
	s.chunk(s.next, 1, 1<<20, 0, make([]byte, s.room()))
	s.chunk(s.next+1, 2, 1<<20, 0, make([]byte, s.room()))
	s.run(2)
	if n := counter(s.m, CntDropReassembly); n != 1 || copies() != 0 {
		t.Errorf("%d chunks refused, %d copies", n, copies())
	}
	s.chunk(s.next, 1, 1<<20, 0, make([]byte, s.room()))
	s.run(2)
	if copies() != 1 {
		t.Errorf("%d copies, want 1", copies())
	}
}

// A process that has said for how long it may compute is not dead meanwhile; one that is silent for
// longer is, and so is one whose peer grants it nothing.
func TestAway(t *testing.T) {
	const timeout = 5 * time.Second
	for _, c := range []struct {
		asks, grants, silent time.Duration
		lives                bool
	}{
		{20 * time.Second, 0, 20 * time.Second, true},
		{20 * time.Second, 0, time.Minute, false},
		{20 * time.Second, -1, 20 * time.Second, false},
		{time.Hour, 10 * time.Second, 14 * time.Second, true},
		{time.Hour, 10 * time.Second, 20 * time.Second, false},
		{0, 0, 20 * time.Second, false},
	} {
		cfg := smallConfig()
		cfg.PeerTimeout, cfg.limits.AwayMax = timeout, c.grants
		l := newLab(t, mem.Config{}, 1, cfg)
		cfg.Away = c.asks
		l.add(cfg, "")
		got := 0
		l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { got++ })
		a, _ := l.pair()
		l.settle(time.Second)
		sendOrFail(t, a, 1, make([]byte, 2000))
		began := l.now
		for l.now.Sub(began) < c.silent && a.Err() == nil { // the other one computes
			l.now = l.now.Add(10 * time.Millisecond)
			if _, err := l.mods[0].Progress(l.now); err != nil {
				t.Fatal(err)
			}
		}
		took := l.now.Sub(began)
		granted := min(c.asks, max(c.grants, 0))
		if c.grants == 0 {
			granted = min(c.asks, time.Minute)
		}
		if !c.lives {
			if slack := timeout / 4; !errors.Is(a.Err(), ErrPeerDead) || took < timeout+granted ||
				took > timeout+granted+slack {
				t.Errorf("%+v: %v after %v", c, a.Err(), took)
			}
			continue
		}
		l.until("delivered", time.Millisecond, 5*time.Second, func() bool { return got == 1 })
		if a.Err() != nil {
			t.Errorf("%+v: %v after %v", c, a.Err(), took)
		}
	}
}

// scripted is a peer that the test plays, beside one module.
func scripted(t *testing.T, cfg Config) *script {
	t.Helper()
	_, s := newStranger(t, cfg)
	return s
}

// Who gives up while it is connecting says so to a peer that is connected to it already.
func TestAbortWhileConnecting(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.net.SetFilter(func(_, to, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindHelloAck &&
			string(to) == string(nameOf(l.mods[0]).Data) {
			return mem.Drop
		}
		return mem.Deliver
	})
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("connected there", 10*time.Microsecond, time.Second, b.Connected)
	if a.Connected() {
		t.Fatal("connected here, too")
	}
	a.Abort()
	for range 3 {
		l.step(time.Microsecond)
	}
	if !errors.Is(b.Err(), ErrPeerClosed) {
		t.Errorf("the peer's endpoint ended with %v", b.Err())
	}
}
