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

// What a pmtu.Search says, done to endpoints; Pings and Pongs that arrive; and the packets that are
// too large for what the path carries now, which leave in Parts (egress_path.go). A counted link
// has none of it: a fabric that loses nothing does not lose what is large.

// pathState is what an endpoint knows of the sizes that its path carries.
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

// partial is what a module has of packets that arrive in Parts.
type partial struct {
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

// doubt is of which doubt of the path it is known when it began, on the axis of clock.nowUnpaused.
type doubt struct{ since, unpaused Time }

const (
	// pathRoundTrip stands for a round trip that was not measured yet.
	pathRoundTrip = 10 * time.Millisecond
	// pongsMax bounds the Pings of a peer that are answered in pongsEvery.
	pongsMax   = 32
	pongsEvery = 10 * time.Millisecond
	// partsBytesMax bounds what all peers have under way in Parts.
	partsBytesMax = 8 << 20
	// heldBytes is from where on a large fragment waits for the first answer: it may be sent in
	// packets many times as large.
	heldBytes = 64 << 10
)

// Path is what is known of the path to a peer.
type Path struct {
	reliability.PathState
	// MTUBytes is the largest datagram that is sent to the peer now, MTUBytesMost what the devices of
	// both sides take, and MTUWhy says for people why it is what it is.
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	// Holes is how often datagrams of the size in use stopped getting through.
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

// beginPath starts the search of a connection that both sides know of.
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

// pathWait is how long an answer takes at most, as far as is known.
func (ep *Endpoint) pathWait() time.Duration {
	const deviations = 4
	p := ep.snd.Path()
	if p.RoundTrip == 0 {
		return 2 * pathRoundTrip
	}
	return 2*p.RoundTrip + deviations*p.Deviation
}

// searchPath does what the search of an endpoint wants now.
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

// narrow says whether the path to the peer carries small packets alone, and has for a while, in
// which the time that the owner was stopped does not count. A peer that has been silent since is
// dead: the rounds of a doubt are never that far apart. One that has acknowledged something since
// is reached: if a larger packet is not, what decides is how long that is owed. One that was
// granted time without progress has it here too.
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

// pathTimer has the search go on when it is due.
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

// usePath has an endpoint send packets of the size that the search knows to pass.
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

// isAside says which kinds of packets have no place in the connection's sequence and say nothing of
// it.
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

// pathLost notes that a packet has to be sent again, which raises a doubt when it is one of
// several; alone says whether the copy that was lost left alone.
func (m *Module) pathLost(ep *Endpoint, sizeBytes int, alone bool) {
	if ep.state == stateConnected && ep.path.PacketLost(m.now, sizeBytes, alone, m.random()) {
		m.searchPath(ep)
	}
}

// pathCarried notes what has arrived while packets are lost in a row, or the path is in doubt. Of
// a packet that was sent again it is not known which copy has arrived, and when that left.
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

// pathRefused notes that the own system finds a packet too large. The search goes on in the next
// pass, for this may be inside Send.
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

// partsOf is in how many Parts a packet of a size leaves, and how many bytes of it each of them has
// but the last.
func (ep *Endpoint) partsOf(sizeBytes int) (count, slice int) {
	room := frag.PartRoom(ep.mtu)
	count = (sizeBytes + room - 1) / room
	slice = (sizeBytes + count - 1) / count
	slice = (slice + frag.PartGrain - 1) / frag.PartGrain * frag.PartGrain
	return (sizeBytes + slice - 1) / slice, slice
}

// partsRoom is how many packets of a size can leave in Parts now.
func (m *Module) partsRoom(ep *Endpoint, sizeBytes int) int {
	count, _ := ep.partsOf(sizeBytes)
	// As many control buffers as others need are left to them.
	return min(m.port.FreeParts(), m.port.Data.Room()) / count
}

// partRefused answers a slice for which there is no memory: it comes again when there may be some.
func (m *Module) partRefused(in *arrival) {
	m.drop(CntDropReassembly)
	m.acks.owe(in.ep, m.now) // this side is alive, though it cannot take the packet
	in.ep.rcv.AskAck(m.now, 0)
}

// onPart takes a slice of a packet; when that is whole it is taken as if it had come so.
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

// sweepParts throws away what has come of packets that are here.
func (ep *Endpoint) sweepParts() {
	if ep.parts.Active() > 0 {
		ep.parts.Sweep(func(n seq.Num) bool {
			place := ep.rcv.Check(n)
			return place == reliability.Accept
		})
	}
}

// checkPaths proves that the searches and the Parts are what the endpoints use and the module
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
