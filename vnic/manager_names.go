package vnic

// endpointName is an endpoint name of a host, with the kind of the endpoint. Two equal names of
// different kinds are not the same endpointName.
type endpointName struct {
	kind nameKind
	name string
}

type nameKind uint8

const (
	nameReceive nameKind = iota
	nameSend
	nameModule
)

// The method "each" calls the function fn for each endpoint name in w.
func (w *Ways) each(fn func(endpointName)) {
	for _, n := range w.Receive {
		fn(endpointName{nameReceive, string(n)})
	}
	for _, n := range w.Send {
		fn(endpointName{nameSend, string(n)})
	}
	if len(w.Module) > 0 {
		fn(endpointName{nameModule, string(w.Module)})
	}
}

// keepNames enters the endpoint names of a registered host into Manager.names. No two hosts in
// Manager.names have an endpoint name in common. When a host registers with an endpoint name of a
// disconnected host, Manager.answer first removes the names of the disconnected host.
func (m *Manager) keepNames(h *HostState) {
	h.ways.each(func(n endpointName) { m.names[n] = h })
}

// forgetNames removes the endpoint names of a host from Manager.names.
func (m *Manager) forgetNames(h *HostState) {
	if h.known {
		h.ways.each(func(n endpointName) { delete(m.names, n) })
	}
}

// claimed reports whether a connected host other than the registering host has one of the endpoint
// names of the registering host. The running time of the method "claimed" must not depend on the
// number of hosts, because any client, even one with unverified addresses, can make the manager
// call this method.
func (m *Manager) claimed(r *Registration) (yes bool) {
	r.Ways.each(func(n endpointName) {
		h := m.names[n]
		yes = yes || h != nil && h.Connected && h.Name != r.Host
	})
	return yes
}

// unclaim deletes the endpoint names of disconnected hosts that have a name in common with an
// accepted host.
func (m *Manager) unclaim(r *Registration) {
	r.Ways.each(func(n endpointName) {
		if h := m.names[n]; h != nil && !h.Connected && h.Name != r.Host {
			m.forgetNames(h)
			h.known = false
			m.waysMade++
			m.change(h, false)
		}
	})
}
