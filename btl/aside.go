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

// This file handles received Pings, Pongs and Parts, and sends packets that exceed the current path
// MTU in Parts (egress_path.go). Counted links have none of this: a fabric without losses does not
// lose large packets either.

// partial is a module's state of packets that arrive in Parts.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

const (
	// partsBytesMax bounds the memory for packets of all peers that arrive in Parts.
	partsBytesMax = 8 << 20
	// heldBytes is the size from which on a fragment waits for the first Pong, after which packets
	// may be many times as large.
	heldBytes = 64 << 10
)

// Path describes the path to a peer.
type Path struct {
	reliability.PathState
	// MTUBytes is the largest datagram that is sent to the peer now, MTUBytesMost the limit of both
	// sides' devices. MTUWhy is the human-readable reason for MTUBytes.
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	// Holes is the number of times that datagrams of the size in use no longer got through.
	Holes int
}

// Path returns what is known of the path to the peer: round trip, window, packets in flight, the
// size of datagrams.
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

// holds says whether a large fragment waits for the answer to the first Ping.
func (ep *Endpoint) holds(f *Fragment) bool {
	return f.size > heldBytes && f.cursor == 0 && !f.isBye() && !ep.id.Counted &&
		ep.path.FirstProbePending()
}

// isAside marks the kinds of packets that have no sequence number and carry no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receiveAside takes a Part, a Ping or a Pong.
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

// onPing answers a Ping by the channel through which it came, unless there are too many.
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

// onPong notes that a Ping got through, if it is one of the search.
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

// pathCarried notes acknowledged packets while losses run on, or the path is in doubt. Packets sent
// more than once do not count: it is unknown which copy arrived, and when that was sent.
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

// pathRefused notes that the local system refused a packet as too large. The search continues in
// the next pass, for this may be inside Send.
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

// tooLarge says whether a packet of a size has to leave in Parts.
func (ep *Endpoint) tooLarge(sizeBytes int) bool { return sizeBytes > ep.mtu && !ep.id.Counted }

// partsOf is the number of Parts for a packet of sizeBytes, and the bytes in each but the last.
func (ep *Endpoint) partsOf(sizeBytes int) (count, slice int) {
	room := frag.PartRoom(ep.mtu)
	count = (sizeBytes + room - 1) / room
	slice = (sizeBytes + count - 1) / count
	slice = (slice + frag.PartGrain - 1) / frag.PartGrain * frag.PartGrain
	return (sizeBytes + slice - 1) / slice, slice
}

// partsRoom is the number of packets of sizeBytes that can now be sent in Parts.
func (m *Module) partsRoom(ep *Endpoint, sizeBytes int) int {
	count, _ := ep.partsOf(sizeBytes)
	// Some control buffers are reserved for other uses.
	return min(m.port.FreeParts(), m.port.Data.Room()) / count
}

// partRefused answers a slice that was dropped for lack of memory: the peer sends it again later.
func (m *Module) partRefused(in *arrival) {
	m.drop(CntDropReassembly)
	m.acks.Owe(&in.ep.rcv, m.now) // this side is alive, though it cannot take the packet
	in.ep.rcv.AskAck(m.now, 0)
}

// onPart adds a slice to its packet, and receives the packet once all slices have come.
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

// sweepParts discards slices of packets that have already been received.
func (ep *Endpoint) sweepParts() {
	if ep.parts != nil && ep.parts.Active() > 0 {
		ep.parts.Sweep(func(n seq.Num) bool {
			place := ep.rcv.Check(n)
			return place == reliability.Accept
		})
	}
}

// checkPaths verifies that searches and Parts agree with the endpoints' use and the module's
// counts.
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
