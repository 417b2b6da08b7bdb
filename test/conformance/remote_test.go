package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"gobtl/btl"
)

// testRemote, model: fabtests functional/rdm_rma_event, rdm_rma_trigger, benchmarks/rma_pingpong.
// Puts with notices, gets and atomic operations of all sizes, many at a time, behind fences.
func testRemote(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const noticed, rounds, room = btl.Tag(11), 25, 1 << 17
	region, err := target.mod.Expose(make([]byte, room), btl.RemoteAll)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := target.mod.Expose(make([]byte, 8), btl.RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	sizes := mixed(1, 700, 729, 1432, 1433, 5000, 1<<17, 0)
	notices := 0
	target.handle(noticed, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		i := int(binary.LittleEndian.Uint32(data))
		if i != notices || !intact(region.Bytes()[:sizes(i)], uint64(i)) {
			t.Errorf("notice %d came as the one of number %d, or before its bytes", i, notices)
		}
		notices++
	})
	ep := l.connect(origin, target)
	put, got := make([]byte, room), make([]byte, room)
	for i := range rounds {
		n := sizes(i)
		pattern(put[:n], uint64(i))
		clear(got[:n])
		open := 0
		send := func(f *btl.Fragment, err error) {
			if err != nil {
				t.Fatal(err)
			}
			open++
			f.OnDone = func(_ *btl.Fragment, err error) {
				if open--; err != nil {
					t.Errorf("round %d: %v", i, err)
				}
			}
			if _, err := ep.Send(ep.Now(), f); err != nil {
				t.Fatal(err)
			}
		}
		send(ep.PreparePutNotice(put[:n], region.Handle(), 0, noticed,
			binary.LittleEndian.AppendUint32(nil, uint32(i))))
		for range 20 {
			send(ep.PrepareAtomic(btl.Atomic{
				Target: counter.Handle(), Action: btl.ActionAdd, WidthBytes: 8, Operand: 1,
				Fetch: i%2 == 0,
			}))
		}
		ep.Fence(ep.Now())
		send(ep.PrepareGet(got[:n], region.Handle(), 0))
		l.until(fmt.Sprintf("round %d", i), func() bool { return open == 0 })
		if !intact(got[:n], uint64(i)) {
			t.Errorf("round %d: what was read is not what was put before the fence", i)
		}
	}
	if v := binary.NativeEndian.Uint64(counter.Bytes()); v != 20*rounds || notices != rounds {
		t.Errorf("%d adds have made %d; %d notices of %d", 20*rounds, v, notices, rounds)
	}
	l.settle()
}

// testRemoteRefused, model: the access checks of fabtests unit/mr_test: what peers may not do.
func testRemoteRefused(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const room = 20_000
	mem := make([]byte, room)
	ep := l.connect(origin, target)
	for i, tc := range []struct {
		rights btl.Rights
		offset uint64
		size   int
		want   btl.AccessReason
	}{
		{btl.RemoteWrite, 0, room, btl.ReasonRight},
		{btl.RemoteAll &^ btl.RemoteRead, 0, 8, btl.ReasonRight},
		{btl.RemoteAll, room - 7, 8, btl.ReasonBounds},
		{btl.RemoteAll, 1, room, btl.ReasonBounds},
		{0, 0, 8, btl.ReasonRight},
	} {
		region, err := target.mod.Expose(mem, tc.rights)
		if err != nil {
			t.Fatal(err)
		}
		ended, into := errors.New("pending"), make([]byte, tc.size)
		f, err := ep.PrepareGet(into, region.Handle(), tc.offset)
		if err != nil {
			t.Fatal(err)
		}
		over := false
		f.OnDone = func(_ *btl.Fragment, err error) { ended, over = err, true }
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
		l.until("the get ends", func() bool { return over })
		var why *btl.AccessError
		if !errors.As(ended, &why) || why.Reason != tc.want || !errors.Is(ended, btl.ErrRemoteAccess) {
			t.Errorf("case %d: %v, want %v", i, ended, tc.want)
		}
		region.Close()
	}
	l.settle()
}
