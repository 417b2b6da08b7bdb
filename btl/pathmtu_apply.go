package btl

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"gobtl/btl/internal/pmtu"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/hotel"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// This file applies the decisions of a pmtu.Search to endpoints, handles received Pings and Pongs,
// and sends packets that exceed the current path MTU in Parts (egress_path.go). Counted links have
// none of this: a fabric without losses does not lose large packets either.

// pathState is an endpoint's state of its path MTU.
type pathState struct {
	path  pmtu.Search
	doubt doubt
	room  hotel.Room // of the search's timer
	parts frag.Parts // that have come
	// pongs counts the Pings answered since pongsAt.
	pongs   uint8
	pongsAt Time
	trip
}

// partial is a module's state of packets that arrive in Parts.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

// doubt identifies a doubt of the path by its begin, since, with the same instant on the axis of
// clock.nowUnpaused.
type doubt struct{ since, unpaused Time }

const (
	// pathRoundTrip stands for a round trip that was not measured yet.
	pathRoundTrip = 10 * time.Millisecond
	// pongsMax bounds the Pings of a peer that are answered within an interval of pongsEvery.
	pongsMax   = 32
	pongsEvery = 10 * time.Millisecond
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
	case ep.counted:
		p.MTUWhy = "all that both devices take, of a fabric that loses nothing"
	case ep.path.Begun():
		p.MTUWhy = ep.path.Reason()
	default:
		p.MTUWhy = "not connected"
	}
	return p
}

// beginPath starts the MTU search of a connection that both sides have confirmed.
func (m *Module) beginPath(ep *Endpoint) {
	if ep.counted {
		return
	}
	ep.parts.Init(m.parts.pool)
	ep.path.Begin(m.now, ep.mtuMost, m.random())
	ep.beganAt = m.now
	m.searchPath(ep)
}

// endPath ends the search with the connection.
func (m *Module) endPath(ep *Endpoint) {
	m.pathTimers.Checkout(ep.pathState.room)
	ep.pathState.room = 0
	ep.parts.Drop()
}

// pathWait is the longest time that an answer is expected to take.
func (ep *Endpoint) pathWait() time.Duration {
	const deviations = 4
	p := ep.snd.Path()
	if p.RoundTrip == 0 {
		return 2 * pathRoundTrip
	}
	return 2*p.RoundTrip + deviations*p.Deviation
}

// searchPath takes the next step of an endpoint's MTU search.
func (m *Module) searchPath(ep *Endpoint) {
	if ep.path.Due() <= m.now {
		var sizes [pmtu.ProbesMax + 2]int
		for _, s := range ep.path.Probes(m.now, ep.pathWait(), m.random(), sizes[:0]) {
			m.sendPing(ep, frag.KindPing, &m.port.Data, ep.path.Nonce(s), max(s, frag.PingBytesMin))
		}
		if ep.narrow(ep.life.DeadAfter(&m.lifeRules)) {
			m.endNarrow(ep)
			return
		}
	}
	m.pathTimer(ep)
	m.usePath(ep)
}

// narrow says whether the path to the peer has carried only small packets for longer than after,
// not counting time that the owner was stopped. A peer that was silent all that time is dead, not
// narrow: probes of a doubt are never that far apart. If the peer acknowledged a packet meanwhile
// it is reached; then the age of the oldest unacknowledged packet decides. A peer's granted Away
// extends this time too.
func (ep *Endpoint) narrow(after time.Duration) bool {
	m, since := ep.m, ep.path.DoubtSince()
	if ep.doubt.since != since { // it has just begun
		ep.doubt = doubt{since, m.nowUnpaused}
	}
	silent := ep.life.Quiet(m.nowUnpaused) >= ep.life.DeadAfter(&m.lifeRules)*3/4
	reached := m.nowUnpaused.Sub(ep.life.AckedAt()) < after
	return !ep.counted && !silent && !reached &&
		ep.path.Narrow(since.Add(m.nowUnpaused.Sub(ep.doubt.unpaused)), after)
}

func (m *Module) endNarrow(ep *Endpoint) {
	m.endTelling(ep, frag.ByeNarrow, EventFailed,
		fmt.Errorf("%w: none of %d bytes, small ones do", ErrNarrow, ep.path.Base()))
}

// pathTimer sets the timer for the next step of the MTU search.
func (m *Module) pathTimer(ep *Endpoint) {
	m.pathTimers.Checkout(ep.pathState.room)
	ep.pathState.room = 0
	if ep.path.Due() == Never || ep.state != stateConnected {
		return
	}
	room, err := m.pathTimers.Checkin(m.now, ep.path.Due().Sub(m.now), ep.id.Slot)
	if err != nil {
		panic("btl: no room for a path's timer: " + err.Error()) // as many as endpoints
	}
	ep.pathState.room = room
}

// expirePaths goes on with the searches that are due.
func (m *Module) expirePaths() {
	for {
		slot, _, ok := m.pathTimers.Evict(m.now)
		if !ok {
			return
		}
		ep := m.peers.At(slot)
		ep.pathState.room = 0
		m.searchPath(ep)
	}
}

