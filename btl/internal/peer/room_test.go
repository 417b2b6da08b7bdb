package peer

import (
	"errors"
	"testing"

	"gobtl/btl/internal/errs"
)

// A pass looks at a bounded number of endpoints that wait for room, each in turn, and the deadline
// says that there are more to look at.
func TestRoomLooks(t *testing.T) {
	const peers, bound = 50, 8
	r := newRig(t, 1, func(c *rigConfig) { c.PeersMax, c.FragmentsMax = peers, 1024 })
	st := r.stations[0]
	st.Outbox.TellRoom(true)
	eps, lent := make([]*Endpoint, peers), []*Fragment(nil)
	for i := range eps {
		ep, err := st.NewEndpoint(st.name.Command, st.name.Data, 768, rigBufferBytes)
		if err != nil {
			t.Fatal(err)
		}
		ep.FragBytesMax = 1 << 20
		eps[i] = ep
	}
	for waiting := 0; waiting < peers; {
		waiting = 0
		for _, ep := range eps {
			f, err := st.Frags.Alloc(ep, 1, 100)
			switch {
			case errors.Is(err, errs.ErrAgain):
				waiting++
			case err != nil:
				t.Fatal(err)
			default:
				lent = append(lent, f)
			}
		}
	}
	if n := st.Outbox.wanting.Len(); n != peers {
		t.Fatalf("%d endpoints wait for room", n)
	}
	looks := 0
	for ; st.Outbox.roomDue(); looks++ {
		st.Outbox.FindRoom(false)
	}
	if looks < peers/bound || st.Outbox.wanting.Len() != peers {
		t.Fatalf("%d looks at %d endpoints, %d of which still wait", looks, peers,
			st.Outbox.wanting.Len())
	}
	for _, f := range lent {
		st.Frags.FreeFrag(f)
	}
	told := map[*Endpoint]int{}
	for due := true; due; due = st.Outbox.roomDue() {
		st.Outbox.FindRoom(false)
		n, ok := 0, true
		for ; ok; n++ {
			var note Notice
			if note, ok = st.Outbox.NextNotice(); ok {
				told[note.Ep]++
			}
		}
		if n-1 > bound {
			t.Fatalf("one look tells %d endpoints of room", n-1)
		}
	}
	for i, ep := range eps {
		if told[ep] != 1 {
			t.Errorf("endpoint %d was told of room %d times", i, told[ep])
		}
	}
}

// The only endpoint of a host is told of room at once, however many endpoints of another host wait
// for room before it.
func TestRoomLooksOfHosts(t *testing.T) {
	const peers = 50
	r := newRig(t, 3, func(c *rigConfig) { c.PeersMax, c.FragmentsMax = peers+1, 1024 })
	st := r.stations[0]
	st.Outbox.TellRoom(true)
	var crowd []*Endpoint
	open := func(to *station) *Endpoint {
		ep, err := st.NewEndpoint(to.name.Command, to.name.Data, 768, rigBufferBytes)
		if err != nil {
			t.Fatal(err)
		}
		ep.FragBytesMax = 1 << 20
		return ep
	}
	for range peers {
		crowd = append(crowd, open(r.stations[1]))
	}
	other := open(r.stations[2])
	take := func(eps ...*Endpoint) (lent []*Fragment) { // until all of them wait
		for waiting := 0; waiting < len(eps); {
			waiting = 0
			for _, ep := range eps {
				f, err := st.Frags.Alloc(ep, 1, 100)
				switch {
				case errors.Is(err, errs.ErrAgain):
					waiting++
				case err != nil:
					t.Fatal(err)
				default:
					lent = append(lent, f)
				}
			}
		}
		return lent
	}
	held := take(crowd...)
	for range 3 {
		lent := take(other)
		for _, f := range lent {
			st.Frags.FreeFrag(f)
		}
		st.Outbox.FindRoom(true)
		told := false
		for note, ok := st.Outbox.NextNotice(); ok; note, ok = st.Outbox.NextNotice() {
			told = told || note.Ep == other
		}
		if !told {
			t.Fatalf("the endpoint of the other host is not told of room for %d fragments", len(lent))
		}
	}
	for _, f := range held {
		st.Frags.FreeFrag(f)
	}
}
