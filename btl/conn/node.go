package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/kept"
)

// Node holds the Conns of one module.
type Node struct {
	cfg   Config
	m     *btl.Module
	r     *runner.Runner
	local string // the module's address

	// Only the goroutine that drives the module may use the fields from "conns" to "closed" of a Node.
	conns     map[name]*Conn
	peers     map[*btl.Endpoint]*peer
	listeners map[string]*Listener
	gone      *kept.Keeper[*Conn] // ended Conns with unread bytes, and orphans with unsent bytes
	goneOf    map[string]int      // number of ended Conns in "gone", by peer address
	held      int64               // memory of the ring buffers and copies of conns
	hosts     map[string]*host    // the hosts of conns, by Endpoint.PeerHost
	grown     int64               // total growth of the windows of conns, in bytes
	company   company
	lastID    uint32
	closed    bool
	opened    int           // number of Conns that peers have opened
	closeMost time.Duration // maximum time for which Close waits
	dialMost  time.Duration // maximum time for which Dial tries if its context has no deadline
	unsent    unsentBytes   // memory of the write buffers of conns; any goroutine may use it

	orphans    map[*Conn]orphan // closed Conns of conns
	orphanTime time.Duration    // time without new credit after which an orphan is dropped
	sweeping   bool             // a sweep of the orphans is due

	dirty    dirty                   // Conns with bytes to send; any goroutine may use it
	flush    func()                  // the method flushes, as a value made once
	flushAll func(*btl.Module) error // the method flushConns, as a value made once
	lents    []*lent                 // unused, for messages sent from the caller's memory
}

// flushSoon puts a Conn with buffered bytes on the Node's list, and starts the goroutine that sends
// the buffered bytes of listed Conns, unless this goroutine already runs.
func (n *Node) flushSoon(c *Conn) {
	if n.dirty.add(c) {
		go n.flush()
	}
}

// The method "flushes" runs on its own goroutine, and sends buffered bytes until no Conn has
// buffered bytes.
func (n *Node) flushes() {
	for !n.dirty.done() {
		if n.r.Do(context.Background(), n.flushAll) != nil {
			n.dirty.take() // The Runner and all Conns have ended.
		}
	}
}

// flushConns sends the buffered bytes of all listed Conns, until no send buffer is free.
func (n *Node) flushConns(*btl.Module) error {
	for _, c := range n.dirty.take() {
		c.buffer.unlist()
		c.advance()
	}
	return nil
}

// The type "name" identifies a Conn on the wire.
type name struct {
	ep   *btl.Endpoint
	mine bool // this side has dialed
	id   uint32
}

// The type "peer" is the Node's state for one endpoint.
type peer struct {
	conns   []*Conn // all Conns, in any order
	opened  [2]int  // number of Conns opened by the peer, and by this side
	refused []head  // refusals and resets that wait for resources
	waiting turns   // Conns with messages that wait for resources
}

// If more than refusedMax refusals and resets to a peer wait for send buffers when the peer opens
// one more Conn, the Node aborts the peer's endpoint.
const refusedMax = 1024

// New makes a Node that uses one tag of a module. After New, the caller calls Start, or passes the
// Node's Layer to runner.New. Before the Runner starts, only the goroutine that owns the module may
// use the Node. New returns ErrConfig if the configuration is invalid, or if the tag already has a
// handler.
func New(m *btl.Module, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, m: m, local: localAddress(m),
		conns: map[name]*Conn{}, peers: map[*btl.Endpoint]*peer{}, listeners: map[string]*Listener{},
		gone: kept.New[*Conn](cfg.GoneBytes), goneOf: map[string]int{},
		company: company{window: cfg.WindowBytes}, hosts: map[string]*host{},
		orphans: map[*Conn]orphan{}, orphanTime: max(orphanTimeMin, m.Config().PeerTimeout),
		closeMost: closeMostDefault, dialMost: m.Config().HandshakeTimeout,
	}
	n.unsent.most = unsentBytesMost
	n.flush, n.flushAll = n.flushes, n.flushConns
	if err := m.Hooks().ClaimTag(cfg.Tag, headBytes+chunkBytesMax, n.arrive); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return n, nil
}

// Start starts a Runner for the module, with the Node as its only layer, and returns the Runner.
// The caller of Start uses the Runner to connect, and must close the Runner after the Node. The
// function onEvent, which can be nil, gets the events of the endpoints. All methods of a Runner
// that a second Start returns fail with runner.ErrTaken.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Node's Layer. If several layers share a module, the caller passes the Layer to
// runner.New instead of calling Start. Before the Runner has started, all blocking methods of a
// Node return runner.ErrNotStarted.
func (n *Node) Layer() runner.Layer {
	return runner.Layer{
		Attach: func(r *runner.Runner) { n.r = r },
		Event: func(ep *btl.Endpoint, ev btl.Event, err error) {
			if ev != btl.EventConnected {
				n.lost(ep, err)
			}
		},
		Room: n.room,
	}
}

