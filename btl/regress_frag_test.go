package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A handler that goes while a fragment arrives, for good or for a while, leaves nothing of it
// behind: what was refused once is not delivered in part or whole when the handler is back.
func TestHandlerGoesMidFragment(t *testing.T) {
	const size = 30_000 // 21 chunks
	for _, c := range []struct {
		name string
		back int // the handler is back before this chunk
	}{
		{"for good", 99},
		// A duplicate ACK has the refused chunk sent again at once. It is refused once more: by then
		// the sender may have failed the fragment, and then the rest of it does not come.
		{"back for the copy", 6},
		{"back late", 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := regressConfig()
			cfg.limits.PassPackets = 1 // a chunk in each pass
			cfg.Profile = "usnic"      // which sends again only what a time-out or a duplicate ACK asks for
			l := newLab(t, mem.Config{}, 2, cfg)
			ep, in := l.pair()
			got := 0
			mustHandle(t, l.mods[1], func() { got++ })
			l.settle(time.Second)
			chunks := 0
			l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
				switch kindOf(pkt) {
				case frag.KindChunk:
					if chunks++; chunks == 16 {
						return mem.Drop // comes again after the Void
					}
				case frag.KindNack:
					return mem.Hold // or no chunk would come after it
				}
				return mem.Deliver
			})
			ended := send(t, ep, size)
			for i := range 30 {
				switch i {
				case 5:
					l.unhandle(1)
				case c.back:
					mustHandle(t, l.mods[1], func() { got++ })
				}
				l.step(time.Microsecond)
			}
			if l.net.Held() == 0 || chunks < 21 || in.c.Asm.Active() != 1 {
				t.Fatalf("%d Nacks, %d chunks, %d fragments under way", l.net.Held(), chunks,
					in.c.Asm.Active())
			}
			l.net.SetFilter(deliverAll)
			for range 100 {
				l.step(time.Microsecond) // what is acknowledged is refused no more
			}
			l.net.Release()
			l.until("ended", 10*time.Microsecond, time.Second, func() bool {
				return !errors.Is(*ended, errPending)
			})
			if !errors.Is(*ended, ErrNoHandler) || got != 0 {
				t.Errorf("ended with %v, %d delivered", *ended, got)
			}
			l.settle(time.Second)
			if n := in.c.Asm.Active(); n != 0 {
				t.Errorf("%d fragments are left", n)
			}
			mustHandle(t, l.mods[1], func() { got++ })
			again := send(t, ep, size)
			l.settle(time.Second)
			if *again != nil || got != 1 {
				t.Errorf("the next one: %v, %d delivered", *again, got)
			}
			l.wantIdle(0)
			l.wantIdle(1)
		})
	}
}

func (l *lab) unhandle(i int) {
	l.tb.Helper()
	if err := l.mods[i].Handle(3, nil); err != nil {
		l.tb.Fatal(err)
	}
}

// A copy of a data packet that the network makes is no duplicate ACK, though the one that it
// carries was here before.
func TestDuplicatedPacketIsNoDuplicateAck(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	a, b := l.pair()
	mustHandle(t, l.mods[0], func() {})
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	cmd := string(nameOf(l.mods[1]).Command)
	copies := 0
	l.net.SetFilter(func(from, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindFrag && string(from) == cmd {
			copies++
			return mem.Duplicate
		}
		return mem.Deliver
	})
	for range 20 {
		send(t, a, 10)
		l.step(time.Microsecond)
		send(t, b, 10) // carries the ACK
		send(t, a, 10) // is in flight when the copy comes
		l.step(time.Microsecond)
		l.step(time.Microsecond)
	}
	l.settle(time.Second)
	s := l.mods[0].counted()
	if copies == 0 || int(s.Duplicates()) != copies || s.Get(CntDupAcks) != 0 || s.Retransmits() != 0 {
		t.Errorf("%d copies, %d duplicate ACKs, %d resends", s.Duplicates(), s.Get(CntDupAcks),
			s.Retransmits())
	}
}

// The first fragment of a queue finds a buffer though those behind it hold all that the endpoint
// may have, or all that there are.
func TestBuffersHeldByOwnQueue(t *testing.T) {
	for _, peers := range []int{1, 2} {
		for _, size := range []int{1000, 5000} { // one packet, chunks
			cfg := smallConfig()
			cfg.FragmentsMax = 256
			l := newLab(t, mem.Config{}, 3, cfg)
			if peers == 2 {
				l.connect(0, 2)
			}
			got := 0
			mustHandle(t, l.mods[1], func() { got++ })
			ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
			if err != nil {
				t.Fatal(err)
			}
			ended := []*error{send(t, ep, size)}
			for {
				f, err := ep.Alloc(3, 100)
				if err != nil {
					break
				}
				for i := range f.Bytes() {
					f.Bytes()[i] = byte(i)
				}
				end := errPending
				f.OnDone = func(_ *Fragment, err error) { end = err }
				if _, err := ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
				ended = append(ended, &end)
			}
			if len(ended) < 20 {
				t.Fatalf("only %d could be queued", len(ended))
			}
			l.until("all delivered", 10*time.Microsecond, time.Second, func() bool {
				return got == len(ended)
			})
			l.settle(time.Second)
			for i, e := range ended {
				if *e != nil {
					t.Fatalf("message %d: %v", i, *e)
				}
			}
			l.wantIdle(0)
		}
	}
}

