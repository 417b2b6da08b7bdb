package conformance

import (
	"encoding/binary"
	"testing"

	"gobtl/btl"
)

// testVector, model: fabtests ubertest's FT_FUNC_SENDV and FT_FUNC_WRITEV, and the active messages
// of UCX: a header and a body in several pieces, of all sizes, and puts of several pieces.
func testVector(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const pieces, count, room = btl.Tag(12), 60, 1<<17 + 60
	region, err := target.mod.Expose(make([]byte, room), btl.RemoteAll)
	if err != nil {
		t.Fatal(err)
	}
	sizes := mixed(1, 700, 729, 1432, 1433, 5000, 9000, 1<<17, 0)
	got := 0
	target.handle(pieces, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		i := int(binary.LittleEndian.Uint32(data))
		if len(data) != 4+i+sizes(i) || !intact(data[4+i:], uint64(i)) {
			t.Errorf("message %d of %d bytes is not what was sent", i, sizes(i))
		}
		got++
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
		send(ep.PreparePieces(pieces, head[:4+i], b[:a], b[a:c], b[c:]))
		send(ep.PreparePutPieces(region.Handle(), 0, b[:a], b[a:c], b[c:]))
		if !intact(region.Bytes()[:len(b)], uint64(i)) {
			t.Errorf("put %d of %d bytes is not what was sent", i, len(b))
		}
	}
	l.until("all have come", func() bool { return got == count })
	l.settle()
	st := origin.mod.Stats()
	t.Logf("%d of %d bytes were gathered", st.Get(btl.CntSentGatheredBytes),
		st.Get(btl.CntSentPayloadBytes))
}
