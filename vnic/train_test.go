package vnic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestOrder: trains come out in the order of their flows, or after the gap has waited long enough.
func TestOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	o := NewOrder(10 * time.Millisecond)
	var got []string
	deliver := func(b []byte) { got = append(got, string(b)) }
	order := r.Perm(50)
	for i, n := range order {
		o.Take(mono.Time(i+1), Train{Seq: uint32(n), VESW: 1, Entropy: 2}, fmt.Appendf(nil, "%d", n),
			deliver)
	}
	for i, s := range got {
		if s != fmt.Sprint(i) {
			t.Fatalf("number %d is %s", i, s)
		}
	}
	if len(got) != 50 || o.held != 0 || o.bytes != 0 || o.Deadline() != mono.Never {
		t.Fatalf("%d delivered, %d held, %d bytes", len(got), o.held, o.bytes)
	}
	got = nil
	o.Take(100, Train{Seq: 52, VESW: 1, Entropy: 2}, []byte("52"), deliver)
	o.Take(100, Train{Seq: 0, VESW: 1, Entropy: 3}, []byte("other"), deliver)
	at := o.Deadline()
	o.Expire(at-1, deliver)
	if len(got) != 1 || at != mono.Time(100).Add(10*time.Millisecond) {
		t.Fatalf("%q before its time, deadline %d", got, at)
	}
	o.Expire(at, deliver)
	o.Take(at, Train{Seq: 51, VESW: 1, Entropy: 2}, []byte("51"), deliver)
	if fmt.Sprint(got) != "[other 52 51]" || o.Skipped != 1 || o.Late != 1 {
		t.Errorf("%q, skipped %d, late %d", got, o.Skipped, o.Late)
	}
	for i := range uint32(100) { // memory is bounded
		o.Take(at, Train{Seq: 1000 + i, VESW: 1, Entropy: 2}, make([]byte, 1<<20), deliver)
	}
	if o.bytes > orderBytesMax {
		t.Errorf("%d bytes wait", o.bytes)
	}
}

// TestOrderMemory: trains of a byte cost what they take, so many of them are no way around the
// bound, nor is a flow of very many.
func TestOrderMemory(t *testing.T) {
	o := NewOrder(time.Second)
	out := 0
	for i := range uint32(200_000) {
		o.Take(1, Train{Seq: 2*i + 1, VESW: 1, Entropy: uint16(i)}, []byte{1}, func([]byte) { out++ })
		if o.bytes > orderBytesMax || o.bytes < o.held*orderTrainBytes {
			t.Fatalf("%d trains wait with %d bytes", o.held, o.bytes)
		}
	}
	if o.held > orderBytesMax/orderTrainBytes || o.held+out != 200_000 {
		t.Errorf("%d wait, %d are out", o.held, out)
	}
	one := NewOrder(time.Second)
	for i := range uint32(10_000) {
		one.Take(1, Train{Seq: 2*i + 1, VESW: 1}, []byte{1}, func([]byte) {})
	}
	if one.held > orderTrainsMax {
		t.Errorf("%d trains of one flow wait", one.held)
	}
	head := make([]byte, TrainHeaderBytes)
	(&Train{Seq: 7, VESW: 3}).Put(head)
	if _, _, err := ParseTrain(head); !errors.Is(err, ErrLength) {
		t.Error("a train without packets")
	}
	full := append(head, 1)
	(&Train{VESW: 3, Entropy: TrainFlows}).Put(full)
	if tr, _, err := ParseTrain(full); err != nil || tr.Entropy != TrainFlows {
		t.Errorf("an entropy that no host sends: %+v, %v", tr, err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _, _ = ParseTrain(nil) }); n > 0 {
		t.Errorf("%v allocations for a malformed train", n)
	}
}

// TestOrderOfLateFlow: a flow that begins after very many others keeps its order.
func TestOrderOfLateFlow(t *testing.T) {
	o := NewOrder(10 * time.Millisecond)
	for i := range uint32(orderFlowsMax) {
		o.Take(1, Train{VESW: uint16(i / TrainFlows), Entropy: uint16(i % TrainFlows)}, []byte("x"),
			func([]byte) {})
	}
	var got []string
	deliver := func(b []byte) { got = append(got, string(b)) }
	late := Train{VESW: VESWMax, Entropy: 7}
	for _, seq := range []uint32{2, 1, 0} {
		late.Seq = seq
		o.Take(2, late, fmt.Append(nil, seq), deliver)
	}
	if fmt.Sprint(got) != "[0 1 2]" || len(o.flows) > orderFlowsMax {
		t.Errorf("the order is %q; %d flows", got, len(o.flows))
	}
	got = nil
	again := Train{Seq: 1} // of a flow that is forgotten
	o.Take(3, again, []byte("1"), deliver)
	o.Expire(o.Deadline(), deliver)
	again.Seq = 2
	o.Take(4, again, []byte("2"), deliver)
	if fmt.Sprint(got) != "[1 2]" || o.Skipped != 1 {
		t.Errorf("a forgotten flow is delivered as %q, skipped %d", got, o.Skipped)
	}
}

