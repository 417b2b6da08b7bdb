package stream

import (
	"fmt"
	"net/netip"

	"gobtl/btl"
)

// places counts the endpoints of the module that identity lines at a Meeting have made this side
// open, by the network of the host that sent the line. The module's limit for one host
// (PeersPerHost) does not apply to endpoints that this side opens. The engine therefore applies the
// limit to the lines of one network, so that they leave places of the module (PeersMax) to others.
// The zero places is ready for use.
type places struct {
	of    map[*btl.Endpoint]netip.Prefix // network whose line has opened the endpoint
	taken map[netip.Prefix]int           // number of the endpoints in the map "of", by network
}

var errPlaces = fmt.Errorf("%w: too many receivers from the same host", ErrTaken)

// take counts an endpoint that a line from the given network has opened.
func (p *places) take(ep *btl.Endpoint, from netip.Prefix) {
	if p.of == nil {
		p.of, p.taken = make(map[*btl.Endpoint]netip.Prefix), make(map[netip.Prefix]int)
	}
	if _, counted := p.of[ep]; !counted {
		p.of[ep] = from
		p.taken[from]++
	}
}

// The method "leave" ends the counting of an endpoint.
func (p *places) leave(ep *btl.Endpoint) {
	from, counted := p.of[ep]
	if !counted {
		return
	}
	delete(p.of, ep)
	if p.taken[from]--; p.taken[from] == 0 {
		delete(p.taken, from)
	}
}

// allowLine returns an error that wraps ErrTaken if the endpoints that lines of the identity's
// network have opened are too many for one more. Otherwise allowLine returns the results of
// allowOtherHost.
func (e *Engine) allowLine(id Identity) (otherHost bool, err error) {
	most := e.m.Config().PeersPerHost
	if id.from != "" && most > 0 && e.places.taken[networkOf(id.from)] >= most {
		return false, errPlaces
	}
	return e.allowOtherHost(id)
}

// giveBack closes an endpoint that a line has opened, unless a stream uses the endpoint. The
// endpoint ends after the control messages that were sent to it have arrived.
func (e *Engine) giveBack(ep *btl.Endpoint) {
	if _, counted := e.places.of[ep]; counted && !e.uses(ep) {
		ep.Close(e.now)
	}
}
