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

// The code below handles path MTU probes and slices of packets. A Ping is a probe, a Pong is the
// reply to a Ping, and a Part is a slice of a packet that exceeds the present path MTU. Pings,
// Pongs and Parts are sent by the code in write_path.go. Counted links use no Pings and Parts,
// because a reliable fabric delivers packets of every size that both devices accept.

// partial is a module's state for packets that arrive in Parts.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

const (
	// partsBytesMax is the maximum memory, in bytes for all peers, for incomplete packets that
	// arrive in Parts.
	partsBytesMax = 8 << 20
	// heldBytes is the size above which a fragment waits for the first Pong, the reply to a path
	// MTU probe.
	heldBytes = 64 << 10
)

// Path describes the path to a peer.
type Path struct {
	reliability.PathState
	// MTUBytes is the size of the largest datagram that is now sent to the peer. MTUBytesMost is
	// the largest size that the devices of both sides allow. MTUWhy is a text with the reason for
	// MTUBytes.
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	// Holes counts how often the path stopped carrying datagrams of MTUBytes.
	Holes int
}

// Path returns the measured properties of the path to the peer, such as round-trip time, window,
// packets in flight and datagram size.
func (ep *Endpoint) Path() Path {
	p := Path{
		PathState: ep.snd.Path(), MTUBytes: ep.mtu, MTUBytesMost: ep.mtuMost,
		Holes: ep.path.Holes(), MTUWhy: ep.path.Why(ep.id.Counted),
	}
	return p
}

// holds reports whether a large fragment has to wait for the reply to the first path MTU probe.
func (ep *Endpoint) holds(f *Fragment) bool {
	return f.size > heldBytes && f.cursor == 0 && !f.isBye() && !ep.id.Counted &&
		ep.path.FirstProbePending()
}

// isAside reports whether a packet is of a kind that receiveAside handles, which carry no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receiveAside handles a received Ping, Pong or Part.
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

// onPing replies to a Ping with a Pong on the same channel. The Ping is dropped if the peer sends
// too many of them, or if there is no buffer for the Pong.
func (m *Module) onPing(c *port.Channel, in *arrival) {
	ep := in.ep
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
	if !ep.path.MayPong(m.clock.Now) ||
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
	if least, ok := ep.path.Measured(m.clock.Now, nonce); ok {
		if least > 0 {
			ep.rcv.RoundTrip(least)
		}
	} else if ep.id.Counted || !m.paths.Pong(ep, nonce) {
		m.drop(CntDropPing)
		return
	}
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
	m.stats.counters[CntRecvPong]++
}

// pathCarried passes newly acknowledged packets to the path MTU search. Retransmitted packets are
// not passed, because their ACK does not tell which transmission arrived.
func (m *Module) pathCarried(ep *Endpoint, done []reliability.Token) {
	stage := ep.path.Stage()
	for _, t := range done {
		if s := &m.segs[t]; !s.parted && m.recovery.Resends(t) == 0 {
			ep.path.Delivered(m.clock.Now, m.recovery.PostedAt(t), int(s.bytes), m.port.Alone(segBuf(t)))
		}
	}
	if ep.path.Stage() != stage {
		m.paths.GoOn(ep)
	}
}

// pathRefused tells the path MTU search that the local system has refused a packet as too large
// (EMSGSIZE).
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

// tooLarge reports whether a packet of sizeBytes has to be sent in several Parts.
func (ep *Endpoint) tooLarge(sizeBytes int) bool { return sizeBytes > ep.mtu && !ep.id.Counted }

// partsRoom returns the number of packets of sizeBytes that can now be sent in Parts.
func (m *Module) partsRoom(ep *Endpoint, sizeBytes int) int {
	count, _ := frag.PartsOf(sizeBytes, ep.mtu)
	return min(m.port.FreeParts(), m.port.Data.Room()) / count
}

// partRefused drops a Part for lack of memory, and schedules an ACK to the peer. The peer
// retransmits the packet later.
func (m *Module) partRefused(in *arrival) {
	m.drop(CntDropReassembly)
	m.acks.Owe(&in.ep.rcv, m.clock.Now) // shows the peer that this side is alive
	in.ep.rcv.AskAck(m.clock.Now, 0)
}

// onPart adds a received Part to its packet.
func (m *Module) onPart(in *arrival) {
	ep := in.ep
	if ep.id.Counted {
		m.drop(CntDropState)
		return
	}
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
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

// sweepParts drops the Parts of packets that have already been received as a whole.
func (ep *Endpoint) sweepParts() {
	if ep.parts != nil && ep.parts.Active() > 0 {
		ep.parts.Sweep(func(n seq.Num) bool {
			place := ep.rcv.Check(n)
			return place == reliability.Accept
		})
	}
}

func (*checker) checkPaths(m *Module) error {
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
