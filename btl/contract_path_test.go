package btl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
	"gobtl/reliability"
)

// In a quick ping-pong every message takes both fast paths and every ACK rides on the reply: no
// packet is sent but the messages themselves. So it is on either channel.
func TestPathPingPong(t *testing.T) {
	for _, sizeBytes := range []int{4, 1000} {
		t.Run(strconv.Itoa(sizeBytes), func(t *testing.T) { testPingPong(t, sizeBytes) })
	}
}

func testPingPong(t *testing.T, sizeBytes int) {
	const rounds = 200
	l := newLab(t, mem.Config{}, 2, smallConfig())
	pongs := 0
	sendAtOnce := func(ep *Endpoint, tag Tag, data []byte) {
		sendOrFail(t, ep, tag, data)
		if ports := &ep.mod().all.Port; ports.Pending() {
			t.Errorf("a message of %d bytes is not posted when Send returns", len(data))
		}
	}
	l.mods[1].Handle(1, sendAtOnce)
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) { pongs++ })
	a, _ := l.pair()
	if large := sizeBytes > a.MaxTiny(); large != (sizeBytes == 1000) {
		t.Fatalf("up to %d bytes go by the command channel", a.MaxTiny())
	}
	l.settle(time.Second)
	var before [2]*Stats
	for i, m := range l.mods {
		before[i] = m.counted()
	}
	for i := range rounds {
		sendAtOnce(a, 1, make([]byte, sizeBytes))
		l.until("pong", time.Microsecond, 40*time.Microsecond, func() bool { return pongs == i+1 })
	}
	for i, m := range l.mods {
		diff := func(c Counter) int { return int(counter(m, c) - before[i].Get(c)) }
		for _, c := range []struct {
			counter  Counter
			min, max int
		}{
			{CntSendsFast, rounds, rounds},
			{CntSendsQueued, 0, 0},
			{CntSentFrag, rounds, rounds},
			{CntFastReceives, rounds, rounds},
			{CntDelivered, rounds, rounds},
			{CntSentAck, 0, 0},
			{CntAckPiggybacked, rounds - 2, rounds},
			{CntRetransmitTimeout, 0, 0},
			{CntDuplicate, 0, 0},
		} {
			if n := diff(c.counter); n < c.min || n > c.max {
				t.Errorf("module %d: %v is %d, want %d to %d", i, c.counter, n, c.min, c.max)
			}
		}
	}
	l.settle(time.Second)
	for i, m := range l.mods {
		if n := counter(m, CntSentAck) - before[i].Get(CntSentAck); i == 0 && n != 1 {
			t.Errorf("module %d sent %d explicit ACKs, want the one of the last pong", i, n)
		}
	}
}

// An ACK of a quarter of AckEvery packets leaves when no more are there: their sender may have no
// more in flight, and would wait for AckDelay. One of fewer waits for that, and so does that of a
// lone packet, which may be answered.
func TestPathRipeAck(t *testing.T) {
	for _, tc := range []struct{ ackEvery, count, want int }{
		{12, 2, 0}, {12, 3, 1}, {4, 1, 0}, {4, 2, 1},
	} {
		cfg := smallConfig()
		cfg.Rules.AckEvery = tc.ackEvery
		l, s := newStranger(t, cfg)
		l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
		s.connect()
		s.run(20)
		for n := range tc.count {
			s.frag(s.next+seq.Num(n), 1, []byte("x"))
		}
		var acks int
		for range 20 {
			acks += len(s.run0())
		}
		if acks != tc.want {
			t.Errorf("%d packets of %d: %d ACKs at once, want %d", tc.count, tc.ackEvery, acks, tc.want)
		}
	}
}

// A peer that sends no more than one ACK covers, and waits for that, gets the next ones after half
// as many packets, so that it goes on while the others are received; one that is idle before it has
// sent enough for an ACK gets none sooner.
func TestPathAckInTurns(t *testing.T) {
	for _, tc := range []struct {
		lull bool // between the two trains of a turn
		want int  // ACKs of the first train of the last turn
	}{{false, 1}, {true, 0}} {
		cfg := smallConfig()
		cfg.Rules.AckEvery = 16
		l, s := newStranger(t, cfg)
		l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
		s.connect()
		s.run(20)
		train := func(count int) (acks int) {
			for n := range count {
				s.frag(s.next+seq.Num(n), 1, []byte("x"))
			}
			s.next = s.next.Add(uint32(count))
			return len(s.run0())
		}
		for range 10 {
			train(3)
			if tc.lull {
				s.run0()
			}
			if acks := train(14); acks != 1 {
				t.Fatalf("%d ACKs of a turn", acks)
			}
			s.run0()
		}
		if acks := train(8); acks != tc.want {
			t.Errorf("a lull before each ACK %v: %d ACKs of half of the packets, want %d", tc.lull, acks,
				tc.want)
		}
	}
}

