package conformance

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// testUpTo: a handler takes messages up to a length; of a longer one its sender learns that it is
// not wanted, and nobody else does.
func testUpTo(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	target, origin := l.add(btl.Config{}), l.add(btl.Config{})
	const bounded, count, most = btl.Tag(14), 80, 200_000
	sizes := mixed(8, 700, 1433, 5000, 20_000, most, most+1, 1<<20, 8)
	got, ended, unwanted, long := 0, 0, 0, 0
	if err := target.mod.HandleUpTo(bounded, most, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		if len(data) > most {
			t.Errorf("a message of %d bytes came", len(data))
		}
		got++
	}); err != nil {
		t.Fatal(err)
	}
	ep := l.connect(origin, target)
	for i := range count {
		f, err := ep.Prepare(bounded, make([]byte, sizes(i)))
		if err != nil {
			t.Fatal(err)
		}
		if sizes(i) > most {
			long++
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
	if got != count-long || unwanted != long || long == 0 {
		t.Errorf("%d of %d came, %d of %d too long were refused", got, count-long, unwanted, long)
	}
}
