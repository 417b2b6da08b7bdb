package btl

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// Rule 1: next to send minus oldest unacknowledged never exceeds the window, and every number
// between them is one segment with a timer or on the resend list. Check proves it after every pass;
// here windows of several sizes are driven into their limit under loss.
func TestContract01WindowUnderLoss(t *testing.T) {
	for _, window := range []int{1, 2, 8, 32} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			cfg := smallConfig()
			cfg.Rules.WindowPackets = window
			cfg.Rules.ResendTimeout = 2 * time.Millisecond
			l := newLab(t, mem.Config{}, 2, cfg)
			tr := newTraffic(t, testenv.Seed(t, uint64(window)), 1)
			l.mods[1].Handle(1, tr.receive)
			ep, _ := l.pair()
			l.chaos(chaos{loss: 0.05, dup: 0.02, hold: 0.05}, tr.rng.Uint64())
			most, queued := 0, 0
			for range 40 {
				for tr.send(ep, drawSize(tr.rng, 20_000)) && tr.rng.IntN(4) > 0 {
					continue
				}
				for range 20 {
					l.step(50 * time.Microsecond)
					l.chaosStep()
					packets, fragments := ep.Outstanding()
					most, queued = max(most, packets), max(queued, fragments)
				}
			}
			l.calm()
			l.until("all delivered", 50*time.Microsecond, 10*time.Second, tr.finished)
			tr.verify()
			// Draws that keep a large window from being full are rare enough to be no excuse up to 8.
			if most > window || most < min(window, 8) || queued == 0 {
				t.Errorf("at most %d packets in flight and %d queued, with a window of %d", most, queued,
					window)
			}
		})
	}
}

// Rule 1, the windows of two sides: the smaller of what the sender may and the receiver can take.
func TestContract01WindowOfPeer(t *testing.T) {
	l, s := newStranger(t, apart())
	s.hello.WindowPkts = 6 // not a power of two: 4 are used
	ep := s.connect()
	for range 20 {
		sendOrFail(t, ep, 1, []byte("x"))
	}
	s.ack(s.peerFirst - 1)
	l.step(time.Microsecond)
	if got, _ := ep.Outstanding(); got != 4 {
		t.Errorf("%d packets in flight to a peer with a window of 6, want 4", got)
	}
}

// Rule 2: a buffer is reused only when it is acknowledged and its last post has completed. Here the
// fabric reads buffers late and the spy compares them with what was posted; payloads are verified
// at their destination too.
func TestContract02LateReads(t *testing.T) {
	cfg := smallConfig()
	cfg.TxDepth = 24
	cfg.Rules.ResendTimeout = time.Millisecond
	l := newLab(t, mem.Config{InjectBytes: 1472}, 0, cfg)
	l.late = true
	l.add(cfg, "")
	l.add(cfg, "")
	seed := testenv.Seed(t, 2)
	there, back := newTraffic(t, seed, 1), newTraffic(t, seed+1, 2)
	l.mods[1].Handle(1, there.receive)
	l.mods[0].Handle(2, back.receive)
	a, b := l.pair()
	l.chaos(chaos{loss: 0.05, dup: 0.05, hold: 0.05}, seed)
	for range 200 {
		there.send(a, drawSize(there.rng, 30_000))
		back.send(b, drawSize(back.rng, 30_000))
		for range 5 {
			l.step(100 * time.Microsecond)
			l.chaosStep()
		}
	}
	l.calm()
	l.until("all delivered", 100*time.Microsecond, 20*time.Second, func() bool {
		return there.finished() && back.finished()
	})
	there.verify()
	back.verify()
	l.settle(5 * time.Second)
	l.wantIdle(0)
	l.wantIdle(1)
	if s := l.mods[0].counted(); s.Retransmits() == 0 {
		t.Error("nothing was sent again")
	}
}

