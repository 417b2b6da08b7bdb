package peer

import (
	"errors"
	"testing"

	"gobtl/btl/internal/errs"
)

// Endpoints of one host together take no more than one endpoint, but for one item each. While there
// is no other host, they take all that there is but for the reserve.
func TestShareOfHost(t *testing.T) {
	const all, peers = 128, 20
	alloc := func(st *station, ep *Endpoint) (*Fragment, error) { return st.Frags.Alloc(ep, 1, 100) }
	prepare := func(st *station, ep *Endpoint) (*Fragment, error) {
		return st.Frags.Prepare(ep, 1, make([]byte, 1<<15))
	}
	for _, c := range []struct {
		name        string
		descriptors int
		take        func(*station, *Endpoint) (*Fragment, error)
	}{{"send buffers", 8 * all, alloc}, {"descriptors", all, prepare}} {
		r := newRig(t, 3, func(to *rigConfig) { to.PeersMax, to.FragmentsMax = peers+1, c.descriptors })
		st := r.stations[0]
		open := func(to *station) *Endpoint {
			ep, err := st.NewEndpoint(to.name.Command, to.name.Data, 768, rigBufferBytes)
			if err != nil {
				t.Fatal(err)
			}
			ep.FragBytesMax = 1 << 20
			return ep
		}
		// One item after the other, until nobody gets one more. The result has those of each endpoint.
		takeAll := func(eps ...*Endpoint) (lent [][]*Fragment, count int) {
			lent = make([][]*Fragment, len(eps))
			for more := true; more; {
				more = false
				for i, ep := range eps {
					f, err := c.take(st, ep)
					if err == nil {
						more, lent[i] = true, append(lent[i], f)
						count++
					} else if !errors.Is(err, errs.ErrAgain) {
						t.Fatal(err)
					}
				}
			}
			return lent, count
		}
		free := func(lent [][]*Fragment) {
			for _, of := range lent {
				for _, f := range of {
					st.Frags.FreeFrag(f)
				}
			}
		}
		var crowd []*Endpoint
		for range peers {
			crowd = append(crowd, open(r.stations[1]))
		}
		lent, n := takeAll(crowd...)
		if n < all*3/4 {
			t.Errorf("%s: the endpoints of the only host take %d of %d", c.name, n, all)
		}
		free(lent)
		other := open(r.stations[2])
		lent, n = takeAll(crowd...)
		for i, of := range lent {
			if len(of) == 0 {
				t.Errorf("%s: endpoint %d of the host takes none", c.name, i)
			}
		}
		rest, others := takeAll(other)
		if n > all/2+1 || others < all/5 {
			t.Errorf("%s: %d endpoints of one host take %d of %d, and one of another host %d", c.name,
				peers, n, all, others)
		}
		for _, ep := range crowd { // and the other way round: nobody is left without any
			free(lent)
			if lent, _ = takeAll(ep); len(lent[0]) < all/8 {
				t.Errorf("%s: one endpoint of the host takes %d of %d", c.name, len(lent[0]), all)
			}
		}
		free(lent)
		free(rest)
		if h := crowd[0].ID.Host; h == other.ID.Host || h.Endpoints() != peers || h.Buffers != 0 ||
			h.Descriptors != 0 || other.ID.Host.Buffers != 0 {
			t.Errorf("%s: the counts of the host are %+v", c.name, *h)
		}
	}
}

// An endpoint of a third host gets an item beside the crowds of two hosts. One endpoint of a crowd
// takes all that it may, and each other endpoint takes one item.
func TestCrowdsOfTwoHosts(t *testing.T) {
	const all, peers = 128, 100
	for _, c := range []struct {
		name        string
		descriptors int
		take        func(*station, *Endpoint) (*Fragment, error)
	}{
		{"send buffers", 8 * all, func(st *station, ep *Endpoint) (*Fragment, error) {
			return st.Frags.Alloc(ep, 1, 100)
		}},
		{"descriptors", all, func(st *station, ep *Endpoint) (*Fragment, error) {
			return st.Frags.Prepare(ep, 1, make([]byte, 1<<15))
		}},
	} {
		r := newRig(t, 4, func(to *rigConfig) { to.PeersMax, to.FragmentsMax = 2*peers+1, c.descriptors })
		st := r.stations[0]
		var lent []*Fragment
		take := func(ep *Endpoint, most int) (taken int) {
			for ; taken < most; taken++ {
				f, err := c.take(st, ep)
				if errors.Is(err, errs.ErrAgain) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				lent = append(lent, f)
			}
			return taken
		}
		var crowd []*Endpoint
		for i := range 2*peers + 1 {
			to := r.stations[1+i/peers]
			ep, err := st.NewEndpoint(to.name.Command, to.name.Data, 768, rigBufferBytes)
			if err != nil {
				t.Fatal(err)
			}
			ep.FragBytesMax = 1 << 20
			crowd = append(crowd, ep)
		}
		firsts := take(crowd[0], all) + take(crowd[peers], all)
		others := 0
		for _, ep := range crowd[:2*peers] {
			others += take(ep, 1)
		}
		if others < all/8 || take(crowd[2*peers], 1) == 0 {
			t.Errorf("%s: beside %d of two endpoints and %d of their hosts, a third host has none", c.name,
				firsts, others)
		}
		for _, f := range lent {
			st.Frags.FreeFrag(f)
		}
	}
}
