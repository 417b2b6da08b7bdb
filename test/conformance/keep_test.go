package conformance

import (
	"encoding/binary"
	"testing"

	"gobtl/btl"
)

// testKeep: everybody keeps what comes from everybody else, all of it for a while: nobody stands
// still for that, and what is kept stays as it was, in packet buffers, in the memory of large
// fragments, and, beyond the bounds, in copies.
func testKeep(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	const kept, count, few = btl.Tag(13), 60, 8
	sizes := mixed(4, 700, 1400, 5000, 60_000, 8)
	nodes := l.addAll(3, btl.Config{KeptPackets: few})
	all := make([]*[]btl.Kept, len(nodes))
	for i, n := range nodes {
		mine := make([]btl.Kept, 0, (len(nodes)-1)*count)
		all[i] = &mine
		n.handle(kept, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			mine = append(mine, btl.Kept{})
			if err := n.mod.Keep(&mine[len(mine)-1], data); err != nil {
				t.Error(err)
			}
		})
	}
	l.eachToEach(nodes, kept, count, sizes)
	l.until("all is kept", func() bool {
		for _, mine := range all {
			if len(*mine) < cap(*mine) {
				return false
			}
		}
		return true
	})
	for i, mine := range all {
		for j := range *mine {
			k := &(*mine)[j]
			b := k.Bytes()
			if n := int(binary.LittleEndian.Uint32(b)); len(b) != sizes(n) || !intact(b[4:], uint64(n)) {
				t.Errorf("node %d: message %d of %d bytes is not as it came", i, n, len(b))
			}
			k.Release()
		}
	}
	l.settle()
	st := nodes[0].mod.Stats()
	t.Logf("%d in packets, %d in place, %d copied", st.Get(btl.CntKeptPackets),
		st.Get(btl.CntKeptMessages), st.Get(btl.CntKeptCopies))
	chunks := nodes[0].mod.Limits().SegmentBytes < 60_000
	if st.Get(btl.CntKeptPackets) < few || chunks && st.Get(btl.CntKeptMessages) < few {
		t.Error("less is kept in place than there is room for")
	}
}

// eachToEach has every node send every other one so many numbered messages of a tag.
func (l *lab) eachToEach(nodes []*node, tag btl.Tag, count int, sizes func(int) int) {
	for i, n := range nodes {
		for j := range nodes {
			if i == j {
				continue
			}
			ep := l.connect(n, nodes[j])
			next := 0
			work := n.work
			n.work = func() {
				if work != nil {
					work()
				}
				if next == count {
					return
				}
				f, err := ep.Alloc(tag, sizes(next))
				if err != nil {
					return
				}
				b := f.Bytes()
				binary.LittleEndian.PutUint32(b, uint32(next))
				pattern(b[4:], uint64(next))
				if _, err := ep.Send(ep.Now(), f); err != nil {
					l.t.Error(err)
				}
				next++
			}
		}
	}
}

// testPull: everybody pulls what comes from everybody else, in one call a pass, each message once.
func testPull(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	const pulled, count = btl.Tag(15), 60
	sizes := mixed(4, 700, 1400, 5000, 60_000, 8)
	nodes := l.addAll(3, btl.Config{})
	missing := len(nodes) * (len(nodes) - 1) * count
	for _, n := range nodes {
		if err := n.mod.HandlePulled(pulled); err != nil {
			t.Fatal(err)
		}
		buf, seen := make([]btl.Arrival, 16), map[*btl.Endpoint]map[int]bool{}
		n.work = func() {
			for i := range n.mod.PullArrivals(buf) {
				a := &buf[i]
				b := a.Bytes()
				number := int(binary.LittleEndian.Uint32(b))
				if len(b) != sizes(number) || !intact(b[4:], uint64(number)) || seen[a.Endpoint][number] {
					t.Errorf("message %d of %d bytes is not as it was sent, or not new", number, len(b))
				}
				if seen[a.Endpoint] == nil {
					seen[a.Endpoint] = map[int]bool{}
				}
				seen[a.Endpoint][number] = true
				missing--
			}
		}
	}
	l.eachToEach(nodes, pulled, count, sizes)
	l.until("all is pulled", func() bool { return missing == 0 })
	l.settle()
}
