package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// A put with a notice that has to wait for an earlier one does not hold up small messages.
func TestSmallBesidePlaceless(t *testing.T) {
	const count = 500
	l := newLab(t, mem.Config{}, 2, smallConfig())
	arrived := 0
	l.mods[1].Handle(2, func(*Endpoint, Tag, []byte) { arrived++ })
	l.mods[1].Handle(3, func(*Endpoint, Tag, []byte) { t.Error("the put did not wait") })
	ep := l.connect(0, 1)
	l.settle(time.Second)
	r, err := l.mods[1].Expose(make([]byte, 1<<16), RemoteAll)
	if err != nil {
		t.Fatal(err)
	}
	for range 64 { // of those that may be under way none is over
		ep.c.Memory().TakePlace(l.mods[0].all.Remote.NotifyPut(nil, 3, nil))
	}
	f, err := ep.PreparePutNotice(make([]byte, 1<<15), r.Handle(), 0, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := ep.SendImmediate(l.now, 2, make([]byte, 400)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		l.step(time.Millisecond)
	}
	if l.settle(time.Second); arrived != count {
		t.Errorf("%d of %d messages have arrived", arrived, count)
	}
}
