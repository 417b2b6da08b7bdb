package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"gobtl/btl"
)

// testVector, model: fabtests ubertest's FT_FUNC_SENDV and FT_FUNC_WRITEV, and the active messages
// of UCX: a header and a body in several pieces, of all sizes, and puts of several pieces. And the
// several remote places of fi_writemsg and fi_readmsg (rma_iov): sections.
func testVector(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const headed, noticed, count, room = btl.Tag(12), btl.Tag(13), 60, 1<<17 + 60
	region, err := target.mod.Expose(make([]byte, room), btl.RemoteAll)
	second, err2 := target.mod.Expose(make([]byte, room), btl.RemoteAll)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	sizes := mixed(1, 700, 729, 1432, 1433, 5000, 9000, 1<<17, 0)
	got := 0
	if err := target.mod.HandleHeaded(headed, func(_ *btl.Endpoint, _ btl.Tag, head, body []byte) {
		i := int(binary.LittleEndian.Uint32(head))
		if len(head) != 4+i || len(body) != sizes(i) || !intact(body, uint64(i)) {
			t.Errorf("message %d of %d bytes is not what was sent", i, sizes(i))
		}
		got++
	}); err != nil {
		t.Fatal(err)
	}
	notices := -1
	target.handle(noticed, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		i := int(binary.LittleEndian.Uint32(data))
		n := sizes(i)
		if i <= notices || !joined(i, n/3, n, region, second) {
			t.Errorf("notice %d came behind that of %d, or before its bytes", i, notices)
		}
		notices = i
	})
	ep := l.connect(origin, target)
	send := func(f *btl.Fragment, err error) {
		over := false
		if err != nil {
			t.Fatal(err)
		}
		f.Signal = true
		f.OnDone = func(_ *btl.Fragment, err error) {
			if over = true; err != nil {
				t.Error(err)
			}
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
		l.until("the send ends", func() bool { return over })
	}
	msg, head := make([]byte, room), make([]byte, 4+count)
	for i := range count {
		b := msg[:sizes(i)]
		pattern(b, uint64(i))
		binary.LittleEndian.PutUint32(head, uint32(i))
		a, c := len(b)/3, len(b)*3/4
		send(ep.PrepareHeaded(headed, head[:4+i], b[:a], b[a:c], b[c:]))
		send(ep.PreparePutPieces(region.Handle(), 0, b[:a], b[a:c], b[c:]))
		if !intact(region.Bytes()[:len(b)], uint64(i)) {
			t.Errorf("put %d of %d bytes is not what was sent", i, len(b))
		}
		if len(b) < 2 {
			continue
		}
		sections := []btl.Section{
			{Mem: b[a:], Target: region.Handle(), Offset: uint64(i)},
			{Mem: b[:a], Target: second.Handle()},
		}[:1+min(a, 1)]
		clear(region.Bytes())
		clear(second.Bytes())
		send(ep.PreparePutSectionsNotice(sections, noticed, binary.LittleEndian.AppendUint32(nil,
			uint32(i))))
		l.until("the notice", func() bool { return notices == i })
		if !joined(i, a, len(b), region, second) {
			t.Errorf("sections %d of %d bytes are not what was sent", i, len(b))
		}
		clear(b)
		send(ep.PrepareGetSections(sections))
		if !intact(b, uint64(i)) {
			t.Errorf("sections %d of %d bytes are not what was read", i, len(b))
		}
	}
	l.until("all have come", func() bool { return got == count })
	l.settle()
	st := origin.mod.Stats()
	t.Logf("%d of %d bytes were gathered", st.Get(btl.CntSentGatheredBytes),
		st.Get(btl.CntSentPayloadBytes))
}

// joined says whether the n bytes of round i stand in two regions: those from a on, from offset i,
// in the first one.
func joined(i, a, n int, first, second *btl.Region) bool {
	b := append(bytes.Clone(second.Bytes()[:a]), first.Bytes()[i:][:n-a]...)
	return intact(b, uint64(i))
}