// Close closes all Listeners and Conns, and prevents new Listeners and Conns. Close waits until all
// written bytes are sent, but at most until ctx is cancelled. Close stops waiting when no bytes
// could be sent for one second, and after ten seconds in total. Bytes that are unsent when Close
// returns are lost, and the peer's Reads return an error. Node.Close does not wait until the sent
// bytes have arrived at the peer, but Close of the Runner does. Close returns the error of ctx, or
// btl.ErrClosed if the Runner has ended.
func (n *Node) Close(ctx context.Context) error {
	err := n.r.Do(ctx, func(*btl.Module) error {
		n.closed = true
		for _, l := range n.listeners {
			l.close()
		}
		for _, c := range n.conns {
			c.close()
		}
		return nil
	})
	if err != nil {
		return err
	}
	left, since := 0, sinceStart()
	last := since + int64(n.closeMost)
	return n.r.Do(ctx, func(*btl.Module) error {
		unsent, now := n.countUnsent(), sinceStart()
		if unsent != left {
			left, since = unsent, now
		}
		if unsent == 0 || now-since > int64(closeGrace) || now > last {
			return nil
		}
		return btl.ErrAgain
	})
}

const (
	// Close of a Node stops waiting if no byte could be sent for the time closeGrace.
	closeGrace = time.Second
	// closeMostDefault is the maximum time for which Close waits even if some bytes can still be sent.
	closeMostDefault = 10 * closeGrace
)

// countUnsent returns the number of unsent bytes, plus the number of Conns with unsent control
// messages.
func (n *Node) countUnsent() (count int) {
	for _, c := range n.conns {
		count += len(c.buffer.unsent())
		if c.due != 0 {
			count++
		}
	}
	return count
}

// Conns returns the number of Conns that have not ended, no matter which side has dialed. The
// result of Conns includes closed Conns with unsent data or data in flight. Conns returns 0 when
// the Runner has ended.
func (n *Node) Conns() (count int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = len(n.conns)
		return nil
	})
	return count
}

// The method "add" makes a Conn, and adds it to the Node's tables and counts.
func (n *Node) add(id name, service string) *Conn {
	c := &Conn{n: n, name: id}
	c.window = uint64(n.cfg.WindowBytes)
	c.host = n.enterHost(id.ep.PeerHost())
	c.buffer.budget = budget{&c.host.unsent, &n.unsent}
	if !id.mine {
		n.opened++
		c.host.opened++
	}
	c.tell(c.window)
	c.local = Addr{Address: n.local, Service: service}
	c.remote = Addr{Address: hostPort(id.ep.PeerAddress()), Service: service}
	c.sent = c.onSent
	n.conns[id] = c
	c.peer = n.peer(id.ep)
	c.peer.opened[side(id.mine)]++
	c.at = len(c.peer.conns)
	c.peer.conns = append(c.peer.conns, c)
	return c
}

// The function "side" returns the index of a Conn's count in peer.opened. If the argument "mine" of
// the function "side" is true, this side has opened the Conn, and otherwise the peer.
func side(mine bool) int {
	if mine {
		return 1
	}
	return 0
}

// The method "remove" removes a Conn from the Node's tables.
func (n *Node) remove(c *Conn) {
	if n.conns[c.name] == c {
		delete(n.conns, c.name)
		n.disown(c)
		c.dropEarly()
		c.count(0)
		c.ungrow()
		if !c.mine {
			n.opened--
			c.host.opened--
		}
		n.leaveHost(c.host)
		c.peer.opened[side(c.mine)]--
		c.peer.remove(c)
		n.forget(c.ep)
	}
}

// The method "remove" removes a Conn from the list of the peer's Conns.
func (p *peer) remove(c *Conn) {
	last := len(p.conns) - 1
	p.conns[c.at] = p.conns[last]
	p.conns[c.at].at = c.at
	p.conns[last] = nil
	p.conns = p.conns[:last]
}

// The method "leave" removes an ended Conn from the Node's tables. Unread bytes that were received
// without a gap are kept for the application, unless the Dial of the Conn has failed.
func (n *Node) leave(c *Conn) {
	n.remove(c)
	if c.deaf || c.read == c.next || c.mine && !c.accepted {
		c.forget()
		return
	}
	c.inGoneOf = true
	n.goneOf[c.remote.Address]++
	n.keep(c, len(c.ring))
}

// The method "keep" counts the memory of an ended or closed Conn with unread or unsent bytes
// towards GoneBytes. If GoneBytes is exceeded, the method "keep" drops the bytes of the oldest
// ended or closed Conns of the host whose Conns count most towards GoneBytes.
func (n *Node) keep(c *Conn, bytes int) {
	for _, d := range n.gone.Add(c.ep.PeerHost(), c, goneBytes+int64(bytes)) {
		if d.err == nil {
			d.reset()
			continue
		}
		n.uncountGone(d)
		d.next, d.ended = d.read, false // Reads of d return the reason of its end.
		d.forget()
	}
}

