package impair_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/impair"
	"gobtl/fabric/mem"
	"gobtl/internal/mono"
)

// open wraps a domain of the network.
func open(tb testing.TB, nw *mem.Network, cfg fabric.DomainConfig, f impair.Faults) *impair.Domain {
	tb.Helper()
	inner, err := nw.Open(impair.Reserve(cfg))
	if err != nil {
		tb.Fatal(err)
	}
	visible := cfg.Buffers
	if visible == 0 {
		visible = 4096
	}
	d, err := impair.Wrap(inner, visible, f)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		name   string
		net    mem.Config
		faults impair.Faults
		skip   map[string]string
	}{
		{"none", mem.Config{}, impair.Faults{Seed: 1}, nil},
		{"none, no inject", mem.Config{InjectBytes: -1, NoGather: true}, impair.Faults{}, nil},
		{"delay", mem.Config{}, impair.Faults{Delay: 50 * time.Microsecond}, map[string]string{
			"Overflow": "an empty Poll does not mean that all have arrived: some are delayed",
			// The test would need the time of the delay for each measured run.
			"NoAllocations": "TestNoAllocations does it with a clock that need not be waited for",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nw := mem.New(tc.net)
			fabrictest.Run(t, fabrictest.Fixture{
				Name: "impair " + tc.name,
				Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
					return open(tb, nw, cfg, tc.faults)
				},
				Skip: tc.skip,
			})
		})
	}
}

// bench is an impaired receiver and an unimpaired sender, with a clock that the test sets.
type bench struct {
	tb     testing.TB
	dom    *impair.Domain
	tx, rx fabric.Endpoint
	to     fabric.Addr
	in     fabric.Arena
	out    fabric.Arena
	now    mono.Time
	done   [64]fabric.Completion
	// got are the datagrams that have arrived, with their numbers.
	got []packet
}

type packet struct {
	number int
	data   []byte
}

const packetBytes = 64

func newBench(tb testing.TB, f impair.Faults) *bench {
	tb.Helper()
	nw := mem.New(mem.Config{})
	b := &bench{tb: tb, dom: open(tb, nw, fabric.DomainConfig{Buffers: 128}, f)}
	b.dom.SetClock(func() mono.Time { return b.now })
	b.in = b.dom.Arena()
	var err error
	if b.rx, err = b.dom.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		tb.Fatal(err)
	}
	for i := range fabric.Buf(128) {
		b.recv(i)
	}
	sender, err := nw.Open(fabric.DomainConfig{Buffers: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { sender.Close() })
	b.out = sender.Arena()
	if b.tx, err = sender.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		tb.Fatal(err)
	}
	if b.to, err = sender.Insert(b.rx.Name()); err != nil {
		tb.Fatal(err)
	}
	return b
}

func (b *bench) recv(buf fabric.Buf) {
	if _, err := b.rx.Recv([]fabric.Buf{buf}); err != nil {
		b.tb.Fatal(err)
	}
}

// contents is the content of datagram number i.
func contents(i int) []byte {
	p := make([]byte, packetBytes)
	binary.LittleEndian.PutUint32(p, uint32(i))
	for j := 4; j < len(p); j++ {
		p[j] = byte(i*31 + j)
	}
	return p
}

// send sends datagram number i.
func (b *bench) send(i int) {
	copy(b.out.Bytes(0), contents(i))
	if _, err := b.tx.Post([]fabric.Send{{To: b.to, Len: packetBytes}}); err != nil {
		b.tb.Fatal(err)
	}
}

// poll collects the datagrams that have arrived.
func (b *bench) poll() int {
	n, err := b.rx.Poll(b.done[:])
	if err != nil {
		b.tb.Fatal(err)
	}
	for _, c := range b.done[:n] {
		data := bytes.Clone(b.in.Bytes(c.Buf)[:c.Len])
		number := -1
		if len(data) >= 4 {
			number = int(binary.LittleEndian.Uint32(data))
		}
		b.got = append(b.got, packet{number, data})
		b.recv(c.Buf)
	}
	return n
}

