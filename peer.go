package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net"

	"gobtl/btl"
	"gobtl/internal/plain"
)

// Peer is a connection to another Node. Any goroutine may call all methods. In a MessageHandler or
// in OnPeer, methods that would wait return runner.ErrInHandler. Methods of a nil Peer or of the
// zero Peer return ErrPeer if they have an error result, and otherwise zero values, except that
// Done returns a closed channel.
//
// After the connection has ended, Err and the methods that use the connection return the reason,
// and Node.Dial makes a new connection. Only Close returns nil then, unless the Node is closed too.
// The most frequent reasons are
//
//   - btl.ErrPeerRestarted if a packet of a new process has arrived from the peer's address;
//   - btl.ErrPeerClosed if the peer has closed the connection;
//   - btl.ErrClosed, and not the ErrClosed of this package, if this side has closed the connection
//     or the Node;
//   - btl.ErrPeerDead if the peer did not answer. Sends to a dead peer fail after
//     Config.Transport.PeerTimeout. If the peer dies after it has received a request, the waiting
//     Call or OpenStream fails within the sum of KeepAlive and PeerTimeout, which is 25 s by
//     default.
type Peer struct {
	link    *Link
	ep      *btl.Endpoint
	address string
	done    chan struct{}
	err     error // valid when done is closed

	// Only the goroutine that drives the link may use the fields "connected" and "regions".
	connected bool                 // OnPeer was called for the connection
	regions   map[*Region]struct{} // exposed regions that the peer may access
}

// Call sends a copy of the slice "request" to the peer's handler of the method, and returns the
// body of the answer, which the caller may keep. The context of the peer's handler has the deadline
// of ctx, and is cancelled when ctx is cancelled. The error of Call names the method and the peer.
// The error wraps a call.RemoteError with the text of the handler's error, the reason why the
// connection ended, the error of ctx, or another error of call.Node.Call, such as call.ErrMethod,
// call.ErrBusy, call.ErrRequestSize or call.ErrAnswerSize.
func (p *Peer) Call(ctx context.Context, method string, request []byte) ([]byte, error) {
	if p.none() {
		return nil, ErrPeer
	}
	answer, err := p.link.calls.CallName(ctx, p.ep, method, request)
	if err != nil {
		return nil, fmt.Errorf("gobtl: call %q of %s: %w", method, p.address, inner(err))
	}
	return answer, nil
}

// Send sends data to the peer's MessageHandler of the tag, and returns when the peer has
// acknowledged the message. After Send has returned, the caller may reuse the slice "data", unless
// the error is runner.ErrInUse, which can happen if ctx was cancelled. Send returns
// btl.ErrNoHandler if the peer has no handler for the tag. Send returns ErrTag for a tag above
// TagMax, btl.ErrTooLarge for too much data, the reason why the connection ended, or the error of
// ctx.
func (p *Peer) Send(ctx context.Context, tag btl.Tag, data []byte) error {
	if p.none() {
		return ErrPeer
	}
	if tag > TagMax {
		return tagError(tag)
	}
	return p.wrap("send to", p.link.run.Send(ctx, p.ep, tag, data))
}

// none reports whether the Peer is nil or the zero value, as after a call of Dial that has failed.
func (p *Peer) none() bool { return p == nil || p.link == nil }

// The function "inner" removes the prefix "gobtl: " from the text of err, because the caller
// inserts the text into a longer text with this prefix.
func inner(err error) error { return plain.Inner("gobtl: ", err) }

// The method "wrap" adds the peer's address to the text of an error, and returns nil for a nil
// error.
func (p *Peer) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gobtl: %s %s: %w", what, p.address, inner(err))
}

// Enqueue sends data to the queue of the peer, whose Take then returns the message. The queue is
// not a FIFO, because even without packet loss, a small message can overtake a large message. If
// the order matters, use a stream (OpenStream) or number the messages. Enqueue returns when the
// transport has a copy of data. While the peer's queue is full, Enqueue waits, at most until ctx is
// cancelled. The error of Enqueue is queue.ErrTooLarge, the reason why the connection ended, or the
// error of ctx.
//
// If the connection ends before the peer has acknowledged the message, the message may be lost.
// Enqueue has then returned already, so only Peer.Done and Peer.Err tell that the connection has
// ended.
func (p *Peer) Enqueue(ctx context.Context, data []byte) error {
	if p.none() {
		return ErrPeer
	}
	return p.wrap("enqueue to", p.link.queue.Send(ctx, p.ep, data))
}

// OpenStream opens a byte stream, which the peer gets from its Accept. OpenStream might return
// before the peer has called Accept. If too many streams wait for the peer's Accept, OpenStream
// tries again until ctx ends, or for Config.Transport.HandshakeTimeout if ctx has no deadline.
// OpenStream returns the errors of conn.Node.Dial.
func (p *Peer) OpenStream(ctx context.Context) (net.Conn, error) {
	if p.none() {
		return nil, ErrPeer
	}
	c, err := p.link.streams.Dial(ctx, p.ep, "")
	if err != nil {
		return nil, p.wrap("open a stream to", err) // The result must not be a nil *Conn.
	}
	return c, nil
}

// Region is local memory that one peer is allowed to access. For a nil Region and the zero Region,
// Close returns ErrRegion, and Handle returns 0.
type Region struct {
	peer   *Peer
	region *btl.Region
}

