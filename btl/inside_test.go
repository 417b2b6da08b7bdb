package btl

import "gobtl/frag"

// The functions below are what most tests of this package need besides the methods for users. A
// test of one part of a module belongs into the package of that part.

// mod returns the endpoint's module.
func (ep *Endpoint) mod() *Module { return ep.c.All.Module().(*Module) }

// forgetHandlers removes the handlers of all tags.
func (m *Module) forgetHandlers() {
	for tag := range 256 {
		m.rx.SetHandler(uint8(tag), nil)
	}
}

// endpoints returns the endpoints in the table of peers, by slot.
func (m *Module) endpoints() (eps []*Endpoint) {
	for _, c := range m.all.Peers.All() {
		eps = append(eps, endpointOf(c))
	}
	return eps
}

// statsNow returns the counters and gauges at the present time.
func statsNow(m *Module) Stats {
	m.Hooks().PublishStats()
	return m.Stats()
}

// counter returns the present value of a counter.
func counter(m *Module, c Counter) uint64 {
	s := statsNow(m)
	return s.Get(c)
}

// unaccounted returns the number of received packets that no counter explains.
func unaccounted(m *Module) int64 {
	s := statsNow(m)
	return s.Unaccounted()
}

// peersOf returns the number of endpoints of the module.
func peersOf(m *Module) int { return int(statsNow(m).Endpoints) }

// inFlight returns the number of packets of the module that are not acknowledged.
func inFlight(m *Module) int { return int(statsNow(m).InFlight) }

// flying returns the number of packets of the endpoint that are not acknowledged.
func flying(ep *Endpoint) int {
	packets, _ := ep.Outstanding()
	return packets
}

// queued returns the number of fragments that wait to be sent.
func queued(ep *Endpoint) int {
	_, fragments := ep.Outstanding()
	return fragments
}

// nameOf returns the parts of the module's name.
func nameOf(m *Module) frag.Name {
	n, err := frag.ParseName(m.Name())
	if err != nil {
		panic(err)
	}
	return n
}

// tagOf returns the connection tag with which the endpoint's peer sends packets, for tests that
// write packets themselves.
func tagOf(ep *Endpoint) uint64 { return ep.c.ID.Tag }

// peerTagOf returns the connection tag with which the endpoint sends packets.
func peerTagOf(ep *Endpoint) uint64 { return ep.c.ID.Peer.Tag }

// halfOpen returns the number of endpoints that have not proven their addresses.
func halfOpen(m *Module) int { return m.all.Peers.HalfOpen }

// restsUntil returns the time until which calls of Progress only poll.
func restsUntil(m *Module) Time { return m.all.Rest.Until }
