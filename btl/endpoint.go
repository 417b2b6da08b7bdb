package btl

import (
	"fmt"

	"gobtl/btl/internal/peer"
	"gobtl/frag"
	"gobtl/reliability"
)

// Endpoint is the connection to one peer.
type Endpoint struct {
	// Context is a value of the application, which the module does not read or change.
	Context any

	c peer.Endpoint // the state of the connection
}

// newEndpoint makes an endpoint for package peer.
func newEndpoint() *peer.Endpoint {
	ep := new(Endpoint)
	ep.c.Init(ep)
	return &ep.c
}

// endpointOf returns the public Endpoint for the internal endpoint c, or nil for a nil c.
func endpointOf(c *peer.Endpoint) *Endpoint {
	if c == nil {
		return nil
	}
	ep, _ := c.Owner.(*Endpoint)
	return ep
}

// Err returns the error with which the endpoint ended, such as ErrClosed, ErrPeerClosed,
// ErrPeerDead or ErrUnreachable. Before the endpoint has ended, Err returns nil.
func (ep *Endpoint) Err() error { return ep.c.Err() }

// Connected reports whether the handshake is complete and the endpoint has not ended.
func (ep *Endpoint) Connected() bool { return ep.c.ID.State == peer.StateConnected }

// Outstanding returns the number of unacknowledged packets and the number of fragments that wait to
// be sent.
func (ep *Endpoint) Outstanding() (packets, fragments int) { return ep.c.Outstanding() }

// MaxTiny returns the size, in bytes, of the largest fragment that is sent to this peer on the
// command channel.
func (ep *Endpoint) MaxTiny() int { return ep.c.MaxTiny() }

// MTUBytes returns the current path MTU, which is the size of the largest datagram that this side
// sends to the peer (see also Path).
func (ep *Endpoint) MTUBytes() int { return ep.c.MTU() }

// Close begins to close the endpoint without loss, and does not wait for the end. After Close, all
// accepted fragments are delivered, then the peer is informed, and then this side gets EventClosed.
// If no packet is acknowledged for Config.CloseTimeout, the endpoint ends although fragments are
// unacknowledged. Sends after Close return ErrClosed. The argument "now" of Close is the present
// time.
func (ep *Endpoint) Close(now Time) { ep.c.All.Endings.Close(&ep.c, now, frag.ByeClosed) }

// CloseCodeMax is the largest code that CloseWith accepts.
const CloseCodeMax = frag.ByeOwnerMax

// CloseWith closes the endpoint like Close, and sends the peer a code from 0 to CloseCodeMax, whose
// meaning the application defines. The last event of the peer's endpoint has an EndedError with the
// code given to CloseWith. CloseWith returns ErrConfig if the code exceeds CloseCodeMax.
func (ep *Endpoint) CloseWith(now Time, code uint16) error {
	if code > CloseCodeMax {
		return fmt.Errorf("%w: close code %d, at most %d", ErrConfig, code, CloseCodeMax)
	}
	ep.c.All.Endings.Close(&ep.c, now, frag.ByeOwner+code)
	return nil
}

// Abort ends the endpoint immediately, so that incomplete sends end with ErrClosed. Abort sends one
// packet to the peer, whose endpoint then fails with an EndedError. If the packet of Abort is lost,
// the peer's timers detect the end of the connection.
func (ep *Endpoint) Abort() { ep.c.All.Endings.Abort(&ep.c) }

// Path describes the path to a peer.
type Path struct {
	reliability.PathState
	// MTUBytes is the current path MTU, which is the size of the largest datagram that this side sends
	// to the peer. MTUBytesMost is the largest datagram size that the network devices of both sides
	// allow. MTUWhy is a text with the reason for the current value of MTUBytes.
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	// Holes counts how often the path stopped carrying datagrams of MTUBytes.
	Holes int
}

// Path returns the measured properties of the path to the peer, such as round-trip time, window,
// packets in flight and datagram size.
func (ep *Endpoint) Path() Path { return Path(ep.c.PathState()) }