// Neither a peer that is owed the ACK of one word for longer nor a second stream keeps a ripe one
// back.
func TestPathRipeAcks(t *testing.T) {
	cfg := smallConfig()
	cfg.Rules.AckEvery = 12
	l, a := newStranger(t, cfg)
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	peers := []*script{l.newScript(0), a, l.newScript(0)}
	for i, s := range peers {
		s.hello.Incarnation += uint64(i)
		s.hello.Tag += uint64(i)
		s.connect()
		s.run(20)
	}
	for i, count := range []int{1, 3, 3} {
		for n := range count {
			peers[i].frag(peers[i].next+seq.Num(n), 1, []byte("x"))
		}
		peers[i].run0()
	}
	var acks [3]int
	for range 20 {
		l.step(0)
		for i, s := range peers {
			acks[i] += len(s.take())
		}
	}
	if want := [3]int{0, 1, 1}; acks != want {
		t.Errorf("%d ACKs at once, want %d", acks, want)
	}
}

// An ACK that finds nothing to ride on leaves after AckDelay, not earlier and at most a pass later;
// the Deadline says so.
func TestPathDelayedAck(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) {})
	s.connect()
	s.run(20)
	s.frag(s.next, 1, []byte("x"))
	l.step(time.Microsecond) // delivers fast
	l.step(0)                // books
	arrived := l.now
	if d := l.mods[0].Deadline(); d != arrived.Add(50*time.Microsecond) {
		t.Errorf("deadline %v after the arrival, want 50us", d.Sub(arrived))
	}
	l.now = arrived.Add(50*time.Microsecond - 1)
	if pkts := s.run0(); len(pkts) != 0 {
		t.Errorf("%d packets before the delay was over", len(pkts))
	}
	l.now++
	pkts := s.run0()
	if len(pkts) != 1 || pkts[0].hdr.Kind != frag.KindAck || pkts[0].hdr.Ack != s.next ||
		pkts[0].hdr.Flags != frag.FlagAck || pkts[0].channel != 0 || len(pkts[0].bytes) != frag.AckBytes {
		t.Errorf("after the delay: %+v", pkts)
	}
	// A packet that is no news is answered at once, and says so.
	for range 2 {
		s.frag(s.next, 1, []byte("x"))
		pkts = s.run0()
		if len(pkts) != 1 || pkts[0].hdr.Kind != frag.KindAck || pkts[0].hdr.Ack != s.next ||
			pkts[0].hdr.Flags != frag.FlagAck|frag.FlagDup {
			t.Errorf("after a repeated packet: %+v", pkts)
		}
	}
	// A packet beyond a gap, and the same again inside the window.
	s.frag(s.next+5, 1, []byte("early"))
	s.run(20)
	s.frag(s.next+5, 1, []byte("early"))
	pkts = s.run0()
	if len(pkts) != 1 || pkts[0].hdr.Ack != s.next {
		t.Errorf("after a duplicate beyond the gap: %+v", pkts)
	}
	if n := counter(l.mods[0], CntDelivered); n != 2 {
		t.Errorf("%d delivered, want 2", n)
	}
	s.frag(s.next+5000, 1, []byte("beyond the window"))
	if pkts = s.run(20); len(pkts) != 0 || counter(l.mods[0], CntAboveWindow) != 1 {
		t.Errorf("beyond the window: %+v", pkts)
	}
}

// run0 gives all modules one pass without moving the time.
func (s *script) run0() []sentPacket {
	s.l.tb.Helper()
	for range 2 { // one pass may do nothing but a fast receive
		s.l.step(0)
	}
	return s.take()
}

