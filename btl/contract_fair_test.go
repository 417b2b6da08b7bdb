package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// fairScript is a script that grants so many credits to a module with room for them.
func fairScript(t *testing.T, cfg Config, credit uint16) (*script, *Endpoint) {
	t.Helper()
	_, s := newStranger(t, cfg)
	s.credit, s.hello.Credit = credit, credit
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	return s, ep
}

func fairConfig() Config {
	cfg := smallConfig()
	cfg.SendBuffers, cfg.FragmentsMax = 512, 256
	cfg.Rules.Congestion = reliability.CongestionFixed // or the windows would still grow
	return cfg
}

// chunks counts the packets of large fragments.
func chunks(pkts []sentPacket) (n int) { return len(kinds(pkts, frag.KindChunk)) }

// A tiny message to a peer whose large one fills the window leaves inside Send: places are left to
// it, in proportion to the window.
func TestFairTinyBesideLarge(t *testing.T) {
	for _, c := range []struct {
		credit uint16
		spare  int
	}{{4, 0}, {32, 2}, {64, 4}, {400, 8}} {
		s, ep := fairScript(t, fairConfig(), c.credit)
		sendOrFail(t, ep, 1, make([]byte, 1<<20))
		if n := chunks(s.run(12)); n != int(c.credit)-c.spare {
			t.Fatalf("%d chunks left for %d credits, want %d left over", n, c.credit, c.spare)
		}
		for i := range c.spare {
			if st, err := sendStatus(ep, 64); err != nil || st != Done {
				t.Errorf("tiny message %d: status %d, %v", i, st, err)
			}
			if got := s.take(); len(got) != 1 || got[0].hdr.Kind != frag.KindFrag {
				t.Errorf("tiny message %d: %d packets before any pass", i, len(got))
			}
			if got := s.run(1); len(got) != 0 {
				t.Errorf("%d packets follow tiny message %d", len(got), i)
			}
		}
		if err := ep.SendImmediate(ep.Now(), 1, make([]byte, 64)); !errors.Is(err, ErrAgain) {
			t.Errorf("a tiny message beyond the window: %v", err)
		}
	}
}

// What is queued while the window is closed leaves before more of a large message when it opens.
func TestFairSmallFirst(t *testing.T) {
	s, ep := fairScript(t, apart(), 8)
	sendOrFail(t, ep, 1, make([]byte, 100_000))
	if n := chunks(s.run(2)); n != 8 {
		t.Fatalf("%d chunks", n)
	}
	for range 3 {
		sendOrFail(t, ep, 1, make([]byte, 1000))
	}
	s.ack(s.peerFirst + 3)
	got := s.run(1)
	if len(got) != 4 || len(kinds(got[:3], frag.KindFrag)) != 3 || chunks(got) != 1 {
		t.Errorf("%d packets, %d chunks, want three small ones and a chunk", len(got), chunks(got))
	}
}

// Small and large messages of one endpoint share what the window lets through byte by byte, however
// it opens, and however many small ones the caller sends: those that are not due wait in the queue.
func TestFairSmallAndLarge(t *testing.T) {
	for _, c := range []struct {
		name   string
		credit uint16
		step   int // packets that an ACK covers at most
		size   int // of the small ones
	}{
		{"one by one", 32, 1, 1000},
		{"one by one, packed", 32, 1, 100},
		{"in bursts", 64, 32, 1000},
		{"in bursts, packed", 64, 32, 30},
		{"narrow", 2, 1, 1000},
		{"single", 1, 1, 1000},
		{"wide", 400, 400, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := fairConfig()
			cfg.limits.QuantumBytes, cfg.FragmentsMax, cfg.limits.PassPackets = 4000, 1<<13, 16
			s, ep := fairScript(t, cfg, c.credit)
			last := s.peerFirst - 1
			var seen seq.Num // acknowledged
			seen = last
			small, large := 0, 0
			for range 8 {
				sendOrFail(t, ep, 1, make([]byte, 1<<20))
			}
			for range 3000 {
				for queued(ep)*c.size < 40_000 {
					f, err := ep.Prepare(1, make([]byte, c.size))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := ep.Send(ep.Now(), f); err != nil {
						t.Fatal(err)
					}
				}
				for _, p := range s.run(1) {
					switch p.hdr.Kind {
					case frag.KindChunk:
						large += len(p.bytes)
					case frag.KindFrag, frag.KindPack:
						small += len(p.bytes)
					default:
						continue
					}
					last = last.Max(p.hdr.Seq)
				}
				if n := int(last - seen); n > 0 {
					seen = seen.Add(uint32(min(n, c.step)))
					s.ack(seen)
				}
				if small+large > 600_000 {
					break
				}
			}
			if small+large < 200_000 || small > large+8000 || large > small+8000 {
				t.Errorf("%d bytes of small messages, %d of large ones", small, large)
			}
		})
	}
}