// Rule 2, the other order: everything is acknowledged and no post has completed. No buffer that an
// endpoint may have is free until the completions come, then all are.
func TestContract02HeldCompletions(t *testing.T) {
	cfg := apart()
	l := newLab(t, mem.Config{InjectBytes: 1472}, 1, cfg)
	l.hold = true
	i := l.add(cfg, "")
	l.spies[i].hold = false // not yet
	ended := 0
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := l.connect(i, 0)
	m := l.mods[i]
	l.settle(time.Second)
	l.spies[i].hold = true
	reserve := cfg.SendBuffers / share.NewcomersShare
	for range cfg.SendBuffers - reserve {
		f, err := ep.Alloc(1, 100)
		if err != nil {
			t.Fatal(err)
		}
		f.Signal = true
		f.OnDone = func(_ *Fragment, err error) {
			if ended++; err != nil {
				t.Error(err)
			}
		}
		if _, err := ep.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
	}
	l.until("acknowledged", 20*time.Microsecond, time.Second, func() bool {
		return ended == cfg.SendBuffers-reserve
	})
	if n := len(m.all.Buffers.FreeSegs); n != reserve {
		t.Errorf("%d buffers are free while the fabric has all but %d of them", n, reserve)
	}
	if _, err := ep.Alloc(1, 100); err == nil {
		t.Error("a buffer was lent that the fabric has")
	}
	l.spies[i].hold = false
	l.settle(time.Second)
	l.wantIdle(i)
}

// Rule 2 for memory that the fabric gathers from: a fragment's OnDone, after which the memory is
// the caller's again, comes only when no post that reads it is outstanding.
func TestContract02GatheredMemoryHeld(t *testing.T) {
	cfg := smallConfig()
	l := newLab(t, mem.Config{InjectBytes: 1472}, 1, cfg)
	l.hold = true
	i := l.add(cfg, "")
	l.spies[i].hold = false
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	ep := l.connect(i, 0)
	l.settle(time.Second)
	data := make([]byte, 10_000)
	reg, err := l.mods[i].RegisterMemory(data)
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	for _, end := range []string{"acknowledged", "aborted"} {
		l.spies[i].hold = true
		f, err := ep.Prepare(1, data)
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		f.OnDone = func(*Fragment, error) { ended++ }
		if _, err := ep.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			l.step(20 * time.Microsecond)
		}
		if end == "aborted" {
			ep.Abort()
		} else if n, _ := ep.Outstanding(); n != 0 {
			t.Fatalf("%d packets not acknowledged", n)
		}
		for range 10 {
			l.step(20 * time.Microsecond)
		}
		if ended != 0 {
			t.Errorf("%s: OnDone came while the fabric may still read the memory", end)
		}
		l.spies[i].hold = false
		for range 10 {
			l.step(20 * time.Microsecond)
		}
		if ended != 1 {
			t.Errorf("%s: OnDone came %d times after the last completion", end, ended)
		}
	}
	if l.spies[i].gathered == 0 {
		t.Error("nothing was gathered")
	}
}

// Rule 2 for addresses: what waits in a batch, or is posted, when its endpoint ends still leaves
// under an address that is inserted; then the address goes too.
func TestContract02AddressHeld(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	if err := l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	a, _ := l.pair()
	l.settle(time.Second)
	spy := l.spies[0]
	spy.refuse = func() error { return fabric.ErrAgain }
	sendOrFail(t, a, 1, make([]byte, 20_000))
	l.step(time.Microsecond)
	if len(l.mods[0].all.Port.Data.Batch) == 0 {
		t.Fatal("nothing waits in the batch")
	}
	a.Abort()
	for range 3 {
		l.step(time.Microsecond)
	}
	spy.refuse = nil
	for range 3 {
		l.step(time.Microsecond)
	}
	if spy.afterRemove > 0 {
		t.Errorf("%d packets were posted to an address that had been removed", spy.afterRemove)
	}
	l.wantEmpty(0)
}

// wrapRandom returns random numbers whose lower half is first, so that every sequence starts there.
func wrapRandom(seed uint64, first uint32) func() uint64 {
	rng := newRand(seed)
	return func() uint64 { return rng.Uint64()<<32 | uint64(first) }
}

