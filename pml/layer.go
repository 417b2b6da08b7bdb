package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
	"gobtl/internal/fifo"
)

// Stats are the counters of a Layer.
type Stats struct {
	SentEager, SentAnnounced uint64 // messages sent, by kind
	Unexpected               uint64 // messages that arrived before their receive
	Early                    uint64 // messages that arrived before an earlier message
	NotReady                 uint64 // messages of Ready sends whose receive was not posted
	Refused                  uint64 // dropped messages
	Forgotten                uint64 // messages dropped because of Config.GoneBytes
	Unhandled                uint64 // dropped active messages without a handler
	Shed                     uint64 // connections ended by the limits of host.go and asked.go
	SentPacked               uint64 // bytes copied into packets (packets.go)
	ReceivedUnpacked         uint64 // bytes copied from packets to the receiver's memory
	UnexpectedBytes          int    // bytes of unexpected messages at present, for all peers
	UnexpectedMessages       int    // messages that a Recv could match at present
}

// Layer is the point-to-point layer over one btl module. Only the goroutine that calls Progress may
// use a Layer.
type Layer struct {
	m     *btl.Module
	cfg   Config
	stats Stats // without the counters that the parts of the Layer have

	posted     posted
	unexpected unexpected
	probed     probed
	requests   requestIDs // requests with an id in the protocol
	memory     memory

	busy     busy
	swept    sweeper
	done     completions // ended requests
	out      output
	handlers handlers // of active messages
	refused  refused
	observe  func(p *Peer, tag, size uint64, eager bool)
	overhead int // bytes of a packet that a fragment cannot use
	// packetsMax is the maximum number of packets in flight to a peer (Peer.packets).
	packetsMax int
	peers      uint32 // number of peers so far

	hosts    hosts
	onPeer   func(*Peer, error)
	onPut    func(*btl.Fragment, error) // putDone
	onPacket func(*btl.Fragment, error) // packetDone
}

// Peer is the remote side of an endpoint.
type Peer struct {
	// Context is a value for the use of the caller. The package does not use Context.
	Context any
	// Number identifies the peer in sets of the type Members. The initial value of Number comes from
	// Config.Number, and the caller may change Number. A peer whose Number is 0 belongs to no set.
	Number uint32

	l     *Layer
	ep    *btl.Endpoint
	index uint32
	err   error
	busy  links[Peer]

	// The fields below are the state of the sending direction to the peer.
	credit  credit
	sends   list[Request] // unsent messages, in order
	puts    list[Request] // matched sends with unsent data
	packets int           // packets in flight (packets.go)
	control fifo.Queue[head]

	// The fields below are the state of the receiving direction from the peer.
	expect     uint32
	unexpected list[Message] // unexpected messages
	early      []*Message    // messages that arrived early, by number
	taken      uint32
	came       uint64 // bytes of all messages that have arrived, with overhead
	takenBytes uint64 // bytes of all messages that were received or dropped, with overhead
	told       uint32
	toldBytes  uint64

	wild    list[Request] // receives from this peer alone that accept several tags (match.go)
	wilds   links[Peer]   // entry in posted.sources
	landing list[Request] // matched receives without a region
	open    list[Request] // receives from any peer whose data was asked for, oldest first (asked.go)
	active  list[Request] // requests, except receives from any peer that wait for a message
	probed  list[Message] // announced messages in Layer.probed

	sweeps     links[Peer] // entry in sweeper.peers (sweep.go)
	sweepBytes int64       // memory of the messages that wait for the sweeper

	// The fields below belong to host.go.
	host         *host // nil if the peer is gone
	mates        links[Peer]
	homes        links[Peer]
	holds        links[Peer]
	opens        links[Peer]
	askedBytes   int64         // bytes of matched receives for whose data this side has asked
	held         int64         // bytes of unexpected messages and unsent control messages
	regions      int           // number of regions in use
	exposed      list[Request] // receives whose memory is a region, in the order of exposing
	exposedBytes int64         // bytes of the regions of all receives in the list "exposed"
}

// Endpoint returns the peer's endpoint. The Context of the endpoint belongs to the Layer.
func (p *Peer) Endpoint() *btl.Endpoint { return p.ep }

// Err returns the reason why the connection to the peer has ended, or nil if it has not ended.
func (p *Peer) Err() error { return p.err }

