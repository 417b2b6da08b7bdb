package btl

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"gobtl/btl/internal/keep"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/limits"
)

// newPuller is a pair of which the second module pulls what comes with tag 2.
func newPuller(tb testing.TB, cfg Config) *vectorPair {
	p := newVectorPair(tb, mem.Config{InjectBytes: 1472, QueueDatagrams: 4096}, cfg)
	if err := p.mods[1].HandlePulled(2); err != nil {
		tb.Fatal(err)
	}
	return p
}

// Messages of all sizes wait until they are pulled, in order, as they were, whatever room there is
// to keep them; the bytes stay until the next call.
func TestPullArrivals(t *testing.T) {
	for _, cfg := range []Config{
		{}, {KeptPackets: 2, limits: limits.Limits{KeptBytesMax: 50_000}}, {KeptPackets: -1},
	} {
		p := newPuller(t, cfg)
		sizes := []int{0, 8, 8, 700, 1400, 40_000, 8, 100_000, 3}
		buf := make([]Arrival, 4)
		for round := range 5 {
			for i, size := range sizes {
				p.send(p.ep.Prepare(2, bytes.Repeat([]byte{byte(16*round + i)}, size)))
			}
			for range 20 {
				p.step(time.Microsecond)
			}
			got := 0
			for n := len(buf); n == len(buf); {
				n = p.mods[1].PullArrivals(buf)
				for i := range buf[:n] {
					a := &buf[i]
					want := bytes.Repeat([]byte{byte(16*round + got)}, sizes[got])
					if !bytes.Equal(a.Bytes(), want) || a.Tag != 2 || a.Endpoint == nil {
						t.Fatalf("%d packets kept, round %d, message %d: %d bytes, tag %d", cfg.KeptPackets,
							round, got, len(a.Bytes()), a.Tag)
					}
					got++
				}
			}
			if got != len(sizes) {
				t.Fatalf("%d packets kept, round %d: %d messages, want %d", cfg.KeptPackets, round, got,
					len(sizes))
			}
		}
		if n := p.mods[1].PullArrivals(buf); n != 0 || p.mods[1].all.Port.Keeper.Kept() != 0 ||
			p.mods[1].rx.Keeping.Bytes() != 0 {
			t.Errorf("%d more; %d packets and %d bytes are kept", n, p.mods[1].all.Port.Keeper.Kept(),
				p.mods[1].rx.Keeping.Bytes())
		}
		p.step(time.Microsecond)
	}
}

// A handler takes the place of pulling, and what waits still can be pulled then.
func TestPullArrivalsHandled(t *testing.T) {
	p := newPuller(t, Config{})
	p.send(p.ep.Prepare(2, []byte("waits")))
	handled := 0
	if err := p.mods[1].Handle(2, func(*Endpoint, Tag, []byte) { handled++ }); err != nil {
		t.Fatal(err)
	}
	p.send(p.ep.Prepare(2, []byte("handled")))
	buf := make([]Arrival, 2)
	if n := p.mods[1].PullArrivals(buf); n != 1 || string(buf[0].Bytes()) != "waits" || handled != 1 {
		t.Errorf("%d pulled, %d handled", n, handled)
	}
	if err := p.mods[1].HandlePulled(TagMax + 1); err == nil {
		t.Error("a tag beyond the last")
	}
}

func TestPullArrivalsAllocs(t *testing.T) {
	for _, cfg := range []Config{{}, {KeptPackets: -1}} {
		for _, size := range []int{8, 1400} {
			p := newPuller(t, cfg)
			msg, buf := make([]byte, size), make([]Arrival, 8)
			round := func() {
				for range 5 {
					p.send(p.ep.Prepare(2, msg))
				}
				p.mods[1].PullArrivals(buf)
			}
			for range 300 {
				round()
			}
			if n := testing.AllocsPerRun(100, round); n > 0 {
				t.Errorf("%d packets kept, %d bytes: %v allocations", cfg.KeptPackets, size, n)
			}
		}
	}
}

