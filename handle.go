package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
)

// Request is a call of a peer that a Handler receives.
type Request struct {
	// Peer is the sender of the request. The handler may call methods of Peer.
	Peer *Peer
	// Method is the name of the method that the peer calls.
	Method string
	// Body is the data of the request, which the handler may keep and change.
	Body []byte
}

// Handler answers a request. Each call of a Handler runs on its own goroutine, and may block. The
// context of a Handler is cancelled at the caller's deadline, when the caller gives up or
// disconnects, and when the Node closes. The caller receives an error of the Handler as a
// call.RemoteError with the error's text. A panic of a Handler ends the process, as in any other
// goroutine: the Node does not recover it.
type Handler func(ctx context.Context, req *Request) ([]byte, error)

// MessageHandler handles the messages of a tag. A MessageHandler runs on the goroutine that drives
// the network, and must not block. While a MessageHandler runs, nothing is received or
// acknowledged, and a peer that waits longer than its Config.Transport.PeerTimeout declares this
// Node dead. If handlers delay the network for longer than Config.Runner.LongPass (100 ms by
// default), a line is written to Config.Log, and Runner.LongPasses counts the delay. The slice data
// is valid only during the call. A panic of a MessageHandler ends the process.
type MessageHandler func(peer *Peer, data []byte)

// methodBytesMax is the maximum length of a method's name, in bytes.
const methodBytesMax = 255

// Handle registers the handler of a method, whose name has 1 to 255 bytes, or removes the handler
// if it is nil. Any goroutine may call Handle at any time. A peer that calls before its method is
// registered gets call.ErrMethod; Config.Setup registers handlers before any peer connects. Handle
// returns call.ErrMethod for a name of another length, or ErrClosed.
func (n *Node) Handle(method string, h Handler) error {
	if len(method) < 1 || len(method) > methodBytesMax {
		return fmt.Errorf("%w: its name has %d bytes, want 1 to %d", call.ErrMethod, len(method),
			methodBytesMax)
	}
	if n.none() {
		return ErrNode
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	if n.handlers[method] = h; h == nil {
		delete(n.handlers, method)
	}
	var err error
	for _, l := range n.links {
		err = errors.Join(err, l.handle(method, h))
	}
	return err
}

func (l *Link) handle(method string, h Handler) error {
	if h == nil {
		return l.calls.HandleName(method, nil)
	}
	return l.calls.HandleName(method,
		func(ctx context.Context, ep *btl.Endpoint, body []byte) ([]byte, error) {
			return h(ctx, &Request{Peer: l.peerOf(ep), Method: method, Body: body})
		})
}

// HandleMessage registers the handler of the messages of a tag, 0 to TagMax, or removes the handler
// if it is nil. HandleMessage must not be called in a MessageHandler or in OnPeer. If a tag has no
// handler, a peer's Send fails with btl.ErrNoHandler; Config.Setup registers handlers before any
// peer connects. HandleMessage returns ErrTag, ErrClosed, or runner.ErrInHandler.
func (n *Node) HandleMessage(tag btl.Tag, h MessageHandler) error {
	if tag > TagMax {
		return tagError(tag)
	}
	if n.none() {
		return ErrNode
	}
	if h == nil {
		n.messages[tag].Store(nil)
	} else {
		n.messages[tag].Store(&h)
	}
	n.mu.Lock()
	n.tags[tag] = true
	links, closed := append([]*Link(nil), n.links...), n.closed
	n.mu.Unlock()
	if closed {
		return ErrClosed
	}
	var err error
	for _, l := range links {
		err = errors.Join(err, l.handleMessages(tag))
	}
	return err
}

// tagError returns ErrTag for a tag.
func tagError(tag btl.Tag) error { return fmt.Errorf("%w: %d, at most %d", ErrTag, tag, TagMax) }

// handleMessages makes the link's module accept the messages of a tag if the tag has a handler,
// and refuse the messages if not.
func (l *Link) handleMessages(tag btl.Tag) error {
	handler := &l.node.messages[tag]
	return l.run.Do(context.Background(), func(m *btl.Module) error {
		if handler.Load() == nil {
			return m.Handle(tag, nil)
		}
		return m.Handle(tag, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
			if h := handler.Load(); h != nil {
				l.inside.enter(int(tag))
				(*h)(l.peer(ep), data)
				l.inside.leave()
			}
		})
	})
}

// Accept waits for a stream that a peer opens. The error of Accept is ErrClosed.
func (n *Node) Accept() (net.Conn, error) {
	if n.none() {
		return nil, ErrNode
	}
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.done:
		return nil, ErrClosed
	}
}

// Listener returns a net.Listener whose Accept is the Node's Accept, for net/http and similar
// packages. If the listener is closed, its Accept returns an error, but the Node is not closed.
func (n *Node) Listener() net.Listener { return &listener{n: n, closed: make(chan struct{})} }

// listener implements net.Listener for a Node.
type listener struct {
	n      *Node
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	if l.n.none() {
		return nil, ErrNode
	}
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.n.accepted:
		return c, nil
	case <-l.n.done:
		return nil, net.ErrClosed
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return conn.Addr{Address: l.n.Address()} }

// Message is a message that Take has returned from the queue.
type Message struct {
	// Peer is the sender of the message. The Peer's connection may have ended.
	Peer *Peer
	// Data is the content of the message, which the caller may keep and change.
	Data []byte
}

// Take returns a message that a peer has sent to this Node's queue with Enqueue. Messages of one
// peer may come in another order than the peer sent them, also without any loss: a small message
// may overtake a large one. A stream (Peer.OpenStream) keeps the order, and so do calls of which
// each begins after the answer of the one before. Take waits for a message until ctx is cancelled.
// Take returns ErrClosed or the error of ctx.
func (n *Node) Take(ctx context.Context) (Message, error) {
	if ctx == nil {
		return Message{}, btl.ErrContext
	}
	if n.none() {
		return Message{}, ErrNode
	}
	n.startTaking()
	select {
	case msg := <-n.taken:
		return msg, nil
	case <-n.done:
		return Message{}, ErrClosed
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
}

// startTaking makes each link pass the queued messages of its peers to Node.Take. startTaking is
// called by the first Take, and until then all messages stay in the queues.
func (n *Node) startTaking() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taking || n.closed {
		return
	}
	n.taking = true
	for _, l := range n.links {
		n.work.Go(l.take)
	}
}
