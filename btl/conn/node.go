package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
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

	// The fields of a Node from conns to closed belong to the goroutine that drives the
	// module.
	conns     map[name]*Conn
	peers     map[*btl.Endpoint]*peer
	listeners map[string]*Listener
	gone      *kept.Keeper[*Conn] // ended Conns with unread bytes, and orphans with unsent bytes
	goneOf    map[string]int      // number of Conns in gone, by peer address
	held      int64               // bytes of the ring buffers of conns
	hosts     map[string]*host    // the hosts of conns, by Endpoint.PeerHost
	grown     int64               // total growth of the windows of conns, in bytes
	company   company
	lastID    uint32
	closed    bool

	orphans    map[*Conn]orphan // closed Conns of conns
	orphanTime time.Duration    // time without new credit after which an orphan is dropped
	sweeping   bool             // a sweep of the orphans is due

	dirty    dirty                   // Conns with bytes to send; any goroutine may use it
	flush    func()                  // the method flushes, as a value made once
	flushAll func(*btl.Module) error // the method flushConns, as a value made once
	lents    []*lent                 // unused, for messages sent from the caller's memory
}

// flushSoon starts a goroutine that sends a Conn's buffered bytes, unless such a goroutine already
// runs.
func (n *Node) flushSoon(c *Conn) {
	if n.dirty.add(c) {
		go n.flush()
	}
}

// The method flushes sends buffered bytes, on a goroutine of its own.
func (n *Node) flushes() {
	for !n.dirty.done() {
		if n.r.Do(context.Background(), n.flushAll) != nil {
			n.dirty.take() // The Runner and all Conns have ended.
		}
	}
}

// flushConns sends the buffered bytes of all Conns, as far as send buffers are free.
func (n *Node) flushConns(*btl.Module) error {
	for _, c := range n.dirty.take() {
		c.buffer.unlist()
		c.advance()
	}
	return nil
}

// name identifies a Conn on the wire.
type name struct {
	ep   *btl.Endpoint
	mine bool // this side has dialed
	id   uint32
}

// peer is the Node's state for one endpoint.
type peer struct {
	conns   []*Conn // all Conns, in any order
	opened  [2]int  // number of Conns opened by the peer, and by this side
	refused []head  // refusals and resets that wait for resources
	waiting turns   // Conns with messages that wait for resources
}

// refusedMax is the maximum number of refusals and resets to one peer that wait for send buffers.
// If more than refusedMax of them wait when the peer opens a Conn, the peer's endpoint is ended.
const refusedMax = 1024

// New makes a Node that uses one tag of a module. After New, the caller calls Start, or passes
// the Node's Layer to a Runner. Before the Runner starts, the Node belongs to the goroutine that
// owns the module. New returns ErrConfig for an invalid configuration, and also if the tag
// already has a handler.
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
	}
	n.flush, n.flushAll = n.flushes, n.flushConns
	if err := m.Hooks().ClaimTag(cfg.Tag, headBytes+chunkBytesMax, n.arrive); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return n, nil
}

// Start starts a Runner for the module, with the Node as its only layer, and returns the Runner.
// The caller of Start uses the Runner to connect, and must close the Runner after the Node. The
// function onEvent may be nil. The Runner of a second Start returns runner.ErrTaken from all calls.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Node's layer for runner.New, which is used instead of Start if several
// layers share a module. Before the Runner has started, all methods of a Node that wait
// return runner.ErrNotStarted.
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

// Close closes all Listeners and Conns, and no new ones can be made. Close waits until all written
// bytes are sent, until ctx is cancelled, or until no peer has accepted bytes for a second. Bytes
// that a peer has not accepted when Close returns are lost, and the peer's Reads return an error.
// The Runner's Close waits until the sent bytes have arrived. Close returns the error of ctx, or
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
	return n.r.Do(ctx, func(*btl.Module) error {
		unsent, now := n.unsent(), sinceStart()
		if unsent != left {
			left, since = unsent, now
		}
		if unsent == 0 || now-since > int64(closeGrace) {
			return nil
		}
		return btl.ErrAgain
	})
}

// closeGrace is the time for which Close waits for peers that accept no bytes.
const closeGrace = time.Second

// unsent returns the number of unsent bytes, plus the number of Conns with unsent control
// messages.
func (n *Node) unsent() (count int) {
	for _, c := range n.conns {
		count += len(c.buffer.unsent())
		if c.due != 0 {
			count++
		}
	}
	return count
}

// Conns returns the number of Conns that have not ended, dialed by either side. Closed Conns with
// data in flight are also counted. Conns returns 0 when the Runner has ended.
func (n *Node) Conns() (count int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = len(n.conns)
		return nil
	})
	return count
}