// New makes a Layer over a module, for fragments with the tag cfg.Tag. New sets the function
// OnEndpoint of the module. The Layer calls the function onPeer, unless it is nil, when a peer has
// connected. When the connection has ended, the Layer calls onPeer again, with the reason as an
// error. The error of New is ErrConfig or btl.ErrTag.
func New(m *btl.Module, cfg Config, onPeer func(*Peer, error)) (*Layer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.EagerBytes = min(cfg.EagerBytes, m.Limits().FragmentBytesMax-headMostSize)
	seed := m.Config().Random()
	l := &Layer{
		m: m, cfg: cfg, out: output{tag: cfg.Tag}, busy: newBusy(),
		posted: newPosted(seed), unexpected: newUnexpected(seed, cfg.GoneBytes),
		probed: probed{list[Message]{at: func(m *Message) *links[Message] { return &m.order }}},
		done:   newCompletions(), onPeer: onPeer,
	}
	mc := m.Config()
	l.unexpected.refused = &l.refused
	l.hosts, l.swept = newHosts(&mc), newSweeper(l)
	l.onPut, l.onPacket = l.putDone, l.packetDone
	l.requests.init(cfg.Random)
	l.packetsMax = m.Config().SendBuffers / underShare
	l.overhead = m.Limits().MTUBytes - m.Limits().SegmentBytes
	most := uint32(headMostSize + max(cfg.EagerBytes, l.HeaderMax()))
	if err := m.HandleUpTo(cfg.Tag, most, l.arrive); err != nil {
		return nil, err
	}
	m.OnEndpoint(l.onEndpoint)
	return l, nil
}

// Stats returns the counters of the Layer.
func (l *Layer) Stats() Stats {
	s := l.stats
	s.Shed = l.hosts.ended
	s.UnexpectedBytes = l.memory.bytes
	s.Forgotten = l.unexpected.forgotten
	s.UnexpectedMessages = l.unexpected.exact.count
	return s
}

// Observe makes the Layer call the function fn, unless it is nil, for each message, in the order in
// which messages are matched. Observe is for tests and simulators, which compare the matching of
// messages with a model.
func (l *Layer) Observe(fn func(from *Peer, tag, size uint64, eager bool)) { l.observe = fn }

// CheckIdle returns an error if the Layer still uses resources after all sends and receives have
// ended, and nil otherwise. Before a call of CheckIdle, all sends and receives must have ended, and
// all arrived messages must have been received or dropped.
func (l *Layer) CheckIdle() error {
	s := l.Stats()
	switch {
	case l.requests.count() != 0:
		return fmt.Errorf("pml: %d requests have ids", l.requests.count())
	case s.UnexpectedBytes != 0 || s.UnexpectedMessages != 0 || l.unexpected.all.first != nil ||
		l.probed.all.first != nil:
		return fmt.Errorf("pml: %d messages, %d bytes are kept", s.UnexpectedMessages, s.UnexpectedBytes)
	case !l.posted.empty():
		return errors.New("pml: receives wait")
	case l.busy.count > 0 || l.swept.due() || l.hosts.homeless.first != nil || !l.done.empty():
		return errors.New("pml: something waits for room")
	}
	return l.hosts.check()
}

// Peer returns the Peer for an endpoint of the Layer's module. The endpoint need not be connected.
func (l *Layer) Peer(ep *btl.Endpoint) *Peer {
	if p, ok := ep.Context.(*Peer); ok && p.l == l {
		return p
	}
	l.peers++
	p := newPeer(l.peers)
	p.l, p.ep, p.credit = l, ep, newCredit(&l.cfg)
	if err := ep.Err(); err != nil {
		p.err = fmt.Errorf("%w: %w", ErrPeer, err)
	} else {
		l.hosts.enter(p)
	}
	ep.Context = p
	if l.cfg.Number != nil {
		p.Number = l.cfg.Number(ep)
	}
	return p
}

func ownLinks(m *Message) *links[Message] { return &m.own }

func newPeer(index uint32) *Peer {
	queue := func(r *Request) *links[Request] { return &r.queue }
	return &Peer{
		index: index, sends: list[Request]{at: queue}, puts: list[Request]{at: queue},
		landing: list[Request]{at: queue}, exposed: list[Request]{at: queue},
		wild:       list[Request]{at: queue},
		active:     list[Request]{at: func(r *Request) *links[Request] { return &r.active }},
		open:       list[Request]{at: func(r *Request) *links[Request] { return &r.asked.open }},
		unexpected: list[Message]{at: ownLinks}, probed: list[Message]{at: ownLinks},
	}
}

// Progress calls the module's Progress, and then sends queued messages and data. Layer.Progress has
// the same argument and results as the module's Progress.
func (l *Layer) Progress(now btl.Time) (int, error) {
	l.swept.left = sweepMost
	n, err := l.m.Progress(now)
	l.swept.sweep()
	if l.hosts.homeless.first != nil {
		l.hosts.houseAll()
	}
	if l.hosts.watches() {
		l.hosts.press(now)
	}
	if l.hosts.held > l.cfg.TotalBytes {
		l.hosts.shed(l.cfg.TotalBytes)
	}
	l.busy.visit(now, n > 0, l.advance)
	l.done.settle()
	return n, err
}

