package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
	"gobtl/internal/fifo"
	"gobtl/internal/kept"
	"gobtl/internal/slots"
)

// requestsBits is the number of bits of an id on the wire that are an index. The other bits are
// random.
const requestsBits = 24

// Stats are the counters of a Layer.
type Stats struct {
	SentEager, SentAnnounced uint64 // envelopes
	Unexpected               uint64 // messages that arrived before their receive
	Early                    uint64 // messages that overtook others
	NotReady                 uint64 // messages of Ready sends whose receive was not posted
	Refused                  uint64 // dropped messages
	Forgotten                uint64 // messages dropped because of Config.GoneBytes
	Unhandled                uint64 // dropped active messages without a handler
	SentPacked               uint64 // bytes that were copied into packets: see packets.go
	ReceivedUnpacked         uint64 // bytes that were copied from packets to their places
	UnexpectedBytes          int    // bytes kept now, for all peers
	UnexpectedMessages       int    // messages that a Recv could match now
}

// Layer is the point-to-point layer over one module. It belongs to the goroutine that calls
// Progress.
type Layer struct {
	m     *btl.Module
	cfg   Config
	stats Stats

	posted     posted
	unexpected unexpected
	probed     list[Message]         // messages of MProbe or a handler, not received yet
	requests   slots.Table[*Request] // requests that the peer knows by an id
	memory     memory
	gone       *kept.Keeper[*Peer] // peers that are gone and have left messages

	busy     list[Peer]    // peers with data that could not be sent yet
	homeless list[Peer]    // peers with receives for which the module had no region
	regions  int           // most regions of one peer's receives: see regionsPart
	ended    list[Request] // ended requests whose owners have not been told
	settling bool
	notice   [headBytes]byte            // runs of a put that is being prepared
	tiny     [headBytes + tinyMost]byte // a message on its way to the module
	actives  [256]*[256]Handler         // requests by the parts of an id
	refused  map[uint64]bool            // refused groups of tags; nil until there is one
	observe  func(p *Peer, tag, size uint64, eager bool)
	overhead int // bytes of a packet that are not for a fragment
	// packetsMax bounds Peer.packets.
	packetsMax int
	peers      uint32 // so far
	onPeer     func(*Peer, error)
	onPut      func(*btl.Fragment, error) // putDone
	onPacket   func(*btl.Fragment, error) // packetDone
}

// Peer is the remote side of an endpoint.
type Peer struct {
	// Context is for the caller; this package does not use it.
	Context any

	l     *Layer
	ep    *btl.Endpoint
	index uint32
	err   error
	busy  links[Peer]
	homes links[Peer]

	// State of the sending direction.
	next       uint32 // number of the next envelope
	bytes      uint64 // bytes of eager messages sent, with their overhead
	theirTaken uint32 // receipts that the peer has reported
	theirBytes uint64
	sends      list[Request] // unsent messages, in order
	puts       list[Request] // matched sends that have bytes to put
	packets    int           // that are under way: see packets.go
	control    fifo.Queue[head]

	// State of the receiving direction.
	expect     uint32
	unexpected list[Message] // unreceived messages
	early      []*Message    // messages that overtook the expected one, by number
	taken      uint32
	came       uint64 // bytes received with envelopes, counted as by the sender
	takenBytes uint64 // how many of these bytes are no longer kept
	told       uint32
	toldBytes  uint64

	landing list[Request] // matched receives that have no region yet
	regions int           // number of regions in use
	active  list[Request] // requests that end with the peer, except waiting receives
}

// Endpoint is the peer's endpoint, whose Context belongs to the Layer.
func (p *Peer) Endpoint() *btl.Endpoint { return p.ep }

// Err returns the reason why the peer is gone, or nil while it is connected.
func (p *Peer) Err() error { return p.err }

// New makes a Layer over a module and one of its tags. It sets OnEndpoint of the module. onPeer,
// which may be nil, is called with a nil error when a peer connects, and with the reason when a
// peer ends. Errors: ErrConfig, btl.ErrTag.
func New(m *btl.Module, cfg Config, onPeer func(*Peer, error)) (*Layer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.EagerBytes = min(cfg.EagerBytes, m.Limits().FragmentBytesMax-headMostSize)
	queue := func(r *Request) *links[Request] { return &r.queue }
	seed := m.Config().Random()
	l := &Layer{
		m: m, cfg: cfg, posted: newPosted(seed), unexpected: newUnexpected(seed),
		busy:     list[Peer]{at: func(p *Peer) *links[Peer] { return &p.busy }},
		probed:   list[Message]{at: func(m *Message) *links[Message] { return &m.order }},
		homeless: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.homes }},
		regions:  max(1, m.Config().RegionsMax/regionsPart),
		ended:    list[Request]{at: queue}, onPeer: onPeer, gone: kept.New[*Peer](cfg.GoneBytes),
	}
	l.onPut, l.onPacket = l.putDone, l.packetDone
	l.requests.Init(requestsBits, 1<<requestsBits)
	l.packetsMax = m.Config().SendBuffers / underShare
	l.overhead = m.Limits().MTUBytes - m.Limits().SegmentBytes
	most := uint32(headMostSize + max(cfg.EagerBytes, l.HeaderMax()))
	if err := m.HandleUpTo(cfg.Tag, most, l.arrive); err != nil {
		return nil, err
	}
	m.OnEndpoint(l.onEndpoint)
	return l, nil
}

