package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// narrowTo has the network lose datagrams beyond a size.
func (l *lab) narrowTo(sizeBytes int) {
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		if len(pkt) > sizeBytes {
			return mem.Drop
		}
		return mem.Deliver
	})
}

// TestPathFull has a connection at full size within two round trips.
func TestPathFull(t *testing.T) {
	l := newLab(t, mem.Config{MTUBytes: 9000}, 2, smallConfig())
	a, b := l.pair()
	l.until("full size", 10*time.Microsecond, 100*time.Microsecond, func() bool {
		return a.MTUBytes() == 9000 && b.MTUBytes() == 9000
	})
	if p := a.Path(); p.MTUBytesMost != 9000 || p.MTUWhy != "all that both devices take" {
		t.Errorf("%+v", p)
	}
}

// TestPartsCarryAll makes a path narrower under messages of all kinds and sizes, waiting and on
// their way: each arrives once, as it was, and what was too large came in Parts.
func TestPartsCarryAll(t *testing.T) {
	for _, profile := range []string{"adaptive", "usnic"} {
		for _, limit := range []int{1200, 1500, 4000} {
			cfg := smallConfig()
			cfg.Profile, cfg.SendBuffers = profile, 256
			l := newLab(t, mem.Config{MTUBytes: 9000}, 2, cfg)
			tr := newTraffic(t, testenv.Seed(t, 9), 1)
			l.mods[1].Handle(1, tr.receive)
			a, _ := l.pair()
			l.until("full size", 10*time.Microsecond, time.Second, func() bool {
				return a.MTUBytes() == 9000
			})
			l.narrowTo(limit)
			for _, size := range []int{8, 700, 3000, 8000, 8900, 20_000, 200_000, 5000, 60_000} {
				tr.send(a, size)
			}
			l.until("all has come", 50*time.Microsecond, 20*time.Second, tr.finished)
			tr.verify()
			p := a.Path()
			if p.MTUBytes > limit || p.Holes != 1 || counter(l.mods[0], CntSentPart) == 0 {
				t.Errorf("%s, %d: %+v, %d Parts", profile, limit, p, counter(l.mods[0], CntSentPart))
			}
			l.until("the size is found", time.Millisecond, 20*time.Second, func() bool {
				return a.MTUBytes() > limit-pmtu.GrainBytes
			})
			l.settle(time.Second)
			if n := l.mods[1].rx.PartsBytes(); n != 0 {
				t.Errorf("%d bytes in Parts are left", n)
			}
		}
	}
}

// TestPathRunsPass has a device of the path drop single packets of a size, and let runs of them
// pass, from the beginning and in mid-stream: the size that single packets have is found.
func TestPathRunsPass(t *testing.T) {
	const limit = 1500
	for _, fromTheBeginning := range []bool{true, false} {
		cfg := smallConfig()
		cfg.SendBuffers = 256
		l := newLab(t, mem.Config{MTUBytes: 9000}, 2, cfg)
		narrow := func() {
			l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
				if len(pkt) > limit && (l.spies[0].single || l.spies[1].single) {
					return mem.Drop
				}
				return mem.Deliver
			})
		}
		if fromTheBeginning {
			narrow()
		}
		tr := newTraffic(t, testenv.Seed(t, 9), 1)
		l.mods[1].Handle(1, tr.receive)
		a, _ := l.pair()
		if !fromTheBeginning {
			l.until("full size", 10*time.Microsecond, time.Second, func() bool {
				return a.MTUBytes() == 9000
			})
			narrow()
		}
		l.until("the size is found", 50*time.Microsecond, 20*time.Second, func() bool {
			if tr.finished() {
				tr.send(a, []int{3000, 60_000}[tr.rng.IntN(2)])
			}
			size := a.MTUBytes()
			return size > limit-pmtu.GrainBytes && size <= limit && a.c.Path.Stage == pmtu.Complete
		})
		l.until("all has come", 50*time.Microsecond, 20*time.Second, tr.finished)
		tr.verify()
	}
}

