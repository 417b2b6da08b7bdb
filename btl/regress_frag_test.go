package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A handler that goes while a fragment arrives, for good or for a while, leaves nothing of it behind;
// and what comes when the handler is back is delivered.
func TestHandlerGoesMidFragment(t *testing.T) {
	const size = 30_000 // 21 chunks
	for _, c := range []struct {
		name string
		back int // the handler is back before this chunk
		want error
		got  int
	}{
		{"for good", 99, ErrNoHandler, 0},
		{"back for the copy", 6, nil, 1}, // a duplicate ACK has the refused chunk sent again at once
		{"back late", 12, ErrNoHandler, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := regressConfig()
			cfg.PassPackets = 1 // a chunk in each pass
			l := newLab(t, mem.Config{}, 2, cfg)
			ep, in := l.pair()
			got := 0
			mustHandle(t, l.mods[1], func() { got++ })
			l.settle(time.Second)
			chunks := 0
			l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
				switch kindOf(pkt) {
				case frag.KindChunk:
					chunks++
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
			if l.net.Held() == 0 || chunks < 21 || in.asm.Active() != 1-c.got {
				t.Fatalf("%d Nacks, %d chunks, %d fragments under way", l.net.Held(), chunks,
					in.asm.Active())
			}
			l.net.SetFilter(deliverAll)
			l.net.Release()
			l.until("ended", 10*time.Microsecond, time.Second, func() bool {
				return !errors.Is(*ended, errPending)
			})
			if !errors.Is(*ended, c.want) || got != c.got {
				t.Errorf("ended with %v, %d delivered", *ended, got)
			}
			l.settle(time.Second)
			if n := in.asm.Active(); n != 0 {
				t.Errorf("%d fragments are left", n)
			}
			mustHandle(t, l.mods[1], func() { got++ })
			again := send(t, ep, size)
			l.settle(time.Second)
			if *again != nil || got != c.got+1 {
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

// What is remembered of refused chunks has a bound, and goes when the window has passed them.
func TestRefusalsAreBounded(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	_, in := l.pair()
	in.asm.Init(l.mods[1].pool, 100)
	first := in.rcv.Next()
	for i := range uint32(2 * refusalsMax) {
		h := frag.Header{Kind: frag.KindChunk, Seq: first.Add(i), FragID: i / 2}
		in.refuse(&h)
		in.refuse(&h)
	}
	if n := len(in.refusals); n != refusalsMax || in.refusals[n-1].fragID != refusalsMax-1 {
		t.Errorf("%d are remembered, the last %+v", n, in.refusals[n-1])
	}
	in.voided(first.Add(2*refusalsMax - 1))
	if !in.failedThere(refusalsMax-1) || in.failedThere(refusalsMax-2) {
		t.Error("the wrong fragment has failed")
	}
	for range in.rcv.Size() + 2*refusalsMax {
		in.rcv.Accept(l.now, in.rcv.Next(), &l.mods[1].rules)
	}
	if in.failedThere(refusalsMax-1) || len(in.refusals) != 0 {
		t.Errorf("%d are remembered for ever", len(in.refusals))
	}
	in.rcv.TakeAck(l.mods[1].credits)
}

// A copy of a data packet that the network makes is no duplicate ACK, though the one that it carries
// was here before.
func TestDuplicatedPacketIsNoDuplicateAck(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	a, b := l.pair()
	mustHandle(t, l.mods[0], func() {})
	mustHandle(t, l.mods[1], func() {})
	l.settle(time.Second)
	cmd := string(l.mods[1].cmd.name)
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
	s := &l.mods[0].stats
	if copies == 0 || int(s.Duplicates()) != copies || s.Get(CntDupAcks) != 0 || s.Retransmits() != 0 {
		t.Errorf("%d copies, %d duplicate ACKs, %d resends", s.Duplicates(), s.Get(CntDupAcks),
			s.Retransmits())
	}
}
