package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/frag"
)

// Connect returns the endpoint for the peer with the given name, which is a result of the peer's
// Module.Name. If the module has no endpoint for this name, Connect makes an endpoint and begins
// the handshake. Messages given to Send before the handshake is complete are queued. The function
// given to OnEndpoint receives the result of the handshake. The error of a failed handshake is
// ErrUnreachable, ErrVersion, ErrStale or ErrRefused. A module can connect to its own name. The
// argument "now" of Connect is the present time. Connect returns ErrBadName for an invalid name,
// ErrClosed for a closed module, and ErrRefused if there are already PeersMax endpoints.
func (m *Module) Connect(now Time, name []byte) (*Endpoint, error) {
	m.all.At(now)
	if m.closed || m.all.Draining {
		return nil, ErrClosed
	}
	n, err := frag.ParseName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadName, err)
	}
	if n.Provider != m.all.Port.WireName() {
		return nil, fmt.Errorf("%w: it is of provider %s, this module uses %s", ErrBadName, n.Provider,
			m.all.Port.WireName())
	}
	return connected(m.all.Handshakes.Connect(&n))
}

// Dial connects like Connect, but to an address instead of a name. The argument "address" of Dial
// is the address of the peer's command channel, such as "192.0.2.1:4000". If the port of the data
// channel is not the command channel's port plus one, the address must contain the data channel's
// port after a comma, as in "192.0.2.1:4000,4711". Any incarnation of the peer is accepted. If the
// module already has an endpoint for the given address, Dial returns the existing endpoint. An
// existing endpoint detects a restart of the peer after several unanswered packets, mostly within a
// quarter of Config.PeerTimeout. To reconnect earlier to a restarted peer, call Abort on the old
// endpoint before Dial. Dial returns ErrBadName for an invalid address or a fabric without textual
// addresses, ErrClosed for a closed module, and ErrRefused if there are already PeersMax endpoints.
func (m *Module) Dial(now Time, address string) (*Endpoint, error) {
	m.all.At(now)
	if m.closed || m.all.Draining {
		return nil, ErrClosed
	}
	cmd, data, err := parseAddress(&m.all.Port, address)
	if err != nil {
		return nil, err
	}
	return connected(m.all.Handshakes.Dial(cmd, data, m.all.Port.Command.MTUBytes,
		m.all.Port.Data.MTUBytes))
}

// The function "connected" returns the public Endpoint for the internal endpoint c, or the error
// err if err is not nil.
func connected(c *peer.Endpoint, err error) (*Endpoint, error) {
	if err != nil {
		return nil, err
	}
	return endpointOf(c), nil
}

// parseAddress converts an address in the notation of Dial to the fabric addresses of both
// channels, in binary form. For an invalid address, parseAddress returns ErrBadName.
func parseAddress(p *port.Port, address string) (cmd, data []byte, err error) {
	cmd, data, err = p.ParseAddress(address)
	if errors.Is(err, port.ErrNoText) {
		err = fmt.Errorf("an address says nothing to provider %s, give a name", p.Info.Provider)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBadName, err)
	}
	return cmd, data, err
}

// AddressesOf returns the addresses of the command channel and the data channel in a module's name,
// as text such as "192.0.2.1:4000". AddressesOf returns ErrBadName if "name" is not the name of a
// module.
func (m *Module) AddressesOf(name []byte) (command, data string, err error) {
	n, err := frag.ParseName(name)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrBadName, err)
	}
	return m.all.Port.FormatName(n.Command), m.all.Port.FormatName(n.Data), nil
}

// Address returns this module's address in the notation of Dial. The result of Address is
// Config.Advertise if that is set, and otherwise the address to which the module is bound. For a
// fabric without textual addresses, Address returns "".
func (m *Module) Address() string {
	return m.all.Port.FormatPair(m.told[0], m.told[1])
}

// IsModule reports whether the given result of Module.Name is the name of this endpoint's peer, and
// the peer has answered from the address in the name.
func (ep *Endpoint) IsModule(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && string(n.Command) == ep.c.ID.Addr && ep.c.ID.IsLife(n.Incarnation)
}

// AtHost reports whether the given name of a fabric endpoint belongs to the host from which the
// peer has answered. If the fabric cannot tell hosts apart, AtHost always returns true.
func (ep *Endpoint) AtHost(name []byte) bool {
	c := &ep.c.All.Peers
	return !c.TellsHosts() || c.SameHost(string(name), ep.c.ID.Addr)
}

// PeerHost returns the host part of the peer's address, in the binary form of the fabric, which is
// the same for all peers on one host. If the fabric cannot tell hosts apart, each peer address has
// a PeerHost of its own.
func (ep *Endpoint) PeerHost() string { return ep.c.All.Peers.HostOf(ep.c.ID.Addr) }

// PeerAddress returns the address of the peer's command channel as text, such as "192.0.2.1:4000".
// For a fabric without textual addresses, PeerAddress returns the address in hexadecimal.
func (ep *Endpoint) PeerAddress() string { return ep.c.All.Port.FormatName([]byte(ep.c.ID.Addr)) }