// narrowed is two modules whose path carries only small packets from now on, and a large fragment
// that a has accepted for b.
func narrowed(t *testing.T) (l *lab, a, b *Endpoint) {
	t.Helper()
	l = newLab(t, mem.Config{MTUBytes: 1472}, 2, smallConfig())
	a, b = l.pair()
	l.narrowTo(700)
	f, err := a.Prepare(1, make([]byte, 20_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	return l, a, b
}

// TestPathNarrowEnds has a path that carries nothing but the smallest packets end the connection,
// with an error that says so.
func TestPathNarrowEnds(t *testing.T) {
	l, a, b := narrowed(t)
	for end := l.now.Add(20 * time.Second); a.Err() == nil && l.now < end; {
		l.step(100 * time.Microsecond)
		if l.now%Time(100*time.Millisecond) < Time(100*time.Microsecond) { // it says something
			_ = b.SendImmediate(l.now, 1, []byte("here"))
		}
	}
	if a.Err() == nil || !bytes.Contains([]byte(a.Err().Error()), []byte(ErrNarrow.Error())) {
		t.Errorf("ended with %v", a.Err())
	}
}

// TestPathNarrowStopped stops both owners for as long as a path must have been narrow, while it is
// in doubt: as long again they must have been awake.
func TestPathNarrowStopped(t *testing.T) {
	l, a, _ := narrowed(t)
	const step = 100 * time.Microsecond
	l.until("only small packets pass", step, 5*time.Second, func() bool {
		return a.c.Path.WantsDelivered() && a.c.Path.Narrow(l.now, 0)
	})
	began := l.now
	timeout := l.mods[0].Config().PeerTimeout
	l.now = l.now.Add(timeout)
	l.until("the end", step, 20*time.Second, func() bool { return a.Err() != nil })
	if awake := l.now.Sub(began) - timeout; awake < timeout/2 {
		t.Errorf("%v after %v and a stop of %v", a.Err(), awake, timeout)
	}
}

// TestPathNarrowAway has a peer that was granted time without progress: its path is not found
// narrow before that is over, and then it is, though what is asked is seldom asked by then.
func TestPathNarrowAway(t *testing.T) {
	const timeout, away, step = time.Second, 3 * time.Second, 100 * time.Microsecond
	cfg := smallConfig()
	cfg.PeerTimeout = timeout
	l := newLab(t, mem.Config{MTUBytes: 1472}, 1, cfg)
	cfg.Away = away
	l.add(cfg, "")
	a, _ := l.pair()
	l.narrowTo(700)
	sendOrFail(t, a, 1, make([]byte, 20_000))
	began := l.now
	l.until("the end", step, 20*time.Second, func() bool { return a.Err() != nil })
	if took := l.now.Sub(began); !errors.Is(a.Err(), ErrNarrow) || took < timeout+away {
		t.Errorf("%v after %v", a.Err(), took)
	}
}

// TestPongsBounded sends more Pings than are answered; each answer is as small as the smallest.
func TestPongsBounded(t *testing.T) {
	const most = 32
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	s.connect()
	s.run(20)
	for range 3 * most {
		b := make([]byte, 100)
		frag.EncodePing(b, &frag.Header{Kind: frag.KindPing, Conn: s.conn}, 7, len(b))
		s.raw(1, b)
	}
	pongs := kinds(s.run(40), frag.KindPong)
	if len(pongs) != most {
		t.Errorf("%d Pongs", len(pongs))
	}
	for _, p := range pongs {
		if len(p.bytes) != frag.PongBytes || p.channel != 1 || frag.NonceOf(p.payload) != 7 {
			t.Fatalf("Pong of %d bytes on channel %d", len(p.bytes), p.channel)
		}
	}
}

// TestPartsRefused sends Parts of what may not come in Parts: nothing of it is taken.
func TestPartsRefused(t *testing.T) {
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	got := 0
	s.m.Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	ep := s.connect()
	send := func(n seq.Num, datagram []byte) {
		for at := 0; at < len(datagram); at += frag.PartGrain {
			k := min(frag.PartGrain, len(datagram)-at)
			b := make([]byte, frag.PartHeaderBytes+k)
			h := frag.Header{Conn: s.conn, Seq: n}
			copy(b[frag.PutPart(b, &h, at, len(datagram), k):], datagram[at:])
			s.raw(1, b)
		}
		s.run(4)
	}
	sound := frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next, Tag: 1}
	for _, change := range []func(h *frag.Header){
		func(h *frag.Header) { h.Seq++ },
		func(h *frag.Header) { h.Conn ^= 1 << 40 },
		func(h *frag.Header) { h.Kind, h.Flags, h.Seq, h.Tag = frag.KindAck, frag.FlagAck, 0, 0 },
		func(h *frag.Header) { h.Tag = frag.TagUserMax + 1 },
	} {
		h := sound
		change(&h)
		send(s.next, encode(h, make([]byte, 100)))
		if got != 0 || ep.c.Rcv.Next() != s.next || ep.Err() != nil {
			t.Fatalf("%+v is taken", h)
		}
	}
	send(s.next, encode(sound, make([]byte, 100)))
	if got != 1 || ep.c.Rcv.Next() != s.next.Add(1) {
		t.Errorf("%d messages came, next is %d", got, ep.c.Rcv.Next())
	}
	send(s.next, encode(sound, make([]byte, 100)))
	if got != 1 || s.m.rx.PartsBytes() != 0 {
		t.Errorf("%d messages came of a copy, %d bytes kept", got, s.m.rx.PartsBytes())
	}
}
