package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/kept"
)

// Node has the Conns of one module.
type Node struct {
	cfg   Config
	m     *btl.Module
	r     *runner.Runner
	local string // the module's address

	// Fields of the goroutine that drives the module.
	conns     map[name]*Conn
	peers     map[*btl.Endpoint]*peer
	listeners map[string]*Listener
	gone      *kept.Keeper[*Conn] // Conns that have ended, with bytes that nobody has read
	grown     int64               // bytes that the windows of conns have grown by
	company   company
	lastID    uint32
	closed    bool

	dirty    dirty                   // Conns with bytes to send, for any goroutine
	flush    func()                  // flushes, as a value that a go statement starts as it is
	flushAll func(*btl.Module) error // sends what Conns have in their buffers, as far as there is room
}

// flushSoon has a Conn's buffered bytes sent, at once or by the next goroutine that has the module.
func (n *Node) flushSoon(c *Conn) {
	if n.dirty.add(c) {
		go n.flush()
	}
}

// flushes is the goroutine that sends the buffered bytes that no other goroutine has sent.
func (n *Node) flushes() {
	for !n.dirty.done() {
		if n.r.Do(context.Background(), n.flushAll) != nil {
			n.dirty.take() // The Runner has ended, and with it all Conns.
		}
	}
}

// flushConns is flushAll.
func (n *Node) flushConns(*btl.Module) error {
	for _, c := range n.dirty.take() {
		c.buffer.unlist()
		c.advance()
	}
	return nil
}

// name is that of a Conn on the wire.
type name struct {
	ep   *btl.Endpoint
	mine bool // this side has dialed
	id   uint32
}

// peer is the Node's state of one endpoint.
type peer struct {
	opened  [2]int  // Conns: the peer's, and this side's
	refused []head  // answers for which there is no room
	waiting []*Conn // that have something to send, for which there is no room
}

// refusedMax bounds the answers that wait for room of one peer: beyond it the endpoint is ended.
const refusedMax = 1024

// New takes a tag of a module for Conns; then Start it, or give its Layer to a Runner. It belongs
// to the goroutine that owns the module until then. Errors: ErrConfig, btl.ErrTag.
func New(m *btl.Module, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, m: m, local: localAddress(m),
		conns: map[name]*Conn{}, peers: map[*btl.Endpoint]*peer{}, listeners: map[string]*Listener{},
		gone:    kept.New[*Conn](cfg.GoneBytes),
		company: company{window: cfg.WindowBytes},
	}
	n.flush, n.flushAll = n.flushes, n.flushConns
	return n, m.HandleUpTo(cfg.Tag, headBytes+chunkBytesMax, n.arrive)
}

// Start starts a Runner for the module with the Node as its only layer, and returns it. The caller
// owns the Runner: it connects by it, and closes it after the Node. onEvent may be nil.
func (n *Node) Start(cfg runner.Config, onEvent func(*btl.Endpoint, btl.Event, error),
) *runner.Runner {
	return runner.New(n.m, cfg, onEvent, n.Layer())
}

// Layer returns the Layer for runner.New, in place of Start, where several layers share a module.
// Until the Runner starts all waiting methods return runner.ErrNotStarted.
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

// Close closes all Listeners and Conns; no new ones can be made. It waits until written bytes have
// been sent, or ctx ends, or no peer has accepted any bytes for a second. Bytes that a peer has not
// accepted by then are lost: its Reads end with an error. The Runner's Close waits until the sent
// bytes have arrived. Errors: that of ctx, btl.ErrClosed if the Runner has ended.
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

// closeGrace is how long Close waits for peers that accept no bytes.
const closeGrace = time.Second

// unsent is the amount of unsent bytes, and ends of streams.
func (n *Node) unsent() (count int) {
	for _, c := range n.conns {
		count += len(c.buffer.unsent())
		if c.due != 0 {
			count++
		}
	}
	return count
}

// Conns is the number of Conns, dialed by either side, that are not over, including closed ones
// with data under way; 0 when the Runner has ended.
func (n *Node) Conns() (count int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = len(n.conns)
		return nil
	})
	return count
}

// Dial opens a Conn to a service of the peer, whose Listener need not have accepted it when Dial
// returns. Errors: ErrService, ErrBacklog, ErrConns; btl.ErrNoHandler if the peer has no Node on
// the tag; the endpoint's error, or the error of ctx.
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
		_ = c.Close() // It tells the peer, as soon as that has answered.
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{Service: service}, Err: err}
}