// Who makes passes and does not pull has no more wait than the bound and what one pass takes in:
// then passes do nothing, and Deadline asks for none. Nothing is lost by it: all comes when the
// owner pulls, once.
func TestPullArrivalsBounded(t *testing.T) {
	const messages = 2000
	for _, c := range []struct {
		kept   int
		bounds keep.Bounds
	}{
		{0, keep.Bounds{Messages: 8, CopiedBytes: keep.BoundsMax().CopiedBytes}},
		{-1, keep.Bounds{Messages: keep.BoundsMax().Messages, CopiedBytes: 1000}},
		{4, keep.Bounds{Messages: 1, CopiedBytes: keep.BoundsMax().CopiedBytes}},
	} {
		cfg := Config{KeptPackets: c.kept, limits: limits.Limits{PollBatch: 4}}
		p := newPuller(t, cfg)
		m := p.mods[1]
		m.rx.Arrivals.Init(&m.rx.Keeping, c.bounds)
		sent, most := uint32(0), 0
		push := func() {
			for sent < messages {
				b := binary.LittleEndian.AppendUint32(make([]byte, 0, 104), sent)
				if err := p.ep.SendImmediate(p.now, 2, b[:104]); err != nil {
					break
				}
				sent++
			}
			p.now = p.now.Add(5 * time.Microsecond)
			for _, m := range p.mods {
				if _, err := m.Progress(p.now); err != nil {
					t.Fatal(err)
				}
				if err := m.Check(); err != nil {
					t.Fatal(err)
				}
			}
			most = max(most, m.rx.Arrivals.Len())
		}
		for range 200 {
			push()
		}
		if !m.rx.Arrivals.Full() || m.Deadline() != Never || m.deadline() == Never {
			t.Errorf("full %v, deadline %d", m.rx.Arrivals.Full(), m.Deadline())
		}
		came, once, buf := 0, make([]bool, messages), make([]Arrival, 3)
		for range 100_000 {
			for n := len(buf); n == len(buf); {
				n = m.PullArrivals(buf)
				for i := range buf[:n] {
					got := binary.LittleEndian.Uint32(buf[i].Bytes())
					if once[got] {
						t.Fatalf("message %d has come twice", got)
					}
					once[got] = true
					came++
				}
			}
			if came == messages {
				break
			}
			push()
		}
		// A pass takes in four batches at most, and of those that are packed some ten in a packet.
		if came != messages || most > 8+4*(cfg.limits.PollBatch+1)*13 {
			t.Errorf("%d of %d messages have come, up to %d have waited", came, messages, most)
		}
		if m.rx.Arrivals.Full() {
			t.Error("full of nothing")
		}
	}
}

// Packets of very many small messages do not make the queue for PullArrivals exceed its bound by
// far. All messages arrive when the program pulls them.
func TestPullArrivalsBound(t *testing.T) {
	cfg := smallConfig()
	cfg.RecvDepth = 256
	l := newLab(t, mem.Config{MTUBytes: 65000}, 1, cfg)
	m := l.mods[0]
	if err := m.HandlePulled(1); err != nil {
		t.Fatal(err)
	}
	s := l.newScript(0)
	s.hello.MTUBytes = 65000
	ep := s.connect()
	s.run(20)
	const packets, each = 20, 16000
	body := bytes.Repeat([]byte{1, 0, 0, 0}, each) // messages of no bytes
	for i := range packets {
		s.raw(1, encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next.Add(uint32(i))}, body))
	}
	got, buf := 0, make([]Arrival, 1<<10)
	for range 20 {
		for range 5 {
			l.step(10 * time.Microsecond)
		}
		if n, most := m.rx.Arrivals.Len(), keep.BoundsMax().Messages; n > 2*most ||
			got+n < min(packets*each, most) {
			t.Fatalf("%d messages wait, %d were pulled, the bound is %d", n, got, most)
		}
		for n := 1; n > 0; got += n {
			n = m.PullArrivals(buf)
		}
	}
	if got != packets*each {
		t.Errorf("%d messages of %d have arrived", got, packets*each)
	}
	ep.Abort()
}