// run sends count datagrams, and collects all arrivals.
func (b *bench) run(count int) {
	for i := range count {
		b.send(i)
		b.now = b.now.Add(time.Microsecond)
		b.poll()
	}
	for idle := 0; idle < 3; idle++ { // a held datagram may be delayed after its hold
		b.now = b.now.Add(impair.DelayMax)
		if b.poll() > 0 {
			idle = 0
		}
	}
}

// within reports whether the count of events of probability p in n trials is less than five
// standard deviations from its expected value.
func within(count, n int, p float64) bool {
	return math.Abs(float64(count)-float64(n)*p) <= 5*math.Sqrt(float64(n)*p*(1-p))+1
}

func TestLoss(t *testing.T) {
	for _, p := range []float64{0, 0.001, 0.01, 0.5, 1} {
		count := 20_000
		if p == 0.01 {
			count = 100_000
		}
		b := newBench(t, impair.Faults{Loss: p, Seed: 7})
		b.run(count)
		c := b.dom.Counts()
		if !within(int(c.Lost), count, p) {
			t.Errorf("loss %v: %d of %d lost", p, c.Lost, count)
		}
		if int(c.Arrived) != count || int(c.Passed) != len(b.got) ||
			int(c.Passed+c.Lost) != count {
			t.Errorf("loss %v: counts %+v, got %d", p, c, len(b.got))
		}
		last := -1
		for _, pkt := range b.got {
			if pkt.number <= last || !bytes.Equal(pkt.data, contents(pkt.number)) {
				t.Fatalf("loss %v: datagram %d after %d, or altered", p, pkt.number, last)
			}
			last = pkt.number
		}
	}
}

func TestDuplication(t *testing.T) {
	const count = 50_000
	b := newBench(t, impair.Faults{Dup: 0.02, Seed: 3})
	b.run(count)
	c := b.dom.Counts()
	if !within(int(c.Duplicated), count, 0.02) || len(b.got) != count+int(c.Duplicated) {
		t.Errorf("%d of %d duplicated, got %d", c.Duplicated, count, len(b.got))
	}
	twice := 0
	for i, pkt := range b.got {
		if !bytes.Equal(pkt.data, contents(pkt.number)) {
			t.Fatalf("datagram %d was altered", pkt.number)
		}
		if i > 0 && b.got[i-1].number == pkt.number {
			twice++
		}
	}
	if twice != int(c.Duplicated) {
		t.Errorf("%d came twice, counted %d", twice, c.Duplicated)
	}
}

func TestReorder(t *testing.T) {
	const count = 50_000
	b := newBench(t, impair.Faults{Reorder: 0.05, Seed: 3})
	b.run(count)
	if len(b.got) != count {
		t.Fatalf("%d of %d arrived", len(b.got), count)
	}
	late := 0
	seen := make([]bool, count)
	highest := -1
	for place, pkt := range b.got {
		if !bytes.Equal(pkt.data, contents(pkt.number)) || seen[pkt.number] {
			t.Fatalf("datagram %d was altered or came twice", pkt.number)
		}
		seen[pkt.number] = true
		// At most 16 datagrams must overtake a held datagram, and 5 % of these are also held.
		if off := place - pkt.number; off > 40 || off < -40 {
			t.Fatalf("datagram %d came in place %d", pkt.number, place)
		}
		if pkt.number < highest {
			late++
		}
		highest = max(highest, pkt.number)
	}
	c := b.dom.Counts()
	if !within(int(c.Reordered), count, 0.05) || int(c.Reordered) != late {
		t.Errorf("%d counted as reordered, %d came after a later one, of %d", c.Reordered, late, count)
	}
}

