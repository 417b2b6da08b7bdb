package conformance

import (
	"encoding/binary"
	"testing"

	"gobtl/btl"
)

// testRMAPingpong, model: fabtests benchmarks/rma_pingpong. Each side puts into the memory of the
// other, which sees by the last byte that a put is there, and puts its own.
func testRMAPingpong(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	nodes := l.addAll(2, btl.Config{})
	eps, regions := rmaPair(l, nodes, btl.RemoteWrite, 1<<16)
	for _, size := range []int{1, 8, 700, 1400, 1 << 16} {
		const rounds = 20
		b := make([]byte, size)
		for round := range 2 * rounds {
			from, to := round%2, 1-round%2
			b[size-1] = byte(round + 1)
			f, err := eps[from].PreparePut(b, regions[to].Handle(), 0)
			if err != nil {
				t.Fatal(err)
			}
			ended := false
			f.Signal, f.OnDone = true, func(*btl.Fragment, error) { ended = true }
			if _, err := eps[from].Send(l.net.now(), f); err != nil {
				t.Fatal(err)
			}
			seen := regions[to].Bytes()[:size]
			l.until("the put is seen", func() bool { return seen[size-1] == byte(round+1) })
			l.until("the put has ended", func() bool { return ended })
		}
		clear(regions[0].Bytes())
		clear(regions[1].Bytes())
	}
	l.settle()
}

// testCQData, model: fabtests functional/cq_data. A put with a notice: what it says comes with the
// bytes, each time once, and never before them.
func testCQData(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	const told, count = btl.Tag(12), 60
	nodes := l.addAll(2, btl.Config{})
	eps, regions := rmaPair(l, nodes, btl.RemoteWrite|btl.RemoteNotify, 1<<17)
	sizes := mixed(0, 8, 700, 1400, 5000, 1<<17)
	notices := 0
	nodes[1].handle(told, func(_ *btl.Endpoint, _ btl.Tag, says []byte) {
		i := int(binary.LittleEndian.Uint64(says))
		if i != notices || !intact(regions[1].Bytes()[:sizes(i)], uint64(i)) {
			t.Errorf("notice %d after %d others: it is another one, or its bytes are not there", i, notices)
		}
		notices++
	})
	for i := range count {
		b := make([]byte, sizes(i))
		pattern(b, uint64(i))
		f, err := eps[0].PreparePutNotice(b, regions[1].Handle(), 0, told,
			binary.LittleEndian.AppendUint64(nil, uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := eps[0].Send(l.net.now(), f); err != nil {
			t.Fatal(err)
		}
		l.until("the notice", func() bool { return notices == i+1 })
	}
	l.settle()
}

// testAtomic, model: fabtests functional/rdm_atomic. Every operation, on 4 and on 8 bytes, with the
// old value and without, from two sides at a time.
func testAtomic(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	nodes := l.addAll(3, btl.Config{})
	region, err := nodes[0].mod.Expose(make([]byte, 64), btl.RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	eps := []*btl.Endpoint{l.connect(nodes[1], nodes[0]), l.connect(nodes[2], nodes[0])}
	do := func(ep *btl.Endpoint, a btl.Atomic) (old uint64) {
		t.Helper()
		f, err := ep.PrepareAtomic(a)
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		f.OnDone = func(f *btl.Fragment, err error) {
			if ended, old = true, f.Value(); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
		}
		if _, err := ep.Send(l.net.now(), f); err != nil {
			t.Fatal(err)
		}
		l.until("the operation ends", func() bool { return ended })
		return old
	}
	for _, width := range []int{4, 8} {
		mask := uint64(1)<<(8*width-1)<<1 - 1
		at := btl.Atomic{Target: region.Handle(), Offset: 16, WidthBytes: width}
		model := uint64(0)
		for i, action := range []btl.Action{
			btl.ActionSwap, btl.ActionAdd, btl.ActionXor, btl.ActionOr, btl.ActionAnd, btl.ActionMin,
			btl.ActionMax, btl.ActionCompareSwap, btl.ActionCompareSwap, btl.ActionAdd,
		} {
			a := at
			a.Action, a.Operand, a.Fetch = action, (0x9E3779B97F4A7C15*uint64(i+1))&mask, i%3 > 0
			if action == btl.ActionCompareSwap {
				a.Compare = model + uint64(i%2)*(1-model) // once what is there, once something else
			}
			old := do(eps[i%2], a)
			if a.Fetch && old != model {
				t.Errorf("%d bytes, action %d: %#x was there, want %#x", width, action, old, model)
			}
			model = atomicModel(model, &a) & mask
			a = at
			a.Action = btl.ActionRead
			if got := do(eps[1-i%2], a); got != model {
				t.Errorf("%d bytes, action %d has left %#x, want %#x", width, action, got, model)
			}
		}
	}
	ended := 0
	for range 50 {
		for _, ep := range eps {
			f, err := ep.PrepareAtomic(btl.Atomic{
				Target: region.Handle(), Action: btl.ActionAdd, WidthBytes: 8, Operand: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			f.OnDone = func(*btl.Fragment, error) { ended++ }
			if _, err := ep.Send(l.net.now(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.until("all have ended", func() bool { return ended == 100 })
	l.settle()
	if got := binary.NativeEndian.Uint64(region.Bytes()); got != 100 {
		t.Errorf("100 times one has been added, which makes %d", got)
	}
}

// atomicModel is what an operation makes of a number.
func atomicModel(n uint64, a *btl.Atomic) uint64 {
	switch a.Action {
	case btl.ActionAdd:
		return n + a.Operand
	case btl.ActionAnd:
		return n & a.Operand
	case btl.ActionOr:
		return n | a.Operand
	case btl.ActionXor:
		return n ^ a.Operand
	case btl.ActionMin:
		return min(n, a.Operand)
	case btl.ActionMax:
		return max(n, a.Operand)
	case btl.ActionCompareSwap:
		if n == a.Compare {
			return a.Operand
		}
	case btl.ActionSwap:
		return a.Operand
	case btl.ActionRead:
	}
	return n
}

// rmaPair connects two nodes, and exposes memory of each to the other.
func rmaPair(l *lab, nodes []*node, rights btl.Rights, sizeBytes int) (
	eps [2]*btl.Endpoint, regions [2]*btl.Region,
) {
	l.t.Helper()
	for i, n := range nodes {
		var err error
		if regions[i], err = n.mod.Expose(make([]byte, sizeBytes), rights); err != nil {
			l.t.Fatal(err)
		}
	}
	eps[0] = l.connect(nodes[0], nodes[1])
	l.until("accepted", func() bool { return len(nodes[1].accepted()) > 0 })
	eps[1] = nodes[1].accepted()[0]
	return eps, regions
}
