package conformance

import (
	"encoding/binary"
	"errors"
	"testing"

	"gobtl/btl"
)

// testPlace, model: libfabric's FI_MULTI_RECV and UCX's rendezvous into memory of the receiver's:
// large messages of all sizes are announced, and come into memory that the receiver chooses then,
// or through the transport's; or they are refused, which their sender learns, and nobody else.
func testPlace(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const placed, count = btl.Tag(14), 80
	sizes := mixed(8, 700, 1433, 5000, 20_000, 200_000, 1<<20, 8)
	own := make([]byte, 1<<20)
	given, refused, got, ended, unwanted := false, 0, 0, 0, 0
	target.handle(placed, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		i := binary.LittleEndian.Uint64(data)
		if len(data) != sizes(int(i)) || !intact(data[8:], i) {
			t.Errorf("message %d of %d bytes is not what was sent", i, len(data))
		}
		if given && &data[0] == &own[0] {
			given = false
		}
		got++
	})
	target.mod.OnAbandoned(func(*btl.Endpoint, btl.Tag, []byte) { t.Error("given in vain") })
	asked := 0
	if err := target.mod.OnAnnounced(placed, func(_ *btl.Endpoint, a btl.Announced) btl.Place {
		asked++
		switch {
		case asked%7 == 0:
			refused++
			return btl.PlaceRefused()
		case given:
			return btl.Place{}
		}
		given = true
		return btl.PlaceIn(own)
	}); err != nil {
		t.Fatal(err)
	}
	ep := l.connect(origin, target)
	for i := range count {
		msg := make([]byte, sizes(i))
		binary.LittleEndian.PutUint64(msg, uint64(i))
		pattern(msg[8:], uint64(i))
		f, err := ep.Prepare(placed, msg)
		if err != nil {
			t.Fatal(err)
		}
		f.Signal = true
		f.OnDone = func(_ *btl.Fragment, err error) {
			ended++
			if errors.Is(err, btl.ErrUnwanted) {
				unwanted++
			} else if err != nil {
				t.Error(err)
			}
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 { // so that several are under way
			l.until("the sends end", func() bool { return ended == i+1 })
		}
	}
	l.settle()
	st := target.mod.Stats()
	large := target.mod.Limits().SegmentBytes < 200_000
	if got+unwanted != count || unwanted != refused || large && (refused == 0 ||
		st.Get(btl.CntPlaced) == 0) || given {
		t.Errorf("%d came, %d refused, %d of them known, %d placed", got, refused, unwanted,
			st.Get(btl.CntPlaced))
	}
	t.Logf("%d placed, of which %d bytes were copied there", st.Get(btl.CntPlaced),
		st.Get(btl.CntPlacedCopiedBytes))
}