// TestReorderTimeout checks that a datagram without a later datagram is held for only a
// millisecond.
func TestReorderTimeout(t *testing.T) {
	b := newBench(t, impair.Faults{Reorder: 1})
	b.send(0)
	b.now = 100
	for range 10 {
		if b.poll() != 0 {
			t.Fatal("it arrived at once")
		}
	}
	b.now = 100 + mono.Time(time.Millisecond) - 1
	if b.poll() != 0 {
		t.Fatal("it arrived before its time")
	}
	b.now++
	if b.poll() != 1 {
		t.Fatal("it was still held after 1 ms")
	}
	if c := b.dom.Counts(); c.Reordered != 0 {
		t.Errorf("%d reordered, but nothing overtook it", c.Reordered)
	}
}

// TestReorderEverything checks that no more datagrams than holdMax are held, even if all should be
// held.
func TestReorderEverything(t *testing.T) {
	b := newBench(t, impair.Faults{Reorder: 1})
	for i := range 500 {
		b.send(i)
	}
	for range 50 {
		b.poll()
	}
	if len(b.got) != 500-64 && len(b.got) < 300 {
		t.Errorf("%d of 500 arrived", len(b.got))
	}
	b.now = b.now.Add(time.Second)
	b.poll()
	b.poll()
	if len(b.got) != 500 {
		t.Errorf("%d of 500 arrived in the end", len(b.got))
	}
}

func TestDelay(t *testing.T) {
	const delay = 200 * time.Microsecond
	b := newBench(t, impair.Faults{Delay: delay})
	b.send(0)
	b.poll()
	b.now = 50_000
	b.send(1)
	b.poll()
	for _, step := range []struct {
		now  mono.Time
		want int
	}{
		{mono.Time(delay) - 1, 0},
		{mono.Time(delay), 1},
		{mono.Time(delay) + 49_999, 1},
		{mono.Time(delay) + 50_000, 2},
	} {
		b.now = step.now
		b.poll()
		if len(b.got) != step.want {
			t.Errorf("at %d ns, %d have arrived, want %d", step.now, len(b.got), step.want)
		}
	}
	if c := b.dom.Counts(); c.Delayed != 2 || c.Passed != 0 {
		t.Errorf("counts %+v", c)
	}
}

func TestDelaySome(t *testing.T) {
	const count = 20_000
	b := newBench(t, impair.Faults{Delay: 5 * time.Microsecond, DelayP: 0.25, Seed: 9})
	b.run(count)
	if c := b.dom.Counts(); !within(int(c.Delayed), count, 0.25) || len(b.got) != count {
		t.Errorf("%d of %d delayed, %d arrived", c.Delayed, count, len(b.got))
	}
}

func TestCorruption(t *testing.T) {
	const count = 50_000
	b := newBench(t, impair.Faults{Corrupt: 0.01, Seed: 3})
	b.run(count)
	c := b.dom.Counts()
	if !within(int(c.Corrupted), count, 0.01) || len(b.got) != count {
		t.Errorf("%d of %d corrupted, %d arrived", c.Corrupted, count, len(b.got))
	}
	wrong := 0
	places, inByte := make(map[int]bool), byte(0)
	for place, pkt := range b.got { // nothing is reordered: the place is the number
		for i, x := range contents(place) {
			if diff := x ^ pkt.data[i]; diff != 0 {
				wrong += bits.OnesCount8(diff)
				places[i] = true
				inByte |= diff
			}
		}
	}
	if wrong != int(c.Corrupted) {
		t.Errorf("%d bits are wrong, %d datagrams counted", wrong, c.Corrupted)
	}
	if len(places) != packetBytes || inByte != 0xff {
		t.Errorf("only %d of %d bytes are ever corrupted, in the bits %08b", len(places), packetBytes,
			inByte)
	}
}

func TestTruncation(t *testing.T) {
	const count = 50_000
	b := newBench(t, impair.Faults{Truncate: 0.02, Seed: 3})
	b.run(count)
	c := b.dom.Counts()
	if !within(int(c.Truncated), count, 0.02) || len(b.got) != count {
		t.Errorf("%d of %d truncated, %d arrived", c.Truncated, count, len(b.got))
	}
	short := 0
	sizes := make(map[int]bool)
	for place, pkt := range b.got {
		if !bytes.HasPrefix(contents(place), pkt.data) {
			t.Fatalf("datagram %d was altered", place)
		}
		if len(pkt.data) < packetBytes {
			short++
			sizes[len(pkt.data)] = true
		}
	}
	if short != int(c.Truncated) || len(sizes) != packetBytes {
		t.Errorf("%d are short of %d counted, in %d sizes", short, c.Truncated, len(sizes))
	}
}

