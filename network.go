package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/internal/bounded"
)

// Link is the part of a Node that uses one address of this host. A Link has a module of the
// transport with its Runner, and the layers for calls, streams and queued messages. Through a Link,
// a program can use the features of the transport that package gobtl itself does not offer.
//
//	Peer.Call   Peer.Send   Peer.Enqueue   Peer.OpenStream
//	    |           |            |               |
//	call.Node       |       queue.Queue      conn.Node        the layers, a tag each
//	    +-----------+------+-----+---------------+
//	                 runner.Runner                            any goroutine
//	                 btl.Module                               the transport
type Link struct {
	node     *Node
	host     netip.Addr // address of this side; invalid if the provider has none
	provider string     // provider that carries the Link's packets
	memory   bool       // the Link uses shared memory, beside UDP links
	module   *btl.Module
	run      *runner.Runner
	calls    *call.Node
	streams  *conn.Node
	queue    *queue.Queue
	listener *conn.Listener
	door     *bounded.Listener // Unix socket that announces shared memory; may be nil
	cards    cards             // addresses of other Nodes, for shared memory
	gate     gate              // decides which peers may connect
	inside   *inside           // the callback that is running; nil without a Config.Log
	uses     cpuUses           // by this process; empty without a Config.Log
	peers    sync.Map          // map from *btl.Endpoint to *Peer, for open connections
}

// Runner returns the Runner that drives the module of the Link.
func (l *Link) Runner() *runner.Runner { return l.run }

// Calls returns the layer for calls.
func (l *Link) Calls() *call.Node { return l.calls }

// Streams returns the layer for streams.
func (l *Link) Streams() *conn.Node { return l.streams }

// Queue returns the layer for messages that wait for Node.Take.
func (l *Link) Queue() *queue.Queue { return l.queue }

// Address returns the Link's address, which peers give to Dial. A link-local IPv6 address contains
// the name of this host's device, as in "[fe80::1%eth0]:4000". A program on another host must
// replace this name by the name of its own device.
func (l *Link) Address() string {
	address := shortAddress(l.module.Address())
	if zone := l.host.Zone(); zone != "" {
		return strings.Replace(address, "]", "%"+zone+"]", 1)
	}
	return address
}

// openLink opens a link at the first local address that matches the hints. The link announces the
// address "advertised" to peers, or its own address if "advertised" is empty.
func (n *Node) openLink(hints fabric.Hints, advertised string) (*Link, error) {
	transport := n.cfg.Transport
	transport.Advertise = advertised
	infos, err := fabric.GetInfo(hints)
	if err != nil {
		return nil, err
	}
	info := infos[0]
	sizes, err := transport.DomainConfig(info)
	if err != nil {
		return nil, err
	}
	domain, err := fabric.Open(info, sizes)
	if err != nil {
		return nil, err
	}
	l := &Link{node: n, provider: info.Provider}
	l.memory = n.overUDP() && l.provider == memoryProvider
	if l.module, err = btl.Open(domain, transport); err != nil {
		return nil, errors.Join(err, domain.Close())
	}
	if at, err := netip.ParseAddr(info.Src); err == nil {
		l.host = at
	}
	if err := l.start(); err != nil {
		return nil, errors.Join(err, l.module.Close())
	}
	return l, n.add(l)
}

// The method "start" creates the layers of the module, and starts a Runner that drives the module.
func (l *Link) start() (err error) {
	cfg := &l.node.cfg
	calls, streams, messages := cfg.Calls, cfg.Streams, cfg.Queue
	calls.Tag, streams.Tag, messages.Tag = tagCalls, tagStreams, tagQueue
	if l.calls, err = call.New(l.module, calls); err != nil {
		return err
	}
	if l.streams, err = conn.New(l.module, streams); err != nil {
		return err
	}
	if l.queue, err = queue.New(l.module, messages); err != nil {
		return err
	}
	l.module.Admit(l.gate.admit)
	if cfg.Log != nil {
		l.inside = new(inside)
	}
	run := cfg.Runner
	run.OnLongPass = l.longPass
	l.run = runner.New(l.module, run, l.event,
		l.calls.Layer(), l.streams.Layer(), l.queue.Layer())
	return nil
}

// The method "add" adds a link to the Node, so that the link uses the Node's handlers and passes
// accepted streams to the Node.
func (n *Node) add(l *Link) error {
	listener, err := l.streams.Listen("")
	if err != nil {
		return errors.Join(err, l.close(context.Background()))
	}
	l.listener = listener
	tags, ready, err := n.enlist(l)
	for _, tag := range tags {
		err = errors.Join(err, l.handleMessages(tag))
	}
	if err == nil && ready {
		err = l.openGate()
	}
	if err != nil {
		n.drop(l)
		return errors.Join(err, l.close(context.Background()))
	}
	return nil
}