// Deadline returns the time of the latest Progress if that call has not tried to send to all peers
// with queued messages yet, or has not handled all unexpected messages of ended peers and refused
// groups yet. Otherwise, Deadline returns the result of the module's Deadline. Messages that wait
// for a free buffer or for the peer need no deadline, because a received packet ends their wait.
// While peers owe the data of matched receives, Deadline returns at the latest the time of the next
// check for stalled peers.
func (l *Layer) Deadline() btl.Time {
	if at, ok := l.busy.deadline(); ok || l.swept.due() {
		return at
	}
	if l.hosts.watches() {
		return l.m.Deadline().Min(l.hosts.pressAt())
	}
	return l.m.Deadline()
}

// The method "advance" sends the queued messages and data for a peer, until no buffer is free or
// the peer's limits on unexpected messages are reached.
func (l *Layer) advance(now btl.Time, p *Peer) {
	for p.err == nil && p.control.Len() > 0 && l.out.sendHead(now, p.ep, p.control.Front()) {
		p.control.Pop()
	}
	p.shrinkControl()
	for p.err == nil && p.puts.first != nil && l.putNext(now, p.puts.first) {
	}
	for p.err == nil && p.sends.first != nil {
		r := p.sends.first
		p.sends.remove(r) // finish may add r to the list of ended requests
		if !l.sendEnvelope(now, r) {
			p.sends.putBack(r)
			break
		}
	}
	if p.err != nil || p.control.Len() == 0 && p.puts.first == nil && p.sends.first == nil {
		l.busy.remove(p)
	}
}

// The method "answer" sends a message that consists only of a header, or queues the header for a
// later call of Progress. If too many headers are queued for the peer, the method "answer" ends the
// connection and all requests that depend on the peer. Because the method "answer" can end
// requests, a function must finish its own request before it calls the method "answer". For a peer
// whose connection has ended, the method "answer" does nothing.
func (l *Layer) answer(now btl.Time, p *Peer, h head) {
	if p.err != nil {
		return
	}
	if p.control.Len() == 0 && l.out.sendHead(now, p.ep, &h) {
		return
	}
	p.growControl()
	if p.control.Full() {
		p.drive(ErrProtocol)
		return
	}
	p.control.Push(h)
	l.busy.add(p)
}

// The method "took" records that a message from a peer has been received. The argument "cost" of
// "took" is the number of bytes for which the message counts towards Config.UnexpectedBytes. The
// method "took" reports to the peer when the messages or bytes received since the latest report are
// at least a quarter of the limit EnvelopesMax or UnexpectedBytes. The method "took" can end the
// connection to the peer, because it calls the method "answer".
func (l *Layer) took(now btl.Time, p *Peer, cost uint64) {
	p.taken++
	p.takenBytes += cost
	if p.taken-p.told >= uint32(l.cfg.EnvelopesMax/4) ||
		p.takenBytes-p.toldBytes >= uint64(l.cfg.UnexpectedBytes/4) {
		l.tellTaken(now, p)
	}
}

// tellTaken reports to a peer how many messages and bytes of the peer this side has received.
func (l *Layer) tellTaken(now btl.Time, p *Peer) {
	p.told, p.toldBytes = p.taken, p.takenBytes
	l.answer(now, p, head{kind: kindCredit, number: p.taken, a: p.takenBytes})
}

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
	l.done.settle()
}

// The method "end" ends all requests that depend on a peer whose connection has ended. Messages
// that had arrived completely before the end of the connection can still be received. The method
// "sweep" handles the unexpected messages of the peer, at once or in a later call of Progress. The
// running time of the method "end" does not depend on the number of requests and messages of the
// connected peers.
func (l *Layer) end(p *Peer, why error) {
	if p.err != nil {
		return
	}
	held := p.held
	p.charge(-held)
	p.err = fmt.Errorf("%w: %w", ErrPeer, why)
	l.busy.remove(p)
	l.busy.again() // the end of p can free room for other peers
	p.waitNoMore()
	for r := p.active.first; r != nil; r = p.active.first {
		p.active.remove(r)
		l.finish(r, r.lost(p.err))
	}
	p.control = fifo.Queue[head]{}
	l.hosts.leave(p)
	l.swept.add(p, held)
	l.swept.sweep()
	if l.onPeer != nil {
		l.onPeer(p, p.err)
	}
}

// The method "finish" ends a request. After a call of the method "finish", the method "settle"
// calls OnDone of the ended request. For a request that has already ended, the method "finish" does
// nothing.
func (l *Layer) finish(r *Request, err error) {
	switch r.state {
	case idle, over:
		return
	case waiting:
		l.posted.remove(r)
	case queued:
		r.peer.sends.remove(r)
	case landing:
		if r.region == nil {
			r.peer.landing.remove(r)
		}
	case moving:
		r.peer.puts.remove(r)
	case announced:
	}
	if r.peer != nil {
		r.peer.active.remove(r)
		r.peer.asksNoMore(r)
	}
	l.requests.free(r)
	if r.region != nil {
		r.region.Close()
		r.region = nil
		r.peer.concedes(r)
	}
	r.err, r.header = err, nil
	l.done.add(r)
}
