package btl

import (
	"errors"
	"fmt"
	"syscall"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// This file handles path MTU probes and slices of packets. A Ping is a probe, a Pong the reply to a
// Ping, and a Part a slice of a packet that exceeds the current path MTU. egress_path.go sends
// these packets. Counted links use no Pings and Parts, because a reliable fabric delivers packets
// of every size that both devices accept.

// partial is a module's state for packets that arrive in Parts, which are slices of a packet.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

const (
	// partsBytesMax is the maximum memory, in bytes over all peers, for incomplete packets that
	// arrive in Parts.
	partsBytesMax = 8 << 20
	// heldBytes is the fragment size above which a fragment waits for the first Pong, the reply to
	// a path MTU probe. After that Pong, packets may be many times larger.
	heldBytes = 64 << 10
)

// Path describes the path to a peer.
type Path struct {
	reliability.PathState
	// MTUBytes is the size of the largest datagram that is now sent to the peer. MTUBytesMost is
	// the largest size that the devices of both sides allow. MTUWhy is the human-readable reason
	// for MTUBytes.
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	// Holes counts the times that datagrams of MTUBytes stopped getting through to the peer.
	Holes int
}

// Path returns the measured state of the path to the peer, such as round-trip time, window, packets
// in flight and datagram size.
func (ep *Endpoint) Path() Path {
	p := Path{
		PathState: ep.snd.Path(), MTUBytes: ep.mtu, MTUBytesMost: ep.mtuMost,
		Holes: ep.path.Holes(),
	}
	switch {
	case ep.id.Counted:
		p.MTUWhy = "all that both devices take, of a fabric that loses nothing"
	case ep.path.Begun():
		p.MTUWhy = ep.path.Reason()
	default:
		p.MTUWhy = "not connected"
	}
	return p
}

// holds says whether a large fragment has to wait for the Pong that answers the first Ping (path
// MTU probe).
func (ep *Endpoint) holds(f *Fragment) bool {
	return f.size > heldBytes && f.cursor == 0 && !f.isBye() && !ep.id.Counted &&
		ep.path.FirstProbePending()
}

// isAside marks the kinds of packets that receiveAside handles, which carry no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receiveAside handles a received Ping (path MTU probe), Pong (reply to a Ping) or Part (slice of a
// packet).
func (m *Module) receiveAside(c *port.Channel, in *arrival) {
	ep := in.ep
	if ep.id.State() != stateConnected {
		m.drop(CntDropState)
		return
	}
	switch in.Kind {
	case frag.KindPing:
		m.onPing(c, in)
	case frag.KindPong:
		m.onPong(in)
	default:
		m.onPart(in)
	}
}

// onPing replies to a Ping (path MTU probe) with a Pong on the same channel. The Ping is dropped if
// the peer sends too many, or if there is no room for the Pong.
func (m *Module) onPing(c *port.Channel, in *arrival) {
	ep := in.ep
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	if !ep.path.MayPong(m.now) ||
		!m.sendPing(ep, frag.KindPong, c, frag.NonceOf(in.payload), frag.PongBytes) {
		m.drop(CntDropPing)
		return
	}
	ep.path.Ponged()
	m.stats.counters[CntRecvPing]++
}

// onPong handles the reply to a Ping, which was either a round-trip measurement or a path MTU
// probe. A Pong without a matching Ping is dropped.
func (m *Module) onPong(in *arrival) {
	ep := in.ep
	nonce := frag.NonceOf(in.payload)
	if least, ok := ep.path.Measured(m.now, nonce); ok {
		if least > 0 {
			ep.rcv.RoundTrip(least)
		}
	} else if ep.id.Counted || !m.paths.Pong(ep, nonce) {
		m.drop(CntDropPing)
		return
	}
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	m.stats.counters[CntRecvPong]++
}

// pathCarried passes newly acknowledged packets to the path MTU search. pathCarried leaves out
// retransmitted packets, because the ACK does not say which copy arrived.
func (m *Module) pathCarried(ep *Endpoint, done []reliability.Token) {
	stage := ep.path.Stage()
	for _, t := range done {
		if s := &m.segs[t]; !s.parted && m.recovery.Resends(t) == 0 {
			ep.path.Delivered(m.now, m.recovery.PostedAt(t), int(s.bytes), m.port.Alone(segBuf(t)))
		}
	}
	if ep.path.Stage() != stage {
		m.paths.GoOn(ep)
	}
}

// pathRefused tells the path MTU search that the local system refused a packet as too large
// (EMSGSIZE). The path MTU search continues in the next call of Progress, because pathRefused may
// run inside Send.
func (m *Module) pathRefused(s *fabric.Send, err error) {
	if int(s.Buf) >= len(m.segs) || !errors.Is(err, syscall.EMSGSIZE) {
		return
	}
	ep := m.segs[s.Buf].ep
	if ep == nil || ep.id.Counted || ep.id.State() != stateConnected {
		return
	}
	m.paths.Refused(ep, int(s.Len+s.RegionLen))
}

// tooLarge says whether a packet of sizeBytes has to be sent in several Parts (slices).
func (ep *Endpoint) tooLarge(sizeBytes int) bool { return sizeBytes > ep.mtu && !ep.id.Counted }

// partsOf returns the number of Parts (slices) for a packet of sizeBytes, and the bytes in each
// Part except the last.
func (ep *Endpoint) partsOf(sizeBytes int) (count, slice int) {
	room := frag.PartRoom(ep.mtu)
	count = (sizeBytes + room - 1) / room
	slice = (sizeBytes + count - 1) / count
	slice = (slice + frag.PartGrain - 1) / frag.PartGrain * frag.PartGrain
	return (sizeBytes + slice - 1) / slice, slice
}

// partsRoom is the number of packets of sizeBytes that can now be sent in Parts (slices).
func (m *Module) partsRoom(ep *Endpoint, sizeBytes int) int {
	count, _ := ep.partsOf(sizeBytes)
	// Some control buffers are reserved for other uses.
	return min(m.port.FreeParts(), m.port.Data.Room()) / count
}

// partRefused drops a Part (slice of a packet) for lack of memory, and schedules an ACK to the
// peer. The peer retransmits the packet later.
func (m *Module) partRefused(in *arrival) {
	m.drop(CntDropReassembly)
	m.acks.Owe(&in.ep.rcv, m.now) // shows the peer that this side is alive
	in.ep.rcv.AskAck(m.now, 0)
}

// onPart adds a received Part (slice) to its packet. When all slices of a packet have arrived,
// onPart processes the packet.
func (m *Module) onPart(in *arrival) {
	ep := in.ep
	if ep.id.Counted {
		m.drop(CntDropState)
		return
	}
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	if place := ep.rcv.Check(in.Seq); place != reliability.Accept {
		m.noNews(ep, place)
		return
	}
	if ep.parts == nil {
		ep.parts = new(frag.Parts)
		ep.parts.Init(m.parts.pool)
	}
	whole, err := ep.parts.Add(&in.Header, in.payload, in.Seq == ep.rcv.Next(), m.parts.whole[:0])
	switch {
	case err != nil:
		m.partRefused(in)
	case whole == nil:
		m.stats.counters[CntRecvPart]++
	default:
		m.parts.whole = whole
		m.receiveWhole(in, whole)
	}
}

// sweepParts discards the Parts (slices) of packets that have already been received as a whole.
func (ep *Endpoint) sweepParts() {
	if ep.parts != nil && ep.parts.Active() > 0 {
		ep.parts.Sweep(func(n seq.Num) bool {
			place := ep.rcv.Check(n)
			return place == reliability.Accept
		})
	}
}

// checkPaths verifies the state of each endpoint's path MTU search, and the module's count of
// memory for Parts (slices of packets).
func (m *Module) checkPaths(*checker) error {
	kept := 0
	for _, ep := range m.peers.All() {
		if ep == nil {
			continue
		}
		n := 0
		if ep.parts != nil {
			var err error
			if n, err = ep.parts.Check(); err != nil {
				return err
			}
		}
		kept += n
		if ep.id.State() != stateConnected || ep.id.Counted || !ep.path.Begun() {
			if ep.path.Searching() || n > 0 {
				return fmt.Errorf("endpoint %d in state %d searches its path", ep.id.Slot, ep.id.State())
			}
			continue
		}
		if err := m.paths.Check(ep, ep.mtu); err != nil || ep.tiny > ep.mtu {
			return fmt.Errorf("endpoint %d: tiny packets of %d, others of %d bytes: %w", ep.id.Slot,
				ep.tiny, ep.mtu, err)
		}
	}
	if kept != m.parts.pool.Bytes() {
		return fmt.Errorf("%d bytes in Parts, %d counted", kept, m.parts.pool.Bytes())
	}
	return nil
}