// Rule 4: every message is delivered exactly once, whole and unaltered, in both directions, under
// loss, duplication and reordering, across the wraps of 16, 31 and 32 bits.
func TestContract04ExactlyOnce(t *testing.T) {
	for i, first := range []uint32{1<<16 - 20, 1<<31 - 20, 1<<32 - 20, 1<<32 - 1, 1} {
		t.Run(fmt.Sprintf("first=%d", first), func(t *testing.T) {
			seed := testenv.Seed(t, uint64(i)+40)
			cfg := smallConfig()
			cfg.Rules.ResendTimeout = 3 * time.Millisecond
			cfg.Rules.ResendTimeoutMax = 12 * time.Millisecond
			l := newLab(t, mem.Config{}, 0, cfg)
			for j := range 2 {
				cfg.Random = wrapRandom(seed+uint64(j), first)
				l.add(cfg, "")
			}
			there, back := newTraffic(t, seed+2, 1), newTraffic(t, seed+3, 2)
			l.mods[1].Handle(1, there.receive)
			l.mods[0].Handle(2, back.receive)
			a, b := l.pair()
			l.chaos(chaos{loss: 0.03, dup: 0.03, hold: 0.06}, seed+4)
			for len(there.sent)+len(back.sent) < 1200 {
				there.send(a, drawSize(there.rng, 300<<10))
				back.send(b, drawSize(back.rng, 60<<10))
				for range 12 {
					l.step(30 * time.Microsecond)
					l.chaosStep()
				}
			}
			for range 20_000 {
				if there.finished() && back.finished() {
					break
				}
				l.step(100 * time.Microsecond)
				l.chaosStep()
			}
			l.calm()
			l.until("all delivered", 100*time.Microsecond, 5*time.Second, func() bool {
				return there.finished() && back.finished()
			})
			there.verify()
			back.verify()
			l.settle(5 * time.Second)
			l.wantIdle(0)
			l.wantIdle(1)
			if _, next := a.c.Snd.Window(); uint32(next)-first < 40 {
				t.Errorf("only %d packets were sent: the wrap was not reached", uint32(next)-first)
			}
			if s := l.mods[1].counted(); s.Duplicates() == 0 || s.Get(CntEarly) == 0 {
				t.Error("the network was too kind")
			}
		})
	}
}

