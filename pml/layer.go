package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
	"gobtl/internal/fifo"
	"gobtl/internal/kept"
	"gobtl/internal/slots"
)

// requestsBits is the part of an id on the wire that is an index; the rest is random.
const requestsBits = 24

// Stats counts what a Layer has done.
type Stats struct {
	SentEager, SentAnnounced uint64 // envelopes
	Unexpected               uint64 // that came before their receive
	Early                    uint64 // that overtook others
	NotReady                 uint64 // of Ready sends, whose receive was not posted
	Refused                  uint64 // that were dropped
	Forgotten                uint64 // of peers that have gone, which had left too much
	Unhandled                uint64 // active messages without a handler, which were dropped
	UnexpectedBytes          int    // kept now, of all peers, early ones among them
	UnexpectedMessages       int    // that a Recv could match now
}

// Layer is the point-to-point layer over one module. It belongs to the goroutine that calls
// Progress.
type Layer struct {
	m     *btl.Module
	cfg   Config
	stats Stats

	posted     posted
	unexpected unexpected
	probed     list[Message]         // that MProbe or a handler has, and nobody has received
	requests   slots.Table[*Request] // that the other side knows by an id
	memory     memory
	gone       *kept.Keeper[*Peer] // those that have left messages

	busy     list[Peer]    // that have something to send which could not be sent
	homeless list[Peer]    // that have receives for which the module had no region
	regions  int           // that the receives of one peer may have: see regionsPart
	ended    list[Request] // whose owners have not been told
	settling bool
	notice   [headBytes]byte            // of a put that is being prepared
	tiny     [headBytes + tinyMost]byte // a message on its way to the module
	actives  [256]*[256]Handler         // by the halves of an id
	refused  map[uint64]bool            // groups of tags; nil until there is one
	observe  func(p *Peer, tag, size uint64, eager bool)
	peers    uint32 // so far
	onPeer   func(*Peer, error)
}

// Peer is the other side of an endpoint.
type Peer struct {
	// Context is the caller's.
	Context any

	l     *Layer
	ep    *btl.Endpoint
	index uint32
	err   error
	busy  links[Peer]
	homes links[Peer]

	// What was sent.
	next       uint32 // number of the next envelope
	bytes      uint64 // of eager messages, with what they count beside their bytes
	theirTaken uint32 // what the peer has told of its receives
	theirBytes uint64
	sends      list[Request] // not sent yet, in order
	puts       list[Request] // that have bytes to put
	control    fifo.Queue[head]

	// What has come.
	expect     uint32
	unexpected list[Message] // that nobody has received
	early      []*Message    // that overtook the expected one, by number; nil until there is one
	taken      uint32
	came       uint64 // bytes that have come with envelopes, counted as they are sent
	takenBytes uint64 // of those, what is not kept any more
	told       uint32
	toldBytes  uint64

	landing list[Request] // receives that have been matched, and have no region yet
	regions int           // that others have
	active  list[Request] // what ends with the peer, but for receives that wait
}

// Endpoint is the peer's endpoint, whose Context belongs to the Layer.
func (p *Peer) Endpoint() *btl.Endpoint { return p.ep }

// Err is why the peer is gone: nil while it is not.
func (p *Peer) Err() error { return p.err }

// New makes a Layer over a module, whose OnEndpoint it takes over, and one of its tags; onPeer,
// which may be nil, is told of peers that connect (nil) and end. Errors: ErrConfig, btl.ErrTag.
func New(m *btl.Module, cfg Config, onPeer func(*Peer, error)) (*Layer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.EagerBytes = min(cfg.EagerBytes, m.Limits().FragmentBytesMax-headMostSize)
	queue := func(r *Request) *links[Request] { return &r.queue }
	l := &Layer{
		m: m, cfg: cfg, posted: newPosted(), unexpected: newUnexpected(),
		busy:     list[Peer]{at: func(p *Peer) *links[Peer] { return &p.busy }},
		probed:   list[Message]{at: func(m *Message) *links[Message] { return &m.order }},
		homeless: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.homes }},
		regions:  max(1, m.Config().RegionsMax/regionsPart),
		ended:    list[Request]{at: queue}, onPeer: onPeer, gone: kept.New[*Peer](cfg.GoneBytes),
	}
	l.requests.Init(requestsBits, 1<<requestsBits)
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

// Observe has fn told of each message when it comes to be matched, in that order: for tests and
// simulators, which hold the matching against a model. nil is nobody.
func (l *Layer) Observe(fn func(from *Peer, tag, size uint64, eager bool)) { l.observe = fn }