// Stats returns the counters.
func (l *Layer) Stats() Stats {
	s := l.stats
	s.UnexpectedMessages = l.unexpected.exact.count
	return s
}

// Observe makes the Layer call fn for each message, in the order in which messages enter the
// matching. nil ends that. It is for tests and simulators, which compare the matching with a model.
func (l *Layer) Observe(fn func(from *Peer, tag, size uint64, eager bool)) { l.observe = fn }

// CheckIdle returns an error if the Layer still holds resources although it is idle, with no sends,
// receives or unreceived messages. It is for tests and simulators.
func (l *Layer) CheckIdle() error {
	s := l.Stats()
	switch {
	case l.requests.Len() != 0:
		return fmt.Errorf("pml: %d requests have ids", l.requests.Len())
	case s.UnexpectedBytes != 0 || s.UnexpectedMessages != 0 || l.unexpected.all.first != nil ||
		l.probed.first != nil:
		return fmt.Errorf("pml: %d messages, %d bytes are kept", s.UnexpectedMessages, s.UnexpectedBytes)
	case l.posted.exact.count != 0 || l.posted.wild.first != nil:
		return errors.New("pml: receives wait")
	case l.busy.first != nil || l.homeless.first != nil || l.ended.first != nil:
		return errors.New("pml: something waits for room")
	}
	return nil
}

// Peer returns the remote side of an endpoint of this module, connected or not.
func (l *Layer) Peer(ep *btl.Endpoint) *Peer {
	if p, ok := ep.Context.(*Peer); ok && p.l == l {
		return p
	}
	l.peers++
	p := newPeer(l.peers)
	p.l, p.ep = l, ep
	if err := ep.Err(); err != nil {
		p.err = fmt.Errorf("%w: %w", ErrPeer, err)
	}
	ep.Context = p
	return p
}

func newPeer(index uint32) *Peer {
	queue := func(r *Request) *links[Request] { return &r.queue }
	return &Peer{
		index: index, sends: list[Request]{at: queue}, puts: list[Request]{at: queue},
		landing:    list[Request]{at: queue},
		active:     list[Request]{at: func(r *Request) *links[Request] { return &r.active }},
		unexpected: list[Message]{at: func(m *Message) *links[Message] { return &m.own }},
	}
}

// Progress makes a pass of the module, and then retries deferred work. now and the results are
// those of the module's Progress.
func (l *Layer) Progress(now btl.Time) (int, error) {
	n, err := l.m.Progress(now)
	for p := l.homeless.first; p != nil && l.house(p); p = l.homeless.first {
		l.homeless.remove(p)
	}
	for p := l.busy.first; p != nil; {
		next := p.busy.next
		l.advance(now, p)
		p = next
	}
	l.settle()
	return n, err
}

// Deadline returns the module's deadline. Work that waits for room needs no deadline, because a
// packet announces the room.
func (l *Layer) Deadline() btl.Time { return l.m.Deadline() }

// advance sends the queued messages for a peer, as far as there is room.
func (l *Layer) advance(now btl.Time, p *Peer) {
	for p.err == nil && p.control.Len() > 0 && l.sendHead(now, p, p.control.Front()) {
		p.control.Pop()
	}
	for p.err == nil && p.puts.first != nil && l.putNext(now, p.puts.first) {
	}
	for p.err == nil && p.sends.first != nil {
		r := p.sends.first
		p.sends.remove(r) // so that it can be put into the list of ended requests
		if !l.sendEnvelope(now, r) {
			p.sends.putBack(r)
			break
		}
	}
	if p.err != nil || p.control.Len() == 0 && p.puts.first == nil && p.sends.first == nil {
		l.busy.remove(p)
	}
}

// soon makes the next pass advance a peer.
func (l *Layer) soon(p *Peer) {
	if !p.busy.in && p.err == nil {
		l.busy.add(p)
	}
}

// sendHead sends a head without data, and reports false if there is no room now.
func (l *Layer) sendHead(now btl.Time, p *Peer, h *head) bool {
	f, err := p.ep.Alloc(l.cfg.Tag, h.bytes())
	if err != nil {
		return !errors.Is(err, btl.ErrAgain) // The end of an endpoint is reported by its event.
	}
	h.put(f.Bytes())
	l.give(now, p, f)
	return true
}

// give sends a fragment. The module refuses it only if the endpoint has ended.
func (l *Layer) give(now btl.Time, p *Peer, f *btl.Fragment) {
	if _, err := p.ep.Send(now, f); err != nil {
		_ = p.ep.Free(f) // The caller still owns it, and an event reports the endpoint's end.
	}
}