// TestOrderRoom: many peers with many waiting trains share the memory, and a peer that begins later
// has its share.
func TestOrderRoom(t *testing.T) {
	var room OrderRoom
	const peers, trainBytes = 20, 64 << 10
	var orders []*Order
	for range peers {
		o := NewOrder(time.Second)
		room.Admit(o)
		orders = append(orders, o)
	}
	seq := uint32(1)
	fill := func(o *Order) {
		for range orderBytesMax / trainBytes {
			o.Take(1, Train{Seq: seq}, make([]byte, trainBytes), func([]byte) {})
			seq += 2
		}
	}
	for i := range 2 {
		for _, o := range orders {
			fill(o)
		}
		// No Order but the last has got a train since all others wait.
		most := int(orderRoomBytes*(1+math.Log(peers/4))) + peers*trainBytes
		if i == 0 && (room.bytes > most || room.bytes < 2*orderRoomBytes) {
			t.Errorf("%d bytes wait after the first trains, want at most %d", room.bytes, most)
		}
	}
	sum, held := 0, 0
	for _, o := range orders {
		sum += o.bytes
		held += o.held
	}
	if sum != room.bytes || sum > orderRoomBytes+peers*trainBytes || held < peers {
		t.Errorf("%d trains of %d peers wait with %d bytes; counted %d", held, peers, sum, room.bytes)
	}
	for _, o := range orders {
		room.Remove(o)
	}
	if room != (OrderRoom{}) {
		t.Errorf("after the end of all peers: %+v", room)
	}
	one := NewOrder(time.Second)
	room.Admit(one)
	if fill(one); one.bytes < orderBytesMax/2 {
		t.Errorf("a single peer has %d bytes", one.bytes)
	}
	for one.held > 0 {
		one.Expire(one.Deadline(), func([]byte) {})
	}
	if room != (OrderRoom{}) {
		t.Errorf("after all have been delivered: %+v", room)
	}
}

// TestOrderKeepsLittle: the memory of a flow is in proportion to the trains that wait, and not to
// those that have waited before. The test measures the heap, and therefore does not run beside
// others.
func TestOrderKeepsLittle(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const flows, trains, keptMax = 64, orderTrainsMax - 2, 1 << 20
	for _, waits := range []int{0, 1} {
		before := heap()
		o := NewOrder(time.Second)
		out := 0
		for flow := range uint16(flows) {
			take := func(seq uint32) {
				o.Take(1, Train{Seq: seq, VESW: 1, Entropy: flow}, []byte{1}, func([]byte) { out++ })
			}
			for seq := range uint32(trains) {
				take(seq + 1)
			}
			for i := range uint32(waits) {
				take(trains + 2 + i) // behind a gap
			}
			take(0)
		}
		if out != flows*(trains+1) || o.held != flows*waits {
			t.Fatalf("%d are out, %d wait", out, o.held)
		}
		if kept := heap() - before; kept > keptMax {
			t.Errorf("%d trains of each of %d flows wait, and %d bytes are kept", waits, flows, kept)
		}
		o.Expire(mono.Time(2*time.Second), func([]byte) { out++ })
		if out != flows*(trains+1+waits) || o.held != 0 || o.bytes != 0 {
			t.Errorf("%d are out, %d wait with %d bytes", out, o.held, o.bytes)
		}
	}
	o, seq := NewOrder(time.Second), uint32(0)
	packets := []byte{1}
	if n := testing.AllocsPerRun(100, func() {
		for _, next := range []uint32{seq + 1, seq + 2, seq} {
			o.Take(1, Train{Seq: next}, packets, func([]byte) {})
		}
		seq += 3
	}); n > 2 {
		t.Errorf("%v allocations for two trains that wait", n)
	}
}

// TestTrains: packets one behind the other come apart again, whatever stands there.
func TestTrains(t *testing.T) {
	h := Header{SLID: 1, DLID: 2, VESW: 3}
	b := make([]byte, TrainHeaderBytes)
	(&Train{Seq: 7, VESW: 3, Entropy: 9}).Put(b)
	sizes := []int{60, 1514, 61}
	for _, n := range sizes {
		b, _ = h.Append(b, make([]byte, n))
	}
	tr, rest, err := ParseTrain(b)
	if err != nil || tr != (Train{Seq: 7, VESW: 3, Entropy: 9}) {
		t.Fatalf("%+v, %v", tr, err)
	}
	for _, n := range sizes {
		var p []byte
		p, rest = NextPacket(rest)
		if _, f, err := Parse(p); err != nil || len(f) != n {
			t.Fatalf("frame of %d, %v, want %d", len(f), err, n)
		}
	}
	if p, _ := NextPacket(rest); p != nil {
		t.Error("more than was put in")
	}
	if p, rest := NextPacket([]byte{1, 2, 3, 4, 5}); len(p) != 5 || rest != nil {
		t.Error("junk does not end a train")
	}
}
