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

// Request is a call of a peer, as its Handler gets it.
type Request struct {
	// Peer is the sender of the request. The handler may call it in turn.
	Peer *Peer
	// Method is the name of the method that the peer calls.
	Method string
	// Body is the data of the request. The handler owns it.
	Body []byte
}

// Handler answers a request. It runs on a goroutine of its own, and may block. ctx ends with the
// caller's deadline, when the caller gives up or is gone, and when the Node closes. An error
// travels to the caller as a call.RemoteError with its text.
type Handler func(ctx context.Context, req *Request) ([]byte, error)

// MessageHandler handles the messages of a tag. It runs on the goroutine that drives the network,
// so it must not block. While it runs nothing is received and nothing is acknowledged: a peer that
// waits for longer than its Config.Transport.PeerTimeout takes this Node for dead. The guilty side
// is told: if handlers keep the network waiting for longer than Config.Runner.LongPass, 100 ms by
// default, a line goes to Config.Log, and Runner.LongPasses counts it. data is valid only during
// the call.
type MessageHandler func(peer *Peer, data []byte)

// methodBytesMax is the longest name of a method.
const methodBytesMax = 255

// Handle registers the handler of a method, whose name has 1 to 255 bytes; a nil handler removes
// it. It may be called at any time. Errors: call.ErrMethod for a name of another length, ErrClosed.
func (n *Node) Handle(method string, h Handler) error {
	if len(method) < 1 || len(method) > methodBytesMax {
		return fmt.Errorf("%w: its name has %d bytes, want 1 to %d", call.ErrMethod, len(method),
			methodBytesMax)
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

// HandleMessage registers the handler of the messages of a tag, 0 to TagMax; a nil handler removes
// it. It may be called at any time, except in a MessageHandler or in OnPeer. A peer's Send of a tag
// without a handler fails with btl.ErrNoHandler. Errors: ErrTag, ErrClosed, runner.ErrInHandler.
func (n *Node) HandleMessage(tag btl.Tag, h MessageHandler) error {
	if tag > TagMax {
		return ErrTag
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

// handleMessages makes the link's module accept the messages of a tag if the tag has a handler, and
// refuse them otherwise.
func (l *Link) handleMessages(tag btl.Tag) error {
	handler := &l.node.messages[tag]
	return l.run.Do(context.Background(), func(m *btl.Module) error {
		if handler.Load() == nil {
			return m.Handle(tag, nil)
		}
		return m.Handle(tag, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
			if h := handler.Load(); h != nil {
				(*h)(l.peer(ep), data)
			}
		})
	})
}

// Accept waits for a stream that a peer opens. Error: ErrClosed.
func (n *Node) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.done:
		return nil, ErrClosed
	}
}

// Listener returns a net.Listener whose Accept is the Node's, for net/http and similar packages.
// Closing the listener ends its Accept, but not the Node.
func (n *Node) Listener() net.Listener { return &listener{n: n, closed: make(chan struct{})} }

// listener is a net.Listener at a Node.
type listener struct {
	n      *Node
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
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
	// Peer is the sender of the message. Its connection may have ended.
	Peer *Peer
	// Data is the content of the message. The caller owns it.
	Data []byte
}

// Take returns a message that a peer has put into this Node's queue with Enqueue. It waits for a
// message until ctx ends. Errors: ErrClosed, the error of ctx.
func (n *Node) Take(ctx context.Context) (Message, error) {
	if ctx == nil {
		return Message{}, btl.ErrContext
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

// startTaking makes each link hand out the queued messages of its peers, from the first Take on.
// Until then all of them stay in the queues.
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