// The method "forget" frees the memory of an ended Conn without unread bytes.
func (c *Conn) forget() {
	c.ring = nil
	c.n.gone.Remove(c)
	c.n.uncountGone(c)
	if l := c.backlog; l != nil {
		l.take(c)
	}
}

// uncountGone removes the Conn c from the counts of ended Conns in the map goneOf, if c is counted
// there. Closed Conns with unsent bytes, which count towards GoneBytes too, are not counted in the
// map goneOf.
func (n *Node) uncountGone(c *Conn) {
	if !c.inGoneOf {
		return
	}
	c.inGoneOf = false
	if n.goneOf[c.remote.Address]--; n.goneOf[c.remote.Address] == 0 {
		delete(n.goneOf, c.remote.Address)
	}
}

func (n *Node) peer(ep *btl.Endpoint) *peer {
	p := n.peers[ep]
	if p == nil {
		p = &peer{}
		n.peers[ep] = p
	}
	return p
}

func (n *Node) forget(ep *btl.Endpoint) {
	if p := n.peers[ep]; p != nil && p.opened == [2]int{} && len(p.refused) == 0 &&
		p.waiting.first == nil {
		delete(n.peers, ep)
	}
}

// The method "lost" ends the Conns of an endpoint that has ended.
func (n *Node) lost(ep *btl.Endpoint, err error) {
	if err == nil {
		err = btl.ErrClosed
	}
	p := n.peers[ep]
	if p == nil {
		return // The endpoint has no Conns.
	}
	for _, c := range slices.Clone(p.conns) { // fail removes the Conn from p.conns
		c.fail(err)
	}
	delete(n.peers, ep)
}

// The method "arrive" is the message handler of the Node's tag.
func (n *Node) arrive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	var h head
	rest, ok := h.read(data)
	if ok && h.kind == kindOpen {
		ok = n.onOpen(ep, h.id, h.value, string(rest))
	} else if c := n.conns[name{ep, !h.mine, h.id}]; ok && c != nil {
		ok = c.on(&h, rest)
		c.advance()
	}
	if !ok {
		n.lost(ep, errProtocol)
		ep.Abort()
	}
	if n.held > n.cfg.TotalBytes {
		n.shed()
	}
}

// errProtocol means that the peer has sent a message that package conn never sends.
var errProtocol = errors.New("conn: protocol violated")

// onOpen accepts or refuses a Conn that a peer opens, and reports whether the peer's endpoint can
// continue. onOpen returns false, so that the caller ends the endpoint, if the peer has violated
// the protocol or if too many refusals to the peer wait for send buffers.
func (n *Node) onOpen(ep *btl.Endpoint, id uint32, limit uint64, service string) bool {
	named := name{ep, false, id}
	if n.conns[named] != nil {
		return false
	}
	l, h := n.listeners[service], head{kind: kindRefuse, id: id}
	switch {
	case l == nil:
		h.status = statusService
	case n.peer(ep).opened[0]+n.goneOf[hostPort(ep.PeerAddress())] >= n.cfg.ConnsMax,
		!n.mayOpen(ep.PeerHost()):
		h.status = statusConns
	case !l.mayOffer(ep.PeerHost()):
		h.status = statusBacklog
	default:
		c := n.add(named, service)
		c.limit, c.accepted = limit, true
		c.due |= dueAccept
		l.offer(c)
		c.advance()
		return len(c.peer.refused) <= refusedMax
	}
	p := n.peer(ep)
	n.tellLater(ep, h)
	n.forget(ep)
	return len(p.refused) <= refusedMax
}

// mayOpen reports whether the peers on the host with the given name can open one more Conn. The
// peers on one host can open about (TotalConns-n)/2 Conns if the peers on all other hosts have
// opened n Conns.
func (n *Node) mayOpen(name string) bool {
	ofHost := 0
	if h := n.hosts[name]; h != nil {
		ofHost = h.opened
	}
	free := n.cfg.TotalConns - n.opened
	return free > 0 && ofHost <= free
}

// tellLater sends a refusal or a reset at once, or, if no send buffer is free, later.
func (n *Node) tellLater(ep *btl.Endpoint, h head) {
	p := n.peer(ep)
	if len(p.refused) > 0 || errors.Is(send(ep, n.cfg.Tag, &h, nil, nil), btl.ErrAgain) {
		p.refused = append(p.refused, h)
	}
}

// The function "send" sends a message. The function "done", which can be nil, is called when the
// peer has acknowledged or refused the message, or the endpoint has ended. The calling goroutine
// must own the module.
func send(ep *btl.Endpoint, tag btl.Tag, h *head, body []byte, done func(*btl.Fragment, error),
) error {
	f, err := ep.Alloc(tag, headBytes+len(body))
	if err != nil {
		return err
	}
	h.put(f.Bytes())
	copy(f.Bytes()[headBytes:], body)
	f.Signal, f.OnDone = done != nil, done
	if _, err := ep.Send(ep.Now(), f); err != nil {
		_ = ep.Free(f) // Send has failed, so the fragment is the caller's.
		return err
	}
	return nil
}