// With the profile usnic a duplicate ACK has the oldest packet sent again at once, on the data
// channel; one that only answers a duplicate has not.
func TestPathFastRetransmit(t *testing.T) {
	cfg := apart()
	cfg.Profile = "usnic"
	l, s := newStranger(t, cfg)
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	for range 4 {
		sendOrFail(t, ep, 1, []byte("tiny"))
	}
	if pkts := s.run(5); len(pkts) != 4 || pkts[0].channel != 0 {
		t.Fatalf("%d packets came, want 4 on the command channel", len(pkts))
	}
	s.raw(0, encode(frag.Header{
		Kind: frag.KindAck, Flags: frag.FlagAck | frag.FlagDup, Conn: s.conn,
		Ack: s.peerFirst - 1, Credit: s.credit, CreditBytes: frag.CreditBytesAll,
	}, nil))
	if pkts := s.run(5); len(pkts) != 0 {
		t.Errorf("an ACK of a duplicate had %d packets sent again", len(pkts))
	}
	s.ack(s.peerFirst - 1)
	pkts := s.run(5)
	if len(pkts) != 1 || pkts[0].hdr.Seq != s.peerFirst || pkts[0].channel != 1 {
		t.Errorf("a duplicate ACK: %+v, want packet %d on the data channel", pkts, s.peerFirst)
	}
	st := l.mods[0].counted()
	if st.Get(CntRetransmitDupAck) != 1 || st.Get(CntRetransmitTimeout) != 0 ||
		st.Get(CntDupAcks) == 0 {
		t.Errorf("counters: duplicate ACK %d, timeout %d", st.Get(CntRetransmitDupAck),
			st.Get(CntRetransmitTimeout))
	}
	s.ack(s.peerFirst + 3)
	s.run(3)
	if n, _ := ep.Outstanding(); n != 0 {
		t.Errorf("%d packets in flight", n)
	}
	s.ack(s.peerFirst + 4) // never sent
	s.run(3)
	if n := l.mods[0].all.Count[CntDropAck]; n != 1 {
		t.Errorf("%d ACKs of unsent packets dropped, want 1", n)
	}
}

// A sender never has more under way than the receiver has granted, and what is granted fits the
// receiver's queue, however many send at a time.
func TestPathCredits(t *testing.T) {
	_, s := newStranger(t, apart())
	s.credit, s.hello.Credit = 3, 1
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	for range 10 {
		sendOrFail(t, ep, 1, []byte("x"))
	}
	s.run(5)
	if n, _ := ep.Outstanding(); n != 3 {
		t.Errorf("%d packets under way with 3 credits", n)
	}
	s.ack(s.peerFirst) // one has arrived; the limit moves by one
	s.run(5)
	if _, next := ep.c.Snd.Window(); next != s.peerFirst+4 {
		t.Errorf("%d packets sent, want 4", next-s.peerFirst)
	}

	const queue = 64
	l := newLab(t, mem.Config{QueueDatagrams: queue}, 5, smallConfig())
	var trs []*traffic
	for i := 1; i < 5; i++ {
		tr := newTraffic(t, uint64(i), Tag(i))
		if err := l.mods[0].Handle(tr.tag, tr.receive); err != nil {
			t.Fatal(err)
		}
		trs = append(trs, tr)
		a := l.connect(i, 0)
		for range 3 {
			tr.send(a, 100_000)
		}
	}
	l.until("delivered", 20*time.Microsecond, time.Second, func() bool {
		for _, tr := range trs {
			if !tr.finished() {
				return false
			}
		}
		return true
	})
	if c := l.net.Counts(); c.Overflowed > 0 {
		t.Errorf("%d datagrams overran a queue of %d", c.Overflowed, queue)
	}
	if n := l.mods[0].Limits().CreditPackets; n > queue {
		t.Errorf("%d credits for a queue of %d", n, queue)
	}
}