// A flood of small messages, whose buffers the caller takes again as soon as they are free, does
// not keep a large one from going on.
func TestFairBuffers(t *testing.T) {
	cfg := apart()
	cfg.FragmentsMax = 2 * cfg.SendBuffers // so that buffers run out first
	s, ep := fairScript(t, cfg, 400)
	sendOrFail(t, ep, 1, make([]byte, 20_000))
	var flood func(*Fragment, error)
	flood = func(*Fragment, error) {
		for {
			f, err := ep.Alloc(1, 1000)
			if err != nil {
				return
			}
			f.Signal, f.OnDone = true, flood
			if _, err := ep.Send(ep.Now(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	flood(nil, nil)
	large := 0
	for range 100 {
		got := s.run(1)
		large += chunks(got)
		if len(got) > 0 {
			s.ack(got[len(got)-1].hdr.Seq.Max(got[0].hdr.Seq))
		}
	}
	ep.Abort()
	if want := (20_000 + 1423) / 1424; large != want {
		t.Errorf("%d chunks of %d", large, want)
	}
}

// Endpoints share by bytes, not by packets: one whose packets are small, or do not divide the
// quantum, sends as much as the others.
func TestFairBytes(t *testing.T) {
	cfg := fairConfig()
	cfg.limits.QuantumBytes, cfg.limits.PassPackets = 4000, 16
	l := newLab(t, mem.Config{QueueDatagrams: 8192}, 1, cfg)
	mtus := []int{512, 1000, 1472}
	sent := map[string]int{}
	var eps []*Endpoint
	for i, mtu := range mtus {
		peer := cfg
		peer.MTUBytes, peer.RecvDepth = mtu, 1024
		l.add(peer, "")
		mustHandle(t, l.mods[i+1], func() {})
		eps = append(eps, l.connect(0, i+1))
	}
	for _, ep := range eps {
		send(t, ep, 40_000) // the first credits are few, and of packets
	}
	l.settle(time.Second)
	l.net.SetFilter(func(_, to, pkt []byte) mem.Verdict {
		sent[string(to)] += len(pkt)
		return mem.Deliver
	})
	for _, ep := range eps {
		send(t, ep, 400_000)
	}
	for range 40 {
		l.step(time.Microsecond)
	}
	least, most := 1<<30, 0
	for _, m := range l.mods[1:] {
		n := sent[string(nameOf(m).Data)]
		least, most = min(least, n), max(most, n)
	}
	if least < 50_000 || most-least > 4000+1472 {
		t.Errorf("in one time the endpoints sent from %d to %d bytes", least, most)
	}
}

// A message to another peer, which joins a pack, does not wait for its turn behind endpoints with
// much to send. One that sends much in small messages does.
func TestFairNewcomer(t *testing.T) {
	cfg := fairConfig()
	cfg.limits.QuantumBytes, cfg.limits.PassPackets = 4000, 4
	l := newLab(t, mem.Config{QueueDatagrams: 8192}, 8, cfg)
	m := l.mods[0]
	var eps []*Endpoint
	got := 0
	for i := 1; i < 8; i++ {
		mustHandle(t, l.mods[i], func() {})
		eps = append(eps, l.connect(0, i))
	}
	last := eps[6]
	mustHandle(t, l.mods[7], func() { got++ })
	l.settle(time.Second)
	for _, ep := range eps[:6] {
		for range 8 {
			send(t, ep, 1_000_000)
		}
	}
	for round := range 5 {
		got = 0
		for range 3 { // the first leaves at once, the others in a pack
			if err := last.SendImmediate(l.now, 3, make([]byte, 40)); err != nil {
				t.Fatal(err)
			}
		}
		l.step(time.Microsecond)
		l.step(time.Microsecond)
		if got != 3 {
			t.Errorf("round %d: %d messages of 3 arrived after a pass", round, got)
		}
	}
	before := m.all.Count
	for range 200 { // its queue is empty now and then
		for range 3 {
			send(t, last, 1000)
		}
		for queued(last) > 0 {
			l.step(time.Microsecond)
		}
	}
	large := counter(m, CntSentChunk) - before[CntSentChunk]
	small := counter(m, CntSentFrag) - before[CntSentFrag]
	// Of seven that have much to send it is one.
	if 10*large*1472 < 55*small*1024 {
		t.Errorf("%d small packets were sent while six others sent %d", small, large)
	}
}

// A bye is the last to leave, also when the turns of the small ones sent before it are over.
func TestFairByeLast(t *testing.T) {
	cfg := apart()
	cfg.limits.QuantumBytes = 1 // a packet
	s, ep := fairScript(t, cfg, 4)
	for range 15 {
		sendOrFail(t, ep, 1, make([]byte, 1000))
	}
	ep.Close(ep.Now())
	var all []sentPacket
	for range 8 {
		all = append(all, s.run(2)...)
		s.ack(s.peerFirst.Add(uint32(len(all)) - 1))
	}
	for _, p := range all {
		if bye := p.hdr.Tag == frag.TagBye; bye != (p.hdr.Seq == s.peerFirst+15) {
			t.Errorf("number %d of %d has tag %#x", p.hdr.Seq-s.peerFirst, len(all), p.hdr.Tag)
		}
	}
	if len(all) != 16 {
		t.Errorf("%d packets", len(all))
	}
}

// A flush waits for what it was called behind in both queues; a close sends its bye when both are
// empty.
func TestFairFlushAndClose(t *testing.T) {
	for _, smallLast := range []bool{false, true} {
		s, ep := fairScript(t, apart(), 1)
		s.l.settle(time.Second)
		flushed := 0
		sendOrFail(t, ep, 1, make([]byte, 1000)) // closes the window
		if smallLast {
			sendOrFail(t, ep, 1, make([]byte, 3000))
			sendOrFail(t, ep, 1, make([]byte, 1000))
		} else {
			sendOrFail(t, ep, 1, make([]byte, 1000))
			sendOrFail(t, ep, 1, make([]byte, 3000))
		}
		ep.Flush(ep.Now(), func(err error) {
			if err != nil {
				t.Error(err)
			}
			flushed++
		})
		ep.Close(ep.Now())
		var all []sentPacket
		for n := s.peerFirst; len(all) < 6; n++ {
			got := s.run(2)
			all = append(all, got...)
			if len(got) != 1 {
				t.Fatalf("%d packets at once, after %d", len(got), len(all))
			}
			if (flushed > 0) != (len(all) == 6) {
				t.Errorf("after %d packets %d flushes", len(all), flushed)
			}
			s.ack(n)
		}
		if last := all[5].hdr; last.Tag != frag.TagBye || chunks(all) != 3 || flushed != 1 {
			t.Errorf("%d chunks, the last packet is %+v, %d flushes", chunks(all), last, flushed)
		}
	}
}

// A large message that fits a packet by now, for the path carries more, leaves also when small ones
// behind a fence hold all send buffers: the fence waits for it.
func TestFairBeforeFence(t *testing.T) {
	cfg := apart()
	cfg.FragmentsMax = 2 * cfg.SendBuffers
	s, ep := fairScript(t, cfg, 1)
	ep.c.Snd.Grant(0)
	large, err := ep.Prepare(1, make([]byte, 1300))
	if err != nil {
		t.Fatal(err)
	}
	mtu := ep.MTUBytes()
	ep.c.UseSize(pmtu.BaseBytes)
	if _, err := ep.Send(ep.Now(), large); err != nil {
		t.Fatal(err)
	}
	ep.c.UseSize(mtu)
	ep.Fence(ep.Now())
	for {
		f, err := ep.Alloc(1, 1000)
		if err != nil {
			break
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
	}

	s.ack(s.peerFirst - 1)
	if got := s.run(3); len(got) == 0 || got[0].hdr.PayloadLen != 1300 {
		t.Errorf("%d packets left", len(got))
	}
	ep.Abort()
}
