package conformance

import (
	"encoding/binary"
	"errors"
	"testing"

	"gobtl/btl"
)

// testPuts, model: fabtests benchmarks/rma_bw and functional/rdm_rma_event. A window of puts; each
// is announced by a message when it has ended well, and then its bytes are in place.
func testPuts(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const placed, slots, slotBytes = btl.Tag(10), 8, 1 << 17
	region, err := target.mod.Expose(make([]byte, slots*slotBytes), btl.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	sizes := mixed(1, 700, 729, 1432, 1433, 5000, 1<<17, 0)
	const count = 120
	got := 0
	freed := make([]bool, count) // the slot may be written again
	target.handle(placed, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		i := int(binary.LittleEndian.Uint32(data))
		slot := region.Bytes()[i%slots*slotBytes:][:slotBytes]
		if n := sizes(i); !intact(slot[:n], uint64(i)) {
			t.Errorf("put %d of %d bytes is not in place when it is announced", i, n)
		}
		got++
		freed[i] = true
	})
	ep := l.connect(origin, target)
	mem := make([][]byte, slots)
	for i := range mem {
		mem[i] = make([]byte, slotBytes)
	}
	next, ended := 0, 0
	announce := func(i int) {
		f, err := ep.Alloc(placed, 4)
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(f.Bytes(), uint32(i))
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	origin.work = func() {
		for next < count && (next < slots || freed[next-slots]) {
			i := next
			b := mem[i%slots][:sizes(i)]
			pattern(b, uint64(i))
			f, err := ep.PreparePut(b, region.Handle(), uint64(i%slots*slotBytes))
			if err != nil {
				t.Fatal(err)
			}
			f.Signal = true
			f.OnDone = func(_ *btl.Fragment, err error) {
				if err != nil {
					t.Errorf("put %d: %v", i, err)
				}
				ended++
				clear(b)
				announce(i)
			}
			if _, err := ep.Send(ep.Now(), f); err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	l.until("all puts are announced", func() bool { return got == count })
	if ended != count {
		t.Errorf("%d of %d puts ended", ended, count)
	}
	origin.work = nil
	l.settle()
	st := target.mod.Stats()
	t.Logf("%d of %d chunks have landed", st.Get(btl.CntLandedPut), st.Get(btl.CntRecvPutChunk))
}

// testPutsRefused, model: the access checks of fabtests functional/rdm_rma_event and unit/mr_test.
// A put outside a region, to one that is gone or must not be written, fails, changes no byte, and
// disturbs nothing else.
func testPutsRefused(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const guard, room = 64, 20000
	mem := make([]byte, guard+room+guard)
	expose := func(b []byte, r btl.Rights) *btl.Region {
		region, err := target.mod.Expose(b, r)
		if err != nil {
			t.Fatal(err)
		}
		return region
	}
	region := expose(mem[guard:][:room:room], btl.RemoteWrite)
	locked, closed := expose(mem, 0), expose(mem, btl.RemoteWrite)
	closed.Close()
	ep := l.connect(origin, target)
	s := l.stream(origin, ep, target, spec{count: 200, size: rankSizes})
	for _, tc := range []struct {
		name   string
		handle btl.Handle
		offset uint64
		size   int
		want   error
	}{
		{"behind the end", region.Handle(), room, 1, btl.ErrRemoteAccess},
		{"over the end", region.Handle(), room - 1, 2, btl.ErrRemoteAccess},
		{"far away", region.Handle(), 1 << 63, 8, btl.ErrRemoteAccess},
		{"wraps", region.Handle(), 1<<64 - 4, 8, btl.ErrRemoteAccess},
		{"not writable", locked.Handle(), 0, 8, btl.ErrRemoteAccess},
		{"many packets, not writable", locked.Handle(), 0, room, btl.ErrRemoteAccess},
		{"closed", closed.Handle(), 0, 8, btl.ErrRemoteAccess},
		{"never there", region.Handle() ^ 1<<40, 0, 8, btl.ErrRemoteAccess},
		{"last byte", region.Handle(), room - 1, 1, nil},
		{"nothing, at the end", region.Handle(), room, 0, nil},
	} {
		before := append([]byte(nil), mem...)
		err := put(l, ep, make([]byte, tc.size), tc.handle, tc.offset)
		if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if tc.want != nil && string(before) != string(mem) {
			t.Errorf("%s: bytes have changed", tc.name)
		}
	}
	whole := make([]byte, room)
	pattern(whole, 7)
	if err := put(l, ep, whole, region.Handle(), 0); err != nil {
		t.Errorf("the whole region: %v", err)
	}
	if !intact(region.Bytes(), 7) {
		t.Error("the whole region is not what was put")
	}
	for i := range guard {
		if mem[i] != 0 || mem[guard+room+i] != 0 {
			t.Fatal("bytes around the region have changed")
		}
	}
	l.allDone("the traffic beside the puts", s)
	l.settle()
}

// put writes and waits for the end.
func put(l *lab, ep *btl.Endpoint, b []byte, h btl.Handle, offset uint64) error {
	var result error
	ended := false
	var f *btl.Fragment
	l.until("a descriptor for the put", func() bool {
		var err error
		f, err = ep.PreparePut(b, h, offset)
		result = err
		return !errors.Is(err, btl.ErrAgain)
	})
	if result != nil {
		return result
	}
	f.Signal = true
	f.OnDone = func(_ *btl.Fragment, err error) { result, ended = err, true }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		return err
	}
	l.until("the put has ended", func() bool { return ended })
	return result
}