// Fairness: endpoints with much to send take turns, a quantum each.
func TestPathFairness(t *testing.T) {
	cfg := smallConfig()
	cfg.SendBuffers, cfg.FragmentsMax = 512, 256
	cfg.limits.QuantumBytes, cfg.limits.PassPackets = 4000, 32
	cfg.Rules.Congestion = reliability.CongestionFixed // or the windows would still grow
	l := newLab(t, mem.Config{QueueDatagrams: 8192}, 4, cfg)
	var order []int
	for i := 1; i < 4; i++ {
		l.mods[i].Handle(1, func(*Endpoint, Tag, []byte) {})
	}
	var eps []*Endpoint
	for i := 1; i < 4; i++ {
		eps = append(eps, l.connect(0, i))
	}
	l.settle(time.Second)
	var data [][]byte
	for _, m := range l.mods[1:] {
		data = append(data, nameOf(m).Data)
	}
	l.net.SetFilter(func(_, to, _ []byte) mem.Verdict {
		for i := range data {
			if bytes.Equal(to, data[i]) {
				order = append(order, i)
			}
		}
		return mem.Deliver
	})
	for _, ep := range eps { // the first has the most, and comes first
		for range 8 {
			sendOrFail(t, ep, 1, make([]byte, 35*1424))
		}
	}
	l.settle(time.Second)
	// A quantum is at most 3 packets here; all have the same to send, so nobody may run ahead or wait.
	run, count := 0, [3]int{}
	for k, i := range order[:len(order)*9/10] {
		if count[i]++; k > 0 && order[k-1] == i {
			run++
		} else {
			run = 1
		}
		if run > 3 {
			t.Fatalf("endpoint %d sent %d packets in a row at packet %d", i, run, k)
		}
		if lead := max(count[0], count[1], count[2]) - min(count[0], count[1], count[2]); k > 100 &&
			lead > 60 {
			t.Fatalf("after %d packets the endpoints sent %v", k, count)
		}
	}
	if len(order) < 800 {
		t.Fatalf("only %d packets were sent", len(order))
	}
}

// A tiny message overtakes the bulk data of its own endpoint and of others, and nothing else of its
// own, neither in the queue nor in a batch.
func TestPathOrderOfSends(t *testing.T) {
	l := newLab(t, mem.Config{}, 3, smallConfig())
	var got []int
	for i := 1; i < 3; i++ {
		l.mods[i].Handle(1, func(_ *Endpoint, _ Tag, data []byte) { got = append(got, len(data)) })
	}
	a, other := l.connect(0, 1), l.connect(0, 2)
	l.settle(time.Second)
	var seqs []uint32
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind.HasSeq() && h.Conn == peerTagOf(a) {
			seqs = append(seqs, uint32(h.Tag)<<24|uint32(h.PayloadLen))
		}
		return mem.Deliver
	})
	for _, size := range []int{20_000, 8, 1400, 16, 20_000, 24} {
		sendOrFail(t, a, 1, make([]byte, size))
	}
	if err := a.SendImmediate(l.now, 1, make([]byte, 8)); !errors.Is(err, ErrAgain) {
		t.Errorf("SendImmediate overtakes a queue: %v", err)
	}
	st, err := sendStatus(other, 32)
	if err != nil || st != Done {
		t.Errorf("a tiny message of another endpoint: status %d, %v", st, err)
	}
	l.settle(time.Second)
	slices.Sort(got)
	if want := []int{8, 16, 24, 32, 1400, 20_000, 20_000}; !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	var tiny []int
	for _, s := range seqs {
		if n := int(s & 0xFFFF); n < 60 {
			tiny = append(tiny, n)
		}
	}
	if fmt.Sprint(tiny) != "[8 48]" { // 16 and 24 share a packet
		t.Errorf("tiny messages left in the order %v", tiny)
	}
	if !slices.Equal(seqs[:3], []uint32{1<<24 | 8, 48, 1<<24 | 1400}) {
		t.Errorf("bulk data left before %#x", seqs)
	}
}

func sendStatus(ep *Endpoint, size int) (Status, error) {
	f, err := ep.Alloc(1, size)
	if err != nil {
		return 0, err
	}
	return ep.Send(ep.Now(), f)
}