// CheckIdle returns what is kept although nothing is under way: no send, no receive, and no message
// that nobody has received. It is for tests and simulators.
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

// Peer is the other side of an endpoint of this module, connected or not.
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

// Progress does a pass: the module's, and what could not be done before. now and what it returns
// are the module's.
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

// Deadline is the module's: what waits for room waits for a packet that brings it.
func (l *Layer) Deadline() btl.Time { return l.m.Deadline() }

// advance sends what a peer has waiting, as far as there is room.
func (l *Layer) advance(now btl.Time, p *Peer) {
	for p.err == nil && p.control.Len() > 0 && l.sendHead(now, p, p.control.Front()) {
		p.control.Pop()
	}
	for p.err == nil && p.puts.first != nil && l.putNext(now, p.puts.first) {
	}
	for p.err == nil && p.sends.first != nil {
		r := p.sends.first
		p.sends.remove(r) // so that it may be put into the list of those that have ended
		if !l.sendEnvelope(now, r) {
			p.sends.putBack(r)
			break
		}
	}
	if p.err != nil || p.control.Len() == 0 && p.puts.first == nil && p.sends.first == nil {
		l.busy.remove(p)
	}
}

// soon has the next pass advance a peer.
func (l *Layer) soon(p *Peer) {
	if !p.busy.in && p.err == nil {
		l.busy.add(p)
	}
}

// sendHead sends a head alone, and reports false if there is no room now.
func (l *Layer) sendHead(now btl.Time, p *Peer, h *head) bool {
	f, err := p.ep.Alloc(l.cfg.Tag, h.bytes())
	if err != nil {
		return !errors.Is(err, btl.ErrAgain) // An endpoint that has ended says so by its event.
	}
	h.put(f.Bytes())
	l.give(now, p, f)
	return true
}

// give sends a fragment. One that is not taken over is one of an endpoint that has ended.
func (l *Layer) give(now btl.Time, p *Peer, f *btl.Fragment) {
	if _, err := p.ep.Send(now, f); err != nil {
		_ = p.ep.Free(f) // It is the caller's still, and the endpoint's end is told by its event.
	}
}

// answer sends a head, now or as soon as there is room. Each answers something that is bounded:
// what the peer has sent and nobody has taken, or what was sent to it.
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

// took takes note that an envelope of a peer has been received, with what it counts, and tells the
// peer of it when that is much.
func (l *Layer) took(now btl.Time, p *Peer, cost uint64) {
	p.taken++
	p.takenBytes += cost
	if p.taken-p.told >= uint32(l.cfg.EnvelopesMax/4) ||
		p.takenBytes-p.toldBytes >= uint64(l.cfg.UnexpectedBytes/4) {
		l.tellTaken(now, p)
	}
}

// tellTaken tells a peer how much of what it has sent has been received.
func (l *Layer) tellTaken(now btl.Time, p *Peer) {
	p.told, p.toldBytes = p.taken, p.takenBytes
	l.answer(now, p, head{kind: kindCredit, number: p.taken, a: p.takenBytes})
}

// giveUp ends a peer that does not keep to the protocol.
func (l *Layer) giveUp(p *Peer) {
	l.end(p, ErrProtocol)
	p.ep.Abort()
}

// onEndpoint is told by the module what has become of an endpoint.
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

// end ends all that depends on a peer: what it has sent whole may still be received.
func (l *Layer) end(p *Peer, why error) {
	if p.err != nil {
		return
	}
	p.err = fmt.Errorf("%w: %w", ErrPeer, why)
	l.busy.remove(p)
	l.homeless.remove(p)
	for r := p.active.first; r != nil; r = p.active.first {
		l.finish(r, p.err)
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
			l.probed.remove(m) // RecvMessage tells why.
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

// finish ends a request; its owner is told when all book-keeping is done.
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
	if r.Layout != nil {
		l.unstage(r, err != nil)
	}
	r.state, r.err, r.header = over, err, nil
	l.ended.add(r)
}

// tell tells the owner of a request that is in no list that it has ended, after those whose
// requests have ended before.
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

// settle tells the owners of requests that they have ended.
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
	for r.id == 0 { // which stands for none
		if r.id, ok = l.requests.Add(l.cfg.Random(), r); !ok {
			return false
		}
		if r.id == 0 {
			l.requests.Remove(0)
		}
	}
	return true
}

// named finds the request of an id that a peer says, if it is one with that peer.
func (l *Layer) named(p *Peer, id uint64, s state) *Request {
	r, ok := l.requests.Get(id)
	if !ok || id == 0 || r.peer != p || r.state != s {
		return nil
	}
	return r
}
