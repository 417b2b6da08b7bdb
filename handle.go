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

// Request is a remote procedure call of a peer, for a Handler to answer.
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
// disconnects, and when the Node closes. If a Handler returns an error, the caller receives a
// call.RemoteError with the text of this error. The Node does not recover a panic of a Handler, so
// a panic ends the process, as in any other goroutine.
type Handler func(ctx context.Context, req *Request) ([]byte, error)

// MessageHandler handles received messages with a given tag. A MessageHandler runs on the goroutine
// that drives the network, and must not block. While a MessageHandler runs, the Node receives and
// acknowledges nothing, and a peer that waits longer than its Config.Transport.PeerTimeout declares
// this Node dead. If handlers delay the network for longer than Config.Runner.LongPass (100 ms by
// default), the Node writes a line to Config.Log, and Runner.LongPasses counts the delay. The slice
// "data" is valid only until the MessageHandler returns.
//
// A panic of a MessageHandler ends the process. A MessageHandler can run on a goroutine of the
// program that waits in a method of a Peer. The program cannot recover the panic on this goroutine
// either. A MessageHandler that ends its goroutine with runtime.Goexit, for example by t.FailNow,
// ends the process too.
type MessageHandler func(peer *Peer, data []byte)

// methodBytesMax is the maximum length of a method's name, in bytes.
const methodBytesMax = 255

// Handle registers a handler for the calls of a method, or removes the handler if h is nil. The
// name of a method has 1 to 255 bytes. Any goroutine may call Handle at any time. A peer that calls
// a method before Handle has registered it gets call.ErrMethod. Handlers that are registered in
// Config.Setup are in place before any peer connects. Handle returns call.ErrMethod for an empty or
// too long name, and ErrClosed after Close.
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

// HandleMessage registers a handler for messages with a tag from 0 to TagMax, or removes the
// handler if h is nil. If a tag has no handler, a peer's Send with this tag fails with
// btl.ErrNoHandler. Handlers that are registered in Config.Setup are in place before any peer
// connects. HandleMessage returns ErrTag for a tag above TagMax, ErrClosed after Close, and
// runner.ErrInHandler in a MessageHandler or in OnPeer.
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

// tagError returns an ErrTag whose text contains the invalid tag.
func tagError(tag btl.Tag) error { return fmt.Errorf("%w: %d, at most %d", ErrTag, tag, TagMax) }

// handleMessages makes the link's module accept messages with the given tag if the tag has a
// MessageHandler, and otherwise makes the module refuse these messages.
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

// Accept waits until a peer opens a stream, and returns the stream. Hosts whose streams wait for
// Accept take turns. After Close of the Node, Accept returns ErrClosed.
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
// packages. Close of the listener makes the listener's Accept return an error, but does not close
// the Node.
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

// Message is a message that Take has removed from the Node's queue.
type Message struct {
	// Peer is the sender of the message. The connection of the Peer might have ended already.
	Peer *Peer
	// Data is the content of the message, which the caller may keep and change.
	Data []byte
}

// Take returns a message that a peer has sent to this Node's queue with Enqueue. Take might return
// the messages of one peer in a different order than the peer has sent them: even without packet
// loss, a small message can overtake a large message. A program that needs the order can use a
// stream (Peer.OpenStream), or can begin each call after the answer to the previous call. Hosts
// with queued messages take turns (see queue.Queue.Take). If no message is queued, Take waits for a
// message, but at most until ctx is cancelled. The error of Take is ErrClosed or the error of ctx.
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

// startTaking makes each link pass the queued messages of its peers to Node.Take. Until the program
// calls Take for the first time, which calls startTaking, all messages stay in the queues of the
// links.
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