// The method "drop" removes a link from the Node's list of links.
func (n *Node) drop(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	links := make([]*Link, 0, len(n.links)) // a new slice: readers may still use the old one
	for _, other := range n.links {
		if other != l {
			links = append(links, other)
		}
	}
	n.links = links
}

// The method "abandon" removes a link whose Runner has ended from the Node, and closes the link
// without waiting for its handlers.
func (n *Node) abandon(l *Link) {
	n.drop(l)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.close(over) // The Runner has already reported why it ended.
}

// The method "ended" reports whether the Runner of the link has ended.
func (l *Link) ended() bool {
	select {
	case <-l.run.Done():
		return true
	default:
		return false
	}
}

// The method "enlist" adds a link to the Node's list, and returns the tags whose messages the link
// must accept. The result "ready" of the method "enlist" reports whether Config.Setup has returned,
// so that the link may accept connections of peers.
func (n *Node) enlist(l *Link) (tags []btl.Tag, ready bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, false, ErrClosed
	}
	for name, h := range n.handlers {
		err = errors.Join(err, l.handle(name, h))
	}
	for tag := range n.tags {
		tags = append(tags, tag)
	}
	n.links = append(n.links, l)
	n.work.Go(l.accept)
	if l.inside != nil {
		n.work.Go(l.watchCallbacks)
	}
	if n.taking {
		n.work.Go(l.take)
	}
	return tags, n.ready, err
}

// The method "accept" receives the streams that peers open, and passes them to Node.Accept.
func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		select {
		case l.node.accepted <- c:
		case <-l.node.done:
			_ = c.Close() // Accept no longer returns streams.
			return
		}
	}
}

// The method "take" removes messages of peers from the link's queue, and passes them to Node.Take.
func (l *Link) take() {
	for {
		msg, err := l.queue.Take(context.Background(), nil)
		if err != nil {
			return
		}
		select {
		case l.node.taken <- Message{Peer: l.peerOf(msg.Peer), Data: msg.Data}:
		case <-l.node.done:
			return
		}
	}
}

// The method "event" handles the events of the link's endpoints, on the goroutine that drives the
// link.
func (l *Link) event(ep *btl.Endpoint, ev btl.Event, err error) {
	p := l.peer(ep)
	if ev == btl.EventConnected {
		p.connected = true
	} else {
		l.peers.Delete(ep)
		p.end(err)
	}
	l.logEvent(p, ev, err)
	if p.connected && l.node.cfg.OnPeer != nil {
		l.inside.enter(inOnPeer)
		l.node.cfg.OnPeer(p, ev, err)
		l.inside.leave()
	}
}

// logEvent writes a line about a peer to Config.Log. The number of lines about peers in each second
// is limited, because any host can connect as often as it likes.
func (l *Link) logEvent(p *Peer, ev btl.Event, err error) {
	log := l.node.cfg.Log
	if log == nil || !p.connected {
		return
	}
	if before, ok := l.node.peerLines.Allow(); ok {
		about := []any{"peer", p.address, "network", p.Network()}
		if err != nil {
			about = append(about, "error", err)
		}
		log.Info("gobtl: "+before+"peer "+ev.String(), about...)
	}
}

// The method "peer" returns the Peer of an endpoint, and makes a new Peer if the endpoint has none.
// Only the goroutine that drives the link may call the method "peer".
func (l *Link) peer(ep *btl.Endpoint) *Peer {
	if p, ok := ep.Context.(*Peer); ok {
		return p
	}
	p := &Peer{link: l, ep: ep, address: l.peerAddress(ep), done: make(chan struct{})}
	ep.Context = p
	if err := ep.Err(); err != nil {
		p.end(err)
	} else {
		l.peers.Store(ep, p)
	}
	return p
}

// peerOf returns the Peer of an endpoint, and may be called by any goroutine except the one that
// drives the link. If Link.peers has no Peer for the endpoint, peerOf runs the method "peer" on the
// goroutine that drives the link. Link.peers has no Peer if a message of the peer is handled before
// OnPeer is called for the peer, or after the connection has ended.
func (l *Link) peerOf(ep *btl.Endpoint) *Peer {
	if p, ok := l.peers.Load(ep); ok {
		return p.(*Peer) //nolint:forcetypeassert // nothing else is in it
	}
	var p *Peer
	err := l.run.Do(context.Background(), func(*btl.Module) error {
		p = l.peer(ep)
		return nil
	})
	if err != nil { // The link is closed.
		p = &Peer{link: l, ep: ep, done: make(chan struct{})}
		p.end(ErrClosed)
	}
	return p
}

// The method "close" closes the layers, and then the connections.
func (l *Link) close(ctx context.Context) error {
	if l.door != nil {
		_ = l.door.CloseAll()
	}
	err := errors.Join(l.calls.Close(ctx), l.streams.Close(ctx), l.queue.Close(ctx), l.run.Close(ctx))
	if err != nil {
		return fmt.Errorf("gobtl: close %s: %w", l.host, err)
	}
	return nil
}