// usePath makes an endpoint send packets of the size that the search has confirmed.
func (m *Module) usePath(ep *Endpoint) {
	if was := ep.mtu; was != ep.path.Size() {
		ep.useSize(ep.path.Size())
		if ep.mtu < was {
			m.stats.counters[CntPathLowered]++
			m.moveLarge(ep)
		} else {
			m.stats.counters[CntPathRaised]++
		}
	}
	m.sched.rearm(ep)
	m.dirty = true
}

// holds says whether a large fragment waits for the answer to the first Ping.
func (ep *Endpoint) holds(f *Fragment) bool {
	return f.size > heldBytes && f.cursor == 0 && !f.isBye() && !ep.counted &&
		ep.path.FirstProbePending()
}

// isAside marks the kinds of packets that have no sequence number and carry no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receiveAside takes a Part, a Ping or a Pong.
func (m *Module) receiveAside(c *port.Channel, in *arrival) {
	ep := in.ep
	if ep.state != stateConnected {
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
	if m.now.Sub(ep.pongsAt) >= pongsEvery {
		ep.pongs, ep.pongsAt = 0, m.now
	}
	if ep.pongs >= pongsMax ||
		!m.sendPing(ep, frag.KindPong, c, frag.NonceOf(in.payload), frag.PongBytes) {
		m.drop(CntDropPing)
		return
	}
	ep.pongs++
	m.stats.counters[CntRecvPing]++
}

// onPong notes that a Ping got through, if it is one of the search.
func (m *Module) onPong(in *arrival) {
	ep := in.ep
	if ep.measured(m.now, frag.NonceOf(in.payload)) {
		ep.life.Heard(m.nowUnpaused, int(m.rxVia))
		m.stats.counters[CntRecvPong]++
		return
	}
	if ep.counted || !ep.path.ProbeAcked(m.now, frag.NonceOf(in.payload)) {
		m.drop(CntDropPing)
		return
	}
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	m.stats.counters[CntRecvPong]++
	ep.near = ep.near || m.now.Sub(ep.beganAt) <= tripNear
	m.searchPath(ep)
}

// pathLost notes a lost packet; several losses raise a doubt of the path MTU. alone says that the
// lost copy was posted by itself.
func (m *Module) pathLost(ep *Endpoint, sizeBytes int, alone bool) {
	if ep.state == stateConnected && ep.path.PacketLost(m.now, sizeBytes, alone, m.random()) {
		m.searchPath(ep)
	}
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
		m.searchPath(ep)
	}
}

// pathRefused notes that the local system refused a packet as too large. The search continues in
// the next pass, for this may be inside Send.
func (m *Module) pathRefused(s *fabric.Send, err error) {
	if int(s.Buf) >= len(m.segs) || !errors.Is(err, syscall.EMSGSIZE) {
		return
	}
	ep := m.segs[s.Buf].ep
	if ep == nil || ep.counted || ep.state != stateConnected {
		return
	}
	if ep.path.TooLarge(m.now, int(s.Len+s.RegionLen), m.random()) {
		m.pathTimer(ep)
	}
}

// tooLarge says whether a packet of a size has to leave in Parts.
func (ep *Endpoint) tooLarge(sizeBytes int) bool { return sizeBytes > ep.mtu && !ep.counted }

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
	m.acks.owe(in.ep, m.now) // this side is alive, though it cannot take the packet
	in.ep.rcv.AskAck(m.now, 0)
}

// onPart adds a slice to its packet, and receives the packet once all slices have come.
func (m *Module) onPart(in *arrival) {
	ep := in.ep
	if ep.counted {
		m.drop(CntDropState)
		return
	}
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	if place := ep.rcv.Check(in.Seq); place != reliability.Accept {
		m.noNews(ep, place)
		return
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
	if ep.parts.Active() > 0 {
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
		n, err := ep.parts.Check()
		if err != nil {
			return err
		}
		kept += n
		p := &ep.path
		switch {
		case ep.state != stateConnected || ep.counted || !p.Begun():
			if ep.pathState.room != 0 || n > 0 {
				return fmt.Errorf("endpoint %d in state %d searches its path", ep.id.Slot, ep.state)
			}
		case p.Check() != nil:
			return fmt.Errorf("endpoint %d: %w", ep.id.Slot, p.Check())
		case p.Size() != ep.mtu || ep.tiny > ep.mtu:
			return fmt.Errorf("endpoint %d: packets of %d and %d bytes, searched %d", ep.id.Slot, ep.tiny,
				ep.mtu, p.Size())
		case (p.Due() == Never) != (ep.pathState.room == 0):
			return fmt.Errorf("endpoint %d: search of stage %d, due %d, room %d", ep.id.Slot, p.Stage(),
				p.Due(), ep.pathState.room)
		}
	}
	if kept != m.parts.pool.Bytes() {
		return fmt.Errorf("%d bytes in Parts, %d counted", kept, m.parts.pool.Bytes())
	}
	return nil
}
