package btl

import (
	"encoding/hex"
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/frag"
)

// Connect returns the endpoint for a module's name, and begins the handshake if there is none yet.
// Messages sent before it is complete are queued. OnEndpoint gets its outcome: ErrUnreachable,
// ErrVersion, ErrStale or ErrRefused if it fails. Connecting to this module's own name works. now
// is the present instant. Errors: ErrBadName, ErrRefused at PeersMax endpoints, ErrClosed.
func (m *Module) Connect(now Time, name []byte) (*Endpoint, error) {
	m.at(now)
	if m.closed || m.draining {
		return nil, ErrClosed
	}
	n, err := frag.ParseName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadName, err)
	}
	if n.Provider != m.port.WireName() {
		return nil, fmt.Errorf("%w: it is of provider %s, this module uses %s", ErrBadName, n.Provider,
			m.port.WireName())
	}
	return m.handshakes.Connect(&n)
}

// Dial is Connect by address instead of name: that of the peer's command channel and, after a
// comma, its data port if that is not the next one ("192.0.2.1:4000", "192.0.2.1:4000,4711"). Any
// incarnation of the peer is accepted. If an endpoint of that address exists, Dial returns it.
// Should the peer have restarted without connecting itself, that is noticed after several
// unanswered packets, mostly within a quarter of Config.PeerTimeout; Abort the endpoint to
// reconnect earlier. Errors: ErrBadName, also for a fabric without textual addresses, ErrRefused at
// PeersMax endpoints, ErrClosed.
func (m *Module) Dial(now Time, address string) (*Endpoint, error) {
	m.at(now)
	if m.closed || m.draining {
		return nil, ErrClosed
	}
	cmd, data, err := m.parseAddress(address)
	if err != nil {
		return nil, err
	}
	return m.handshakes.Dial(cmd, data, m.port.Command.MTUBytes(), m.port.Data.MTUBytes())
}

// parseAddress parses the textual address of a module.
func (m *Module) parseAddress(address string) (cmd, data []byte, err error) {
	a, ok := m.port.Dom.(fabric.Addresser)
	if !ok {
		return nil, nil, fmt.Errorf("%w: an address says nothing to provider %s, give a name", ErrBadName,
			m.port.Info.Provider)
	}
	cmd, data, err = a.ParseAddress(address)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBadName, err)
		if errors.Is(err, fabric.ErrNotSupported) {
			err = fmt.Errorf("%w: an address says nothing to provider %s, give a name", ErrBadName,
				m.port.Info.Provider)
		}
	}
	return cmd, data, err
}

// formatName is an endpoint's name in human-readable form.
func (m *Module) formatName(name []byte) string {
	if a, ok := m.port.Dom.(fabric.Addresser); ok {
		return a.FormatName(name)
	}
	return hex.EncodeToString(name)
}

// Address is this module's address in the notation of Dial, as far as it knows: Config.Advertise,
// else the address that it is bound to. It is empty for a fabric without textual addresses.
func (m *Module) Address() string {
	a, ok := m.port.Dom.(fabric.Addresser)
	if !ok {
		return ""
	}
	first, second := a.FormatName(m.told[0]), a.FormatName(m.told[1])
	for i := len(second); i > 0; i-- {
		if second[i-1] == ':' {
			return first + "," + second[i:]
		}
	}
	return first
}

// IsModule says whether a module's name (Module.Name) is that of this peer, and the peer has
// answered from the address in that name.
func (ep *Endpoint) IsModule(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && string(n.Command) == ep.id.Addr && ep.id.IsLife(n.Incarnation)
}

// AtHost says whether the name of an endpoint of the fabric belongs to the host from which the peer
// has answered. Where the fabric tells no hosts apart, any name may.
func (ep *Endpoint) AtHost(name []byte) bool {
	c := &ep.m.peers
	return !c.TellsHosts() || c.SameHost(string(name), ep.id.Addr)
}

// PeerAddress is the address of the peer's command channel in human-readable form:
// "192.0.2.1:4000", or hexadecimal for a fabric without textual addresses.
func (ep *Endpoint) PeerAddress() string { return ep.m.formatName([]byte(ep.id.Addr)) }