// TestPathRegistrations: registrations inside a registered range share it, those outside have their
// own, and a range without users is registered no more.
func TestPathRegistrations(t *testing.T) {
	l := newLab(t, mem.Config{}, 1, smallConfig())
	m, spy := l.mods[0], l.spies[0]
	block := make([]byte, 10_000)
	reg := func(lo, hi int) *Registration {
		r, err := m.RegisterMemory(block[lo:hi])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := func(what string, n int) {
		t.Helper()
		if spy.regions != n {
			t.Errorf("%s: %d ranges are registered, want %d", what, spy.regions, n)
		}
	}
	whole := reg(1000, 5000)
	inner, end := reg(2000, 3000), reg(4999, 5000)
	want("two inside the first", 1)
	inner.Close()
	inner.Close()
	end.Close()
	want("one user is left", 1)
	longer := reg(1000, 6000)
	want("a longer range from the same start", 2)
	whole.Close()
	want("the shorter one has lost its last user", 1)
	again := reg(1000, 4000)
	want("shared with the longer one", 1)
	again.Close()
	longer.Close()
	want("without users", 0)
	if _, err := m.RegisterMemory(nil); !errors.Is(err, ErrConfig) {
		t.Errorf("registering nothing: %v", err)
	}
}

// Registered memory is gathered, not copied, by chunks of messages and puts, and again when they
// are sent again; what is not registered, or small, is copied. Bytes are right either way.
func TestPathGather(t *testing.T) {
	for _, noGather := range []bool{false, true} {
		t.Run(fmt.Sprintf("noGather=%v", noGather), func(t *testing.T) {
			cfg := smallConfig()
			cfg.Rules.ResendTimeout = time.Millisecond
			l := newLab(t, mem.Config{NoGather: noGather}, 2, cfg)
			m, spy := l.mods[0], l.spies[0]
			block := make([]byte, 60_000)
			for i := range block {
				block[i] = byte(i * 7 >> 3)
			}
			var got []byte
			l.mods[1].Handle(1, func(_ *Endpoint, _ Tag, data []byte) { got = bytes.Clone(data) })
			memory := make([]byte, len(block))
			region, err := l.mods[1].Expose(memory, RemoteWrite)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := l.pair()
			l.settle(time.Second)
			reg, err := m.RegisterMemory(block[5000:50_000])
			if noGather != errors.Is(err, fabric.ErrNotSupported) {
				t.Fatalf("RegisterMemory: %v", err)
			}
			if err == nil {
				defer reg.Close()
			}
			l.chaos(chaos{loss: 0.2, dup: 0.05, hold: 0.05}, testenv.Seed(t, 15))
			for _, c := range []struct {
				lo, hi int
				put    bool
				gather bool
			}{
				{5000, 50_000, false, true},
				{5001, 30_000, false, true},
				{5000, 50_000, true, true},
				{4999, 30_000, false, false},
				{5000, 50_001, true, false},
				{6000, 7000, false, false},
			} {
				before := spy.gathered
				got = nil
				clear(memory)
				sendRange(t, l, a, block[c.lo:c.hi], c.put, region.Handle())
				if c.put {
					got = memory[:c.hi-c.lo]
				}
				if !bytes.Equal(got, block[c.lo:c.hi]) {
					t.Errorf("%+v: the bytes arrived altered", c)
				}
				if gathered := spy.gathered > before; gathered != (c.gather && !noGather) {
					t.Errorf("%+v: gathered is %v", c, gathered)
				}
			}
			if m.counted().Retransmits() == 0 {
				t.Error("nothing was sent again")
			}
			l.calm()
			l.settle(5 * time.Second)
			l.wantIdle(0)
		})
	}
}

func sendRange(t *testing.T, l *lab, a *Endpoint, data []byte, put bool, h Handle) {
	t.Helper()
	f, err := a.Prepare(1, data)
	if put {
		if err := a.Free(f); err != nil {
			t.Fatal(err)
		}
		f, err = a.PreparePut(data, h, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	f.Signal = true
	f.OnDone = func(_ *Fragment, err error) {
		if ended = true; err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		if ended {
			return
		}
		l.step(50 * time.Microsecond)
		l.chaosStep()
	}
	t.Fatal("the send did not end")
}

// The counters of a clean exchange, as other goroutines see them.
func TestPathStats(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	l.settle(time.Second)
	before := l.mods[0].Stats()
	if before.Endpoints != 1 || before.InFlight != 0 || before.SendBuffersFree != 64 {
		t.Errorf("gauges %d, %d, %d", before.Endpoints, before.InFlight, before.SendBuffersFree)
	}
	sendOrFail(t, a, 1, make([]byte, 8))
	sendOrFail(t, a, 1, make([]byte, 1400))
	sendOrFail(t, a, 1, make([]byte, 3*1424))
	l.settle(time.Second)
	for range 100 {
		l.step(20 * time.Microsecond) // counters are published now and then
	}
	after, peer := l.mods[0].Stats(), l.mods[1].Stats()
	if n := after.SegmentsSent() - before.SegmentsSent(); n != 5 {
		t.Errorf("%d segments sent, want 5", n)
	}
	if n := after.Get(CntSentPayloadBytes) - before.Get(CntSentPayloadBytes); n != 8+1400+3*1424 {
		t.Errorf("%d payload bytes sent", n)
	}
	if n := peer.Get(CntRecvPayloadBytes); n != 8+1400+3*1424 {
		t.Errorf("%d payload bytes received", n)
	}
	if peer.Get(CntRecvFrag) != 2 || peer.Get(CntRecvChunk) != 3 || peer.Get(CntDelivered) != 3 {
		t.Errorf("received %d fragments, %d chunks; delivered %d", peer.Get(CntRecvFrag),
			peer.Get(CntRecvChunk), peer.Get(CntDelivered))
	}
	if after.Retransmits()+after.Duplicates()+after.Drops()+peer.Duplicates()+peer.Drops() != 0 {
		t.Error("a clean path has retransmissions, duplicates or drops")
	}
	if peer.CreditsGranted == 0 || after.Endpoints != 1 {
		t.Errorf("gauges: credits %d, endpoints %d", peer.CreditsGranted, after.Endpoints)
	}
}

// A channel by which nothing arrives is polled only now and then, but in every pass if the latest
// message came there.
func TestPathIdlePolls(t *testing.T) {
	n := newNullBench(t, 1472, true, Config{})
	n.m.Handle(1, func(*Endpoint, Tag, []byte) {})
	const passes = 1 << 10
	next := nullPeerFirst
	polls := map[*nullEndpoint]int{}
	// arriving is a message that the next poll of a channel finds, if it came by that one.
	arriving := (*nullEndpoint)(nil)
	for _, ch := range []*nullEndpoint{n.cmd, n.data} {
		ch.arrive = func(out []fabric.Completion) int {
			polls[ch]++
			if arriving != ch {
				return 0
			}
			arriving = nil
			ch.fill(&out[0], func(p []byte) int {
				n.hdr = frag.Header{Kind: frag.KindFrag, Conn: tagOf(n.ep), Tag: 1, Seq: next}
				next++
				return n.hdr.Encode(p)
			})
			return 1
		}
	}
	every := n.m.cfg.limits.IdlePollEvery
	pass := func() {
		n.now = n.now.Add(-1500 * time.Nanosecond) // so this is half a microsecond after the latest
		n.pass()
	}
	for range passes / every { // and nothing was ever received
		pass()
	}
	for _, busy := range []*nullEndpoint{n.cmd, n.data, n.cmd} {
		idle := n.data
		if busy == n.data {
			idle = n.cmd
		}
		arriving = busy
		for i := 0; arriving != nil; i++ {
			if i > every {
				t.Fatalf("what came by the other channel was not seen in %d passes", i)
			}
			pass()
		}
		clear(polls)
		for range passes {
			pass()
		}
		if least := passes / every; polls[idle] < least || polls[idle] > least+every+2 {
			t.Errorf("%d polls of the idle channel in %d passes, want about %d", polls[idle], passes, least)
		}
		if polls[busy] < passes || polls[busy] > passes+every {
			t.Errorf("%d polls of the other channel in %d passes", polls[busy], passes)
		}
	}
	// What has brought a packet of late does not rest, though the latest message came by the other.
	for _, busy := range []*nullEndpoint{n.cmd, n.data} {
		for arriving = busy; arriving != nil; {
			pass()
		}
	}
	clear(polls)
	for range 10 {
		pass()
	}
	if polls[n.cmd] < 10 {
		t.Errorf("%d polls of the command channel in 10 passes after a packet", polls[n.cmd])
	}
	// Where each poll of the command channel finds a message, every second pass is a short one.
	for range 2 {
		clear(polls)
		for range passes {
			arriving = n.cmd
			pass()
		}
		if least := passes / (2*every + 1); polls[n.data] < least {
			t.Errorf("%d polls of the data channel in %d passes that receive, want %d", polls[n.data],
				passes, least)
		}
		arriving = nil
		pass()
	}
	// Where large messages arrive, each pass polls the command channel: passes take longer then.
	arriving = n.data
	for arriving != nil {
		pass()
	}
	clear(polls)
	for range passes {
		arriving = n.data
		pass()
	}
	if polls[n.cmd] < passes {
		t.Errorf("%d polls of the command channel in %d passes beside a stream", polls[n.cmd], passes)
	}
	clear(polls)
	for range passes {
		n.now = n.now.Add(20 * time.Microsecond) // an owner that does something else, too
		n.pass()
	}
	if polls[n.data] != passes {
		t.Errorf("%d polls of the data channel in %d passes that are far apart", polls[n.data], passes)
	}
}