// answer sends a head, now or as soon as there is room. The number of queued answers is bounded,
// because each answers an unreceived message of the peer, or a message that was sent to it.
func (l *Layer) answer(now btl.Time, p *Peer, h head) {
	if p.control.Len() == 0 && l.sendHead(now, p, &h) {
		return
	}
	p.control.Grow(8 * l.cfg.EnvelopesMax)
	if p.control.Full() {
		l.giveUp(p)
		return
	}
	p.control.Push(h)
	l.soon(p)
}

// took records that an envelope of a peer has been received, with the bytes that it counts. When
// these add up to enough it reports them to the peer.
func (l *Layer) took(now btl.Time, p *Peer, cost uint64) {
	p.taken++
	p.takenBytes += cost
	if p.taken-p.told >= uint32(l.cfg.EnvelopesMax/4) ||
		p.takenBytes-p.toldBytes >= uint64(l.cfg.UnexpectedBytes/4) {
		l.tellTaken(now, p)
	}
}

// tellTaken reports to a peer how much of its data has been received.
func (l *Layer) tellTaken(now btl.Time, p *Peer) {
	p.told, p.toldBytes = p.taken, p.takenBytes
	l.answer(now, p, head{kind: kindCredit, number: p.taken, a: p.takenBytes})
}

// giveUp ends the connection to a peer that violates the protocol.
func (l *Layer) giveUp(p *Peer) {
	l.end(p, ErrProtocol)
	p.ep.Abort()
}

// onEndpoint handles the module's events of an endpoint.
func (l *Layer) onEndpoint(ep *btl.Endpoint, ev btl.Event, err error) {
	p := l.Peer(ep)
	switch {
	case ev == btl.EventConnected:
		if l.onPeer != nil {
			l.onPeer(p, nil)
		}
	case err == nil:
		l.end(p, btl.ErrClosed)
	default:
		l.end(p, err)
	}
	l.settle()
}

// end ends all requests that depend on a peer. Its complete messages may still be received.
func (l *Layer) end(p *Peer, why error) {
	if p.err != nil {
		return
	}
	p.err = fmt.Errorf("%w: %w", ErrPeer, why)
	l.busy.remove(p)
	l.homeless.remove(p)
	for r := p.active.first; r != nil; r = p.active.first {
		l.finish(r, r.lost(p.err))
	}
	l.posted.each(func(r *Request) {
		if r.from == p {
			l.finish(r, p.err)
		}
	})
	l.leave(p)
	for m := l.probed.first; m != nil; {
		next := m.order.next
		if !m.eager && m.peer == p {
			l.probed.remove(m) // RecvMessage returns the reason.
		}
		m = next
	}
	for _, m := range p.early {
		if m != nil {
			l.release(m)
		}
	}
	p.early, p.control = nil, fifo.Queue[head]{}
	if l.onPeer != nil {
		l.onPeer(p, p.err)
	}
}

// finish ends a request. The owner is told after all internal state is updated.
func (l *Layer) finish(r *Request, err error) {
	switch r.state {
	case waiting:
		l.posted.remove(r)
	case queued:
		r.peer.sends.remove(r)
	case landing:
		r.peer.landing.remove(r)
	case moving:
		r.peer.puts.remove(r)
	case idle, announced, over:
	}
	if r.peer != nil {
		r.peer.active.remove(r)
	}
	if r.id != 0 {
		l.requests.Remove(r.id)
		r.id = 0
	}
	if r.region != nil {
		r.region.Close()
		r.region = nil
		p := r.peer
		if p.regions--; p.landing.first != nil && !p.homes.in && p.err == nil {
			l.homeless.add(r.peer)
		}
	}
	r.state, r.err, r.header = over, err, nil
	l.ended.add(r)
}

// tell reports the end of a request that is in no list to its owner, after the ends of earlier
// requests.
func (l *Layer) tell(r *Request) {
	if l.settling || l.ended.first != nil {
		r.state = over
		l.ended.add(r)
	} else if r.state = idle; r.OnDone != nil {
		l.settling = true
		r.OnDone(r)
		l.settling = false
	}
	l.settle()
}

// settle reports the ends of requests to their owners.
func (l *Layer) settle() {
	if l.settling {
		return
	}
	l.settling = true
	for r := l.ended.first; r != nil; r = l.ended.first {
		l.ended.remove(r)
		r.state = idle
		if r.OnDone != nil {
			r.OnDone(r)
		}
	}
	l.settling = false
}

// name gives a request an id on the wire. It reports false if there are too many.
func (l *Layer) name(r *Request) (ok bool) {
	for r.id == 0 { // 0 means no id
		if r.id, ok = l.requests.Add(l.cfg.Random(), r); !ok {
			return false
		}
		if r.id == 0 {
			l.requests.Remove(0)
		}
	}
	return true
}

// named finds the request with an id from a peer, if the request is with that peer.
func (l *Layer) named(p *Peer, id uint64, s state) *Request {
	r, ok := l.requests.Get(id)
	if !ok || id == 0 || r.peer != p || r.state != s {
		return nil
	}
	return r
}