// Rule 5: an ACK never covers a packet that was refused. The script sends what cannot be taken,
// with good packets around it, and reads the ACKs.
func TestContract05RefusedNotAcknowledged(t *testing.T) {
	const size = 40 << 10 // of a fragment; one fits the reassembly memory, two do not
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 64<<10, 64<<10
	room := uint32(1472 - frag.ChunkHeaderBytes)
	for _, c := range []struct {
		name   string
		before func(*script)              // packets that are taken, from number 1000 on
		refuse func(s *script)            // sends the refused packet under s.next
		reason Counter                    // why it is refused
		nack   uint8                      // what the peer is told, 0 nothing
		again  func(s *script, m *Module) // makes it acceptable
	}{
		{
			name: "reassembly memory exhausted",
			before: func(s *script) {
				s.chunk(s.next, 1, size, 0, make([]byte, room))
				s.next++
			},
			refuse: func(s *script) { s.chunk(s.next, 2, size, 0, make([]byte, room)) },
			reason: CntDropReassembly, nack: frag.NackMemory,
			again: nil, // shown by TestContract05BudgetRecovers
		},
		{
			name:   "larger than this side takes",
			refuse: func(s *script) { s.chunk(s.next, 1, 1<<20, 0, make([]byte, room)) },
			reason: CntDropReassembly,
		},
		{
			name: "of another grid than the fragment",
			before: func(s *script) {
				s.chunk(s.next, 1, size, 0, make([]byte, room))
				s.next++
			},
			refuse: func(s *script) {
				s.raw(1, encode(frag.Header{
					Kind: frag.KindChunk, Conn: s.conn, Seq: s.next, Tag: 1, FragID: 1, SizeBytes: size,
					OffsetBytes: room - 1, FirstBytes: uint16(room - 1), ChunkBytes: uint16(room),
				}, make([]byte, room)))
			},
			reason: CntDropReassembly,
		},
		{
			name:   "no handler",
			refuse: func(s *script) { s.frag(s.next, 9, []byte("nobody")) },
			reason: CntDropNoHandler,
			nack:   frag.NackNoHandler,
			again:  func(_ *script, m *Module) { m.Handle(9, func(*Endpoint, Tag, []byte) {}) },
		},
		{
			name: "put to no region",
			refuse: func(s *script) {
				s.raw(0, encode(frag.Header{
					Kind: frag.KindFrag, Flags: frag.FlagPut, Conn: s.conn,
					Seq: s.next, Handle: 0x1234_0000,
				}, []byte("x")))
			},
			reason: CntDropAccess,
			nack:   frag.NackAccess,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := newStranger(t, cfg)
			l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
			s.connect()
			if c.before != nil {
				c.before(s)
			}
			refused := s.next
			c.refuse(s)
			s.frag(refused+1, 1, []byte("taken"))
			pkts := s.run(20)
			if n := l.mods[0].counted().Get(c.reason); n != 1 {
				t.Fatalf("%v is %d, want 1", c.reason, n)
			}
			seen := acks(pkts)
			for _, ack := range seen {
				if ack != refused-1 {
					t.Errorf("ACK of %d, want %d: packet %d was refused", ack, refused-1, refused)
				}
			}
			if len(seen) == 0 {
				t.Error("no ACK at all")
			}
			if nacks := kinds(pkts, frag.KindNack); len(nacks) > 0 != (c.nack != 0) ||
				c.nack != 0 && (nacks[0].hdr.Tag != c.nack || nacks[0].hdr.Seq != refused) {
				t.Errorf("NACKs %+v, want reason %d", nacks, c.nack)
			}
			if c.again != nil {
				c.again(s, l.mods[0])
				c.refuse(s)
			} else { // what a sender does that gives up
				s.raw(1, encode(frag.Header{
					Kind: frag.KindFrag, Conn: s.conn, Seq: refused,
					Tag: frag.TagVoid,
				}, nil))
			}
			if seen = acks(s.run(20)); len(seen) == 0 || seen[len(seen)-1] != refused+1 {
				t.Errorf("ACKs %v after the packet was taken, want %d", seen, refused+1)
			}
		})
	}
}

// Rule 5 between modules: two senders whose fragments do not fit the receiver's memory together
// both get them through.
func TestContract05BudgetRecovers(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 64<<10, 64<<10
	cfg.Rules.ResendTimeout = 2 * time.Millisecond
	l := newLab(t, mem.Config{}, 3, cfg)
	var tr [2]*traffic
	for i := range tr {
		tr[i] = newTraffic(t, testenv.Seed(t, uint64(i)+50), Tag(i))
		l.mods[2].Handle(Tag(i), tr[i].receive)
	}
	a, b := l.connect(0, 2), l.connect(1, 2)
	l.chaos(chaos{loss: 0.02, hold: 0.05}, 5)
	for range 5 {
		tr[0].send(a, 60<<10)
		tr[1].send(b, 60<<10)
	}
	for range 3000 {
		l.step(50 * time.Microsecond)
		l.chaosStep()
	}
	l.calm()
	l.until("all delivered", 50*time.Microsecond, 10*time.Second, func() bool {
		return tr[0].finished() && tr[1].finished()
	})
	tr[0].verify()
	tr[1].verify()
	if n := counter(l.mods[2], CntDropReassembly); n == 0 {
		t.Error("the memory was never exhausted")
	}
	if s := l.mods[2].all.Pool.ActiveBytes(); s != 0 {
		t.Errorf("%d bytes of reassembly memory in use when idle", s)
	}
}