// A dead peer is noticed in time though something is sent to it now and then.
func TestDeadPeerWhileSendingToIt(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	ep := l.connect(0, 1)
	l.settle(time.Second)
	dead := l.mods[1]
	l.mods = l.mods[:1]
	start := l.now
	for ep.Err() == nil && l.now.Sub(start) < 20*time.Second {
		if l.now.Sub(start)%(500*time.Millisecond) == 0 {
			if err := ep.SendImmediate(l.now, 3, []byte("x")); err != nil && !errors.Is(err, ErrAgain) {
				t.Fatal(err)
			}
		}
		l.step(10 * time.Millisecond)
	}
	if d := l.now.Sub(start); !errors.Is(ep.Err(), ErrPeerDead) || d > 5500*time.Millisecond {
		t.Errorf("after %v: %v", d, ep.Err())
	}
	l.mods = append(l.mods, dead)
}

// Ending one endpoint between two passes, long after the first of them, makes what was sent to
// another one no older than it is.
func TestAbortKeepsOthersYoung(t *testing.T) {
	l := newLab(t, mem.Config{}, 3, regressConfig())
	ep, other := l.connect(0, 1), l.connect(0, 2)
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	late := l.mods[1]
	l.mods = []*Module{l.mods[0], l.mods[2]}
	l.now = l.now.Add(time.Minute)
	ep.c.All.At(l.now) // which send takes as the present instant
	ended := send(t, ep, 10)
	other.Abort()
	for range 20 {
		l.step(10 * time.Millisecond)
	}
	l.mods = append(l.mods, late)
	l.until("ended", 10*time.Microsecond, time.Second, func() bool {
		return !errors.Is(*ended, errPending)
	})
	if n := counter(l.mods[0], CntRetransmitTimeout); *ended != nil || n > 2 {
		t.Errorf("to a peer that answers after 200 ms: %v, %d resends", *ended, n)
	}
}

// A peer that acknowledges nothing, and was the only one, leaves buffers to those that come later.
func TestNewcomerFindsBuffers(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax = 256
	l := newLab(t, mem.Config{}, 3, cfg)
	dead := l.connect(0, 1)
	mustHandle(t, l.mods[1], func() {})
	mustHandle(t, l.mods[2], func() {})
	for range 200 { // earns credits
		send(t, dead, 1000)
	}
	l.settle(time.Second)
	gone := l.mods[1]
	l.mods = []*Module{l.mods[0], l.mods[2]}
	for range 100 {
		send(t, dead, 1000)
	}
	for range 10 {
		l.step(time.Microsecond)
	}
	if p, _ := dead.Outstanding(); p < 50 {
		t.Fatalf("only %d packets are in flight to the dead peer", p)
	}
	ep := l.connect(0, 1) // the third module is second now
	ended := []*error{send(t, ep, 100), send(t, ep, 3000), send(t, ep, 1000)}
	start := l.now
	l.until("delivered", 10*time.Microsecond, time.Second, func() bool {
		for _, e := range ended {
			if *e != nil {
				return false
			}
		}
		return true
	})
	if d := l.now.Sub(start); d > 10*time.Millisecond {
		t.Errorf("delivered after %v", d)
	}
	l.mods = append(l.mods, gone)
}

// A living connection that another end of the peer has superseded outlives a partition that is
// shorter than PeerTimeout.
func TestSupersededThroughPartition(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	a, b := l.pair()
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	for i, ep := range []*Endpoint{a, b} {
		l.mods[i].all.Timers.Watches.Supersede(&ep.c)
		l.mods[i].all.Rest.Set(0)
	}
	l.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	for range 30 {
		l.step(100 * time.Millisecond)
	}
	l.net.SetFilter(deliverAll)
	for range 30 {
		l.step(100 * time.Millisecond)
	}
	ended := send(t, a, 100)
	l.settle(time.Second)
	if *ended != nil || a.c.Life.Superseded || b.c.Life.Superseded {
		t.Errorf("after the partition: %v, superseded %v and %v", *ended, a.c.Life.Superseded,
			b.c.Life.Superseded)
	}
}

// An endpoint whose last queued fragment the peer has refused has nothing to send: it does not stay
// on the ready list when others use up the packets of the pass.
func TestRefusedLeavesReadyList(t *testing.T) {
	cfg := regressConfig()
	cfg.limits.PassPackets = 1
	l := newLab(t, mem.Config{}, 3, cfg)
	refused, busy := l.connect(0, 1), l.connect(0, 2)
	mustHandle(t, l.mods[2], func() {})
	l.settle(time.Second)
	for range 40 {
		f, err := refused.PreparePut(make([]byte, 4000), Handle(1<<40), 0)
		if err != nil {
			t.Fatal(err)
		}
		var ended error
		f.OnDone = func(_ *Fragment, err error) { ended = err }
		if _, err := refused.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
		send(t, busy, 4000)
		l.until("the end of the put", 10*time.Microsecond, time.Second, func() bool {
			return ended != nil
		})
		if !errors.Is(ended, ErrRemoteAccess) {
			t.Fatal(ended)
		}
		l.settle(time.Second)
	}
}