// Expose lets this peer, but no other peer, access mem with the given rights, until the Region is
// closed or the connection ends. The peer needs the right btl.RemoteRead for Get, and
// btl.RemoteWrite for Put. The program must send the Region's Handle, which is a uint64, to the
// peer, for example in the answer of a call. No callback runs when the peer puts or gets.
//
// For a region that all peers of a Link may access, use btl.Module.Expose in a function given to
// Link.Runner().Do.
//
// Expose returns btl.ErrAgain if Config.Transport.RegionsMax regions are already exposed, and
// btl.ErrConfig for unknown rights. Expose returns the reason why the connection ended if it has
// ended, or the error of ctx if ctx is cancelled.
func (p *Peer) Expose(ctx context.Context, mem []byte, rights btl.Rights) (*Region, error) {
	if p.none() {
		return nil, ErrPeer
	}
	r := &Region{peer: p, region: new(btl.Region)}
	var exposed error // Do retries a function that returns ErrAgain.
	err := p.link.run.Do(ctx, func(m *btl.Module) error {
		exposed = p.expose(m, r, mem, rights)
		return nil
	})
	if err = errors.Join(err, exposed); err != nil {
		return nil, p.wrap("expose memory to", err)
	}
	return r, nil
}

// The method "expose" performs the part of Expose that must run on the goroutine that drives the
// link.
func (p *Peer) expose(m *btl.Module, r *Region, mem []byte, rights btl.Rights) error {
	if err := p.ep.Err(); err != nil {
		return err
	}
	if err := m.ExposeAs(r.region, mem, rights, p.ep); err != nil {
		return err
	}
	if p.regions == nil {
		p.regions = map[*Region]struct{}{}
	}
	p.regions[r] = struct{}{}
	return nil
}

// Handle returns the number that identifies the Region in the peer's calls of Put and Get.
func (r *Region) Handle() btl.Handle {
	if r.none() {
		return 0
	}
	return r.region.Handle()
}

func (r *Region) none() bool { return r == nil || r.region == nil }

// Close ends the peer's access to the Region. After Close has returned, the peer can no longer read
// or write the memory.
func (r *Region) Close(ctx context.Context) error {
	if r.none() {
		return ErrRegion
	}
	return r.peer.link.run.Do(ctx, func(*btl.Module) error {
		r.close()
		return nil
	})
}

// The method "close" performs the part of Region.Close that must run on the goroutine that drives
// the link.
func (r *Region) close() {
	r.region.Close()
	delete(r.peer.regions, r)
}

// Put writes data into memory that the peer has exposed, from the given offset on, and returns when
// all bytes are written. The error of Put is btl.ErrRemoteAccess, the reason why the connection
// ended, or the error of ctx joined with runner.ErrInUse.
func (p *Peer) Put(ctx context.Context, target btl.Handle, offset uint64, data []byte) error {
	if p.none() {
		return ErrPeer
	}
	return p.wrap("put to", p.link.run.Put(ctx, p.ep, data, target, offset))
}

// Get reads len(mem) bytes of memory that the peer has exposed, from the given offset on, into mem.
// Get returns the same errors as Put. After an error of Get, some bytes of mem might have changed.
func (p *Peer) Get(ctx context.Context, target btl.Handle, offset uint64, mem []byte) error {
	if p.none() {
		return ErrPeer
	}
	return p.wrap("get from", p.link.run.Get(ctx, p.ep, mem, target, offset))
}

// Address returns the peer's address, such as "192.0.2.1:4000". If the peer has dialled this Node,
// the port in the address was chosen on the peer's side.
func (p *Peer) Address() string {
	if p.none() {
		return ""
	}
	return p.address
}

// Network returns the name of the provider that carries the connection, such as "udp", "net" or
// "shm".
func (p *Peer) Network() string {
	if p.none() {
		return ""
	}
	return p.link.provider
}

// Done returns a channel that is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} {
	if p.none() {
		return noPeerDone
	}
	return p.done
}

// The variable "noPeerDone" is the closed channel that Done of a nil Peer returns.
var noPeerDone = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns the reason why the connection has ended, or nil if the connection has not ended.
func (p *Peer) Err() error {
	if p.none() {
		return ErrPeer
	}
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Close delivers all sent data, tells the peer that the connection ends, and ends the connection.
// Close waits until the connection has ended, or until ctx is cancelled. If the peer acknowledges
// nothing for Config.Transport.CloseTimeout (1 s by default), the connection ends with
// unacknowledged data, and Close returns nil. Written bytes of a stream that wait because the peer
// does not read are lost.
func (p *Peer) Close(ctx context.Context) error {
	if p.none() {
		return ErrPeer
	}
	err := p.link.run.Do(ctx, func(*btl.Module) error {
		p.ep.Close(p.ep.Now())
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-p.link.run.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Link returns the local link to which the peer is connected.
func (p *Peer) Link() *Link {
	if p.none() {
		return nil
	}
	return p.link
}

// Endpoint returns the connection's endpoint in package btl. The endpoint may be used only in
// functions given to Link().Runner().Do, as package btl requires.
func (p *Peer) Endpoint() *btl.Endpoint {
	if p.none() {
		return nil
	}
	return p.ep
}

// String returns the peer's address.
func (p *Peer) String() string { return p.Address() }

// The method "end" records why the connection has ended, on the goroutine that drives the link.
// Only the first call of "end" has an effect.
func (p *Peer) end(err error) {
	if p.Err() != nil {
		return
	}
	for r := range p.regions {
		r.close()
	}
	if err == nil {
		err = btl.ErrClosed
	}
	p.err = fmt.Errorf("gobtl: peer %s: %w", p.address, inner(err))
	close(p.done)
}