// Dial opens a Conn to a service of the peer. Dial returns when the peer has agreed, which may be
// before the peer's Accept returns the Conn. Dial returns ErrService, ErrBacklog, ErrConns,
// btl.ErrNoHandler if the peer has no Node with the same tag, the error of the endpoint, or the
// error of ctx.
func (n *Node) Dial(ctx context.Context, ep *btl.Endpoint, service string) (*Conn, error) {
	var c *Conn
	err := n.r.Await(ctx, func(_ *btl.Module, w runner.Waker) (err error) {
		c, err = n.open(ep, service)
		if err == nil {
			c.dialing = &request{w: w}
			c.advance()
		}
		return err
	})
	if err == nil {
		return c, nil
	}
	if c != nil && ctx.Err() != nil {
		_ = c.Close() // Close tells the peer, once the peer has answered.
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{Service: service}, Err: err}
}

// open makes a Conn that this side dials.
func (n *Node) open(ep *btl.Endpoint, service string) (*Conn, error) {
	switch {
	case n.closed:
		return nil, net.ErrClosed
	case !n.r.Owns(ep):
		return nil, btl.ErrEndpoint
	case ep.Err() != nil:
		return nil, ep.Err()
	case len(service) > serviceBytes:
		return nil, fmt.Errorf("%w: its name has %d bytes, at most %d", ErrService, len(service),
			serviceBytes)
	case n.peer(ep).opened[1] >= n.cfg.ConnsMax:
		return nil, ErrConns
	}
	n.lastID++
	for n.conns[name{ep, true, n.lastID}] != nil {
		n.lastID++
	}
	c := n.add(name{ep, true, n.lastID}, service)
	c.due |= dueOpen
	return c, nil
}

// add makes a Conn and counts it.
func (n *Node) add(id name, service string) *Conn {
	c := &Conn{n: n, name: id}
	c.window = uint64(n.cfg.WindowBytes)
	c.host = n.enterHost(id.ep.PeerHost())
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

// side is the index in peer.opened for Conns that this side has opened, and for Conns that the peer
// has opened.
func side(mine bool) int {
	if mine {
		return 1
	}
	return 0
}

// remove removes a Conn from the Node's tables.
func (n *Node) remove(c *Conn) {
	if n.conns[c.name] == c {
		delete(n.conns, c.name)
		n.disown(c)
		c.count(0)
		c.ungrow()
		n.leaveHost(c.host)
		c.peer.opened[side(c.mine)]--
		c.peer.remove(c)
		n.forget(c.ep)
	}
}

// remove removes a Conn from the peer's Conns.
func (p *peer) remove(c *Conn) {
	last := len(p.conns) - 1
	p.conns[c.at] = p.conns[last]
	p.conns[c.at].at = c.at
	p.conns[last] = nil
	p.conns = p.conns[:last]
}

// leave removes an ended Conn from the Node's tables, and keeps the bytes that were received
// without a gap until the application has read them.
func (n *Node) leave(c *Conn) {
	n.remove(c)
	c.early = nil
	if c.deaf || c.read == c.next {
		c.forget()
		return
	}
	n.goneOf[c.remote.Address]++
	n.keep(c, len(c.ring))
}

// keep counts the memory of a Conn with unread or unsent bytes, and drops bytes above GoneBytes.
func (n *Node) keep(c *Conn, bytes int) {
	for _, d := range n.gone.Add(c.ep.PeerHost(), c, goneBytes+int64(bytes)) {
		if d.err == nil {
			d.reset()
			continue
		}
		n.countGone(d)
		d.next, d.ended = d.read, false // Reads of d return the reason of its end.
		d.forget()
	}
}

// forget frees the memory of an ended Conn that has no bytes left to read.
func (c *Conn) forget() {
	c.ring = nil
	if c.n.gone.Has(c) {
		c.n.gone.Remove(c)
		c.n.countGone(c)
	}
	if l := c.backlog; l != nil {
		l.take(slices.Index(l.backlog, c))
	}
}

// countGone subtracts a Conn from the number of ended Conns with unread bytes of its peer
// address.
func (n *Node) countGone(c *Conn) {
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

// lost ends the Conns of an endpoint that has ended.
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

// arrive is the message handler of the Node's tag.
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

// onOpen accepts or refuses a Conn that a peer opens. onOpen returns false if the peer violates the
// protocol, or if too many refusals wait.
func (n *Node) onOpen(ep *btl.Endpoint, id uint32, limit uint64, service string) bool {
	named := name{ep, false, id}
	if n.conns[named] != nil {
		return false
	}
	l, h := n.listeners[service], head{kind: kindRefuse, id: id}
	switch {
	case l == nil:
		h.status = statusService
	case n.peer(ep).opened[0]+n.goneOf[hostPort(ep.PeerAddress())] >= n.cfg.ConnsMax:
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

// tellLater sends a refusal or a reset, now or when a send buffer is free.
func (n *Node) tellLater(ep *btl.Endpoint, h head) {
	p := n.peer(ep)
	if len(p.refused) > 0 || errors.Is(send(ep, n.cfg.Tag, &h, nil, nil), btl.ErrAgain) {
		p.refused = append(p.refused, h)
	}
}

// send sends a message. The function done, which may be nil, is called when the peer has
// acknowledged or refused the message. The calling goroutine must own the module.
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
