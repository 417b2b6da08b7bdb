package btl

// mod returns the endpoint's module.
func (ep *Endpoint) mod() *Module { return ep.c.All().Module().(*Module) }

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