// DialContext dials the nameless service of the module at an address, with the signature of
// net.Dialer's DialContext, for http.Transport and the like. The network argument is ignored. The
// host of the address may be a DNS name: its addresses are tried in turn until one answers, each
// for btl.Config.HandshakeTimeout at most.
func (n *Node) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{Address: address}, Err: err}
	}
	if ctx == nil {
		return fail(btl.ErrContext)
	}
	addresses, err := lookUp(ctx, address)
	if err != nil {
		return fail(err)
	}
	var errs []error
	for _, a := range addresses {
		ep, err := n.r.Dial(ctx, a)
		if err == nil {
			c, err := n.Dial(ctx, ep, "")
			if err != nil {
				return nil, err // And not a nil Conn in an interface.
			}
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return fail(errors.Join(errs...))
}

// lookUp resolves the host name in an address; it returns at least one address.
func lookUp(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return []string{address}, nil // The fabric says what is wrong.
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{address}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, len(found))
	for i, a := range found {
		addresses[i] = net.JoinHostPort(a.Unmap().String(), port)
	}
	return addresses, nil
}

// open begins a Conn that this side dials.
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

// add makes a Conn.
func (n *Node) add(id name, service string) *Conn {
	c := &Conn{n: n, name: id}
	c.window = uint64(n.cfg.WindowBytes)
	c.tell(c.window)
	c.local = Addr{Address: n.local, Service: service}
	c.remote = Addr{Address: hostPort(id.ep.PeerAddress()), Service: service}
	c.sent = c.onSent
	n.conns[id] = c
	n.peer(id.ep).opened[side(id.mine)]++
	return c
}

// side is the index in peer.opened for Conns of this side or of the peer.
func side(mine bool) int {
	if mine {
		return 1
	}
	return 0
}

// remove forgets a Conn.
func (n *Node) remove(c *Conn) {
	if n.conns[c.name] == c {
		delete(n.conns, c.name)
		c.ungrow()
		n.peer(c.ep).opened[side(c.mine)]--
		n.forget(c.ep)
	}
}

// leave processes the end of a Conn, whose bytes received in order can still be read.
func (n *Node) leave(c *Conn) {
	n.remove(c)
	c.early = nil
	if c.deaf || c.read == c.next {
		c.forget()
		return
	}
	held := goneBytes + int64(len(c.ring))
	for _, d := range n.gone.Add(c.remote.Address, c, held) {
		d.next, d.ended = d.read, false // Its Reads tell why it has ended.
		d.forget()
	}
}

// forget frees the memory of an ended Conn when it has no bytes left to read.
func (c *Conn) forget() {
	c.ring = nil
	c.n.gone.Remove(c)
	if l := c.backlog; l != nil {
		l.take(slices.Index(l.backlog, c))
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

// forget drops the state of an endpoint, if it is empty.
func (n *Node) forget(ep *btl.Endpoint) {
	if p := n.peers[ep]; p != nil && p.opened == [2]int{} && len(p.refused) == 0 &&
		len(p.waiting) == 0 {
		delete(n.peers, ep)
	}
}

// lost ends the Conns of an endpoint that has ended.
func (n *Node) lost(ep *btl.Endpoint, err error) {
	if err == nil {
		err = btl.ErrClosed
	}
	if n.peers[ep] == nil {
		return // It has no Conns, and those of others may be many.
	}
	for id, c := range n.conns {
		if id.ep == ep {
			c.fail(err)
		}
	}
	delete(n.peers, ep)
}

// room is told that there is room for an endpoint again.
func (n *Node) room(ep *btl.Endpoint) {
	p := n.peers[ep]
	if p == nil {
		return
	}
	for len(p.refused) > 0 && send(ep, n.cfg.Tag, &p.refused[0], nil, nil) == nil {
		p.refused = p.refused[1:]
	}
	all := p.waiting
	p.waiting = nil
	for _, c := range all {
		c.waits = false
	}
	for _, c := range all { // Who finds no room once more is behind the others.
		c.advance()
	}
	n.forget(ep)
}

// arrive is the handler of the Node's tag.
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
}

// errProtocol: the peer has sent a message that this package never sends.
var errProtocol = errors.New("conn: protocol violated")

// onOpen accepts, or refuses, a Conn that a peer opens.
func (n *Node) onOpen(ep *btl.Endpoint, id uint32, limit uint64, service string) bool {
	named := name{ep, false, id}
	if n.conns[named] != nil {
		return false
	}
	l, h := n.listeners[service], head{kind: kindRefuse, id: id}
	from := hostPort(ep.PeerAddress())
	switch {
	case l == nil:
		h.status = statusService
	case n.peer(ep).opened[0]+n.gone.Of(from) >= n.cfg.ConnsMax:
		h.status = statusConns
	case !l.mayOffer(from):
		h.status = statusBacklog
	default:
		c := n.add(named, service)
		c.limit, c.accepted = limit, true
		c.due |= dueAccept
		l.offer(c)
		c.advance()
		return true
	}
	p := n.peer(ep)
	if len(p.refused) > 0 || errors.Is(send(ep, n.cfg.Tag, &h, nil, nil), btl.ErrAgain) {
		p.refused = append(p.refused, h)
	}
	n.forget(ep)
	return len(p.refused) <= refusedMax
}

// send sends a message; done, if not nil, is told of its end. The caller owns the module.
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
		_ = ep.Free(f) // It is the caller's still.
		return err
	}
	return nil
}