// all has every fault at the same time.
var all = impair.Faults{
	Loss: 0.05, Dup: 0.05, Reorder: 0.1, Delay: 30 * time.Microsecond, DelayP: 0.5, Corrupt: 0.05,
	Truncate: 0.05, Seed: 42,
}

func TestSameSeedSameFaults(t *testing.T) {
	runs := make([]*bench, 3)
	for i := range runs {
		f := all
		if i == 2 {
			f.Seed++
		}
		runs[i] = newBench(t, f)
		runs[i].run(5000)
	}
	same := func(a, b *bench) bool {
		return slices.EqualFunc(a.got, b.got, func(p, q packet) bool {
			return bytes.Equal(p.data, q.data)
		})
	}
	if !same(runs[0], runs[1]) || runs[0].dom.Counts() != runs[1].dom.Counts() {
		t.Error("two runs with the same seed differ")
	}
	if same(runs[0], runs[2]) {
		t.Error("two runs with different seeds are the same")
	}
}

// TestEndpointsDiffer checks that each endpoint of a domain has its own random sequence.
func TestEndpointsDiffer(t *testing.T) {
	nw := mem.New(mem.Config{})
	d := open(t, nw, fabric.DomainConfig{Buffers: 256}, impair.Faults{Loss: 0.5, Seed: 1})
	var fates [2]string
	for i := range fates {
		e, err := d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		self, err := d.Insert(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var out [4]fabric.Completion
		for range 100 {
			_, err := e.Recv([]fabric.Buf{fabric.Buf(i)})
			if err != nil && !errors.Is(err, fabric.ErrAgain) {
				t.Fatal(err)
			}
			if _, err := e.Post([]fabric.Send{{To: self, Buf: 200, Len: 8}}); err != nil {
				t.Fatal(err)
			}
			n, err := e.Poll(out[:])
			if err != nil {
				t.Fatal(err)
			}
			fates[i] += fmt.Sprint(n)
		}
	}
	if fates[0] == fates[1] {
		t.Error("two endpoints suffer the same sequence of faults")
	}
}

// TestConservation checks for any faults that every arriving datagram is accounted for, and that
// none is held for ever.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom([]float64{0, 0.01, 0.3, 1})
		f := impair.Faults{
			Loss:     rapid.SampledFrom([]float64{0, 0.1, 0.9}).Draw(rt, "loss"),
			Dup:      p.Draw(rt, "dup"),
			Reorder:  p.Draw(rt, "reorder"),
			Delay:    rapid.SampledFrom([]time.Duration{0, 1, 5000, 1e6}).Draw(rt, "delay"),
			DelayP:   p.Draw(rt, "delayp"),
			Corrupt:  p.Draw(rt, "corrupt"),
			Truncate: p.Draw(rt, "truncate"),
			Seed:     rapid.Uint64().Draw(rt, "seed"),
		}
		b := newBench(t, f)
		sent := 0
		for _, burst := range rapid.SliceOfN(rapid.IntRange(0, 60), 1, 40).Draw(rt, "bursts") {
			for range burst {
				b.send(sent)
				sent++
			}
			b.now = b.now.Add(time.Duration(burst) * time.Microsecond)
			b.poll()
		}
		b.run(0)
		c := b.dom.Counts()
		if c.Arrived != uint64(sent) {
			rt.Fatalf("%d sent, %d arrived", sent, c.Arrived)
		}
		if want := c.Arrived - c.Lost + c.Duplicated; uint64(len(b.got)) != want {
			rt.Fatalf("%d delivered, want %d: %+v", len(b.got), want, c)
		}
	})
}
