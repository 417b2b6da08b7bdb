package stream

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// The type "places" counts the endpoints that this side has opened because of identity lines at a
// Meeting, separately for each network from which such lines came. The module does not apply its
// limit for one host (PeersPerHost) to endpoints that this side opens. The engine applies the limit
// PeersPerHost to the endpoints that the lines of one network have opened, so that receivers in
// other networks can still connect (PeersMax). The zero places is ready for use.
type places struct {
	of    map[*btl.Endpoint]place
	named map[string]int       // number of the endpoints in the map "of", by place.name
	taken map[netip.Prefix]int // number of the endpoints in the map "of", by network
	next  mono.Time            // of the next search among the endpoints of all networks
	// nextOf is the time of the next search among the endpoints of one network.
	nextOf map[netip.Prefix]mono.Time
}

// searchEvery is the minimum time between two searches among the endpoints of all networks, and
// between two searches among the endpoints of one network. The rate of searches is limited, because
// each search looks at all endpoints, and a host can send any number of lines in a second.
const searchEvery = 100 * time.Millisecond

// place describes an endpoint that this side has opened because of an identity line.
type place struct {
	from      netip.Prefix // network of the host that sent the line
	name      string       // name of the module, or empty after giveBack has closed the endpoint
	otherHost bool         // the line has possibly named the module of another host
}

var (
	errPlaces = fmt.Errorf("%w: too many receivers from the same host", ErrTaken)
	errFull   = fmt.Errorf("%w: the sender's module has no free place", ErrTaken)
)

// take counts an endpoint that this side has opened because of an identity line.
func (p *places) take(ep *btl.Endpoint, by place) {
	if p.of == nil {
		p.of, p.taken = make(map[*btl.Endpoint]place), make(map[netip.Prefix]int)
		p.named, p.nextOf = make(map[string]int), make(map[netip.Prefix]mono.Time)
	}
	if _, counted := p.of[ep]; !counted {
		p.of[ep] = by
		p.taken[by.from]++
		p.named[by.name]++
	}
}

// The method "leave" removes an endpoint from all counts.
func (p *places) leave(ep *btl.Endpoint) {
	by, counted := p.of[ep]
	if !counted {
		return
	}
	p.unname(by.name)
	delete(p.of, ep)
	if p.taken[by.from]--; p.taken[by.from] == 0 {
		delete(p.taken, by.from)
		delete(p.nextOf, by.from)
	}
}

// unname subtracts one endpoint from the number of endpoints with the given module name.
func (p *places) unname(name string) {
	if p.named[name]--; p.named[name] <= 0 {
		delete(p.named, name)
	}
}

// allowLine returns an error that wraps ErrTaken if identity lines from the same network as this
// identity have already opened the largest permitted number of endpoints. Before it returns
// ErrTaken, allowLine closes the unused endpoints of the network, at most once in searchEvery, so
// that a later line can open an endpoint. The limit for one network does not apply to a module to
// which a line has already opened an endpoint. If the limit allows the endpoint, allowLine returns
// the results of allowOtherHost.
func (e *Engine) allowLine(id Identity) (otherHost bool, err error) {
	most := e.m.Config().PeersPerHost
	if id.from != "" && most > 0 {
		from := networkOf(id.from)
		if p := &e.places; p.taken[from] >= most && p.named[string(id.Name)] == 0 {
			if e.now >= p.nextOf[from] {
				p.nextOf[from] = e.now.Add(searchEvery)
				e.giveBack(func(by place) bool { return by.from == from })
			}
			return false, errPlaces
		}
	}
	return e.allowOtherHost(id)
}

// connect opens an endpoint to the module of an identity, which the program has passed or an
// identity line at a Meeting has contained. The result otherHost is that of allowOtherHost. If the
// limit for lines of the identity's network does not allow the endpoint, or if the module has
// reached its limit PeersMax, connect closes unused endpoints that lines have opened, and returns
// an error that wraps ErrTaken, so that the receiver tries again.
func (e *Engine) connect(id Identity) (ep *btl.Endpoint, otherHost bool, err error) {
	if otherHost, err = e.allowLine(id); err != nil {
		return nil, otherHost, err
	}
	ep, err = e.m.Connect(e.now, id.Name)
	if errors.Is(err, btl.ErrRefused) && id.from != "" {
		if e.now >= e.places.next {
			e.places.next = e.now.Add(searchEvery)
			e.giveBack(func(place) bool { return true })
		}
		return nil, otherHost, errFull
	}
	if err != nil {
		return nil, otherHost, lostError(err)
	}
	return ep, otherHost, nil
}

// giveBack closes the endpoints that lines have opened, that no stream uses, and for which the
// function "which" returns true. giveBack does not close an endpoint for which control messages
// wait. giveBack also does not close an endpoint whose line has possibly named the module of
// another host, because a host must not be able to close the connection of another host.
func (e *Engine) giveBack(which func(place) bool) {
	used := make(map[*btl.Endpoint]bool)
	for _, k := range e.links {
		if k != nil {
			used[k.ep] = true
		}
	}
	for _, r := range e.receiving {
		used[r.ep] = true
		for _, s := range r.candidates {
			used[s.ep] = true
		}
	}
	for ep, by := range e.places.of {
		if which(by) && !by.otherHost && !used[ep] && e.outboxes[ep] == nil {
			e.places.unname(by.name)
			by.name = "" // a line that names the module needs a new endpoint
			e.places.of[ep] = by
			ep.Close(e.now)
		}
	}
}
