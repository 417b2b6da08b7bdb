package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net"

	"gobtl/btl"
)

// Peer is a connection to another Node. All its methods may be used by any goroutine; those that
// wait must not be called in a MessageHandler or in OnPeer, and return runner.ErrInHandler there.
//
// When the connection has ended all methods return why: btl.ErrPeerDead if the peer did not answer
// for Config.Transport.PeerTimeout, btl.ErrPeerClosed if it has closed. Node.Dial connects anew.
type Peer struct {
	link    *Link
	ep      *btl.Endpoint
	address string
	done    chan struct{}
	err     error // valid when done is closed

	// Of the goroutine that drives.
	connected bool                 // OnPeer was told so
	regions   map[*Region]struct{} // that the peer may use
}

// Call has the peer answer a request, by the handler of the method. It returns the answer's body,
// or why there is none: call.ErrMethod, call.ErrBusy, a call.RemoteError with the text of the
// handler's error, the connection's end, or that of ctx. The handler's context has the deadline of
// ctx, and ends with ctx. request is copied; the answer is the caller's.
func (p *Peer) Call(ctx context.Context, method string, request []byte) ([]byte, error) {
	return p.link.calls.CallName(ctx, p.ep, method, request)
}

// Send gives data to the peer's MessageHandler of the tag, and returns when the peer has
// acknowledged it. data is the caller's again, unless ctx has ended and the error says
// runner.ErrInUse. Errors: btl.ErrNoHandler if the peer handles no such tag, ErrTag,
// btl.ErrTooLarge, the connection's end, that of ctx.
func (p *Peer) Send(ctx context.Context, tag btl.Tag, data []byte) error {
	if tag > TagMax {
		return ErrTag
	}
	return p.link.run.Send(ctx, p.ep, tag, data)
}

// Enqueue puts data into the peer's queue, from which its Take gets it, and returns when the
// transport has taken it over. It waits while the queue is full, as long as ctx allows. data is
// copied. Errors: queue.ErrTooLarge, the connection's end, that of ctx.
func (p *Peer) Enqueue(ctx context.Context, data []byte) error {
	return p.link.queue.Send(ctx, p.ep, data)
}

// OpenStream opens a stream of bytes, which the peer gets by Accept. It returns before the peer has
// accepted. Errors are those of conn.Node.Dial.
func (p *Peer) OpenStream(ctx context.Context) (net.Conn, error) {
	c, err := p.link.streams.Dial(ctx, p.ep, "")
	if err != nil {
		return nil, err // And not a nil Conn in an interface.
	}
	return c, nil
}

// Region is memory of this side that a peer may use.
type Region struct {
	peer   *Peer
	region *btl.Region
}

// Expose lets the peer, and no other one, use mem as the rights say, until Close of the Region or
// the end of the connection. Tell it the Handle. Errors: btl.ErrAgain when
// Config.Transport.RegionsMax are exposed, btl.ErrConfig for rights that there are not, the
// connection's end, that of ctx.
func (p *Peer) Expose(ctx context.Context, mem []byte, rights btl.Rights) (*Region, error) {
	r := &Region{peer: p, region: new(btl.Region)}
	var exposed error // Do would wait for ErrAgain to be over.
	err := p.link.run.Do(ctx, func(m *btl.Module) error {
		exposed = p.expose(m, r, mem, rights)
		return nil
	})
	if err = errors.Join(err, exposed); err != nil {
		return nil, err
	}
	return r, nil
}

// expose is Expose for the goroutine that drives.
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

// Handle names the Region to the peer.
func (r *Region) Handle() btl.Handle { return r.region.Handle() }

// Close takes the memory back. When it has returned the peer reads and writes there no more.
func (r *Region) Close(ctx context.Context) error {
	return r.peer.link.run.Do(ctx, func(*btl.Module) error {
		r.close()
		return nil
	})
}

// close is Close for the goroutine that drives.
func (r *Region) close() {
	r.region.Close()
	delete(r.peer.regions, r)
}

// Put writes data into memory that the peer has exposed, from offset on, and returns when it is in
// place. Errors: btl.ErrRemoteAccess, the connection's end, that of ctx, then with runner.ErrInUse.
func (p *Peer) Put(ctx context.Context, target btl.Handle, offset uint64, data []byte) error {
	return p.link.run.Put(ctx, p.ep, data, target, offset)
}

// Get reads memory that the peer has exposed, from offset on, into mem. Errors as of Put; mem may
// hold a part of it then.
func (p *Peer) Get(ctx context.Context, target btl.Handle, offset uint64, mem []byte) error {
	return p.link.run.Get(ctx, p.ep, mem, target, offset)
}

// Address is the peer's address: "192.0.2.1:4000". A peer that has dialled has one with a port of
// its choice.
func (p *Peer) Address() string { return p.address }

// Done is closed when the connection has ended.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err is why the connection has ended, nil while it has not.
func (p *Peer) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Close ends the connection: what was sent is delivered first, then the peer is told. It waits
// until that is done, as long as ctx allows.
func (p *Peer) Close(ctx context.Context) error {
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

// Link is the address of this host by which the peer is connected.
func (p *Peer) Link() *Link { return p.link }

// Endpoint is the connection in package btl. Use it as that package says: in Link().Runner().Do.
func (p *Peer) Endpoint() *btl.Endpoint { return p.ep }

// String is the peer's address.
func (p *Peer) String() string { return p.address }

// end notes the end of the connection: the first reason counts. It is called on the goroutine that
// drives.
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
	p.err = fmt.Errorf("gobtl: peer %s: %w", p.address, err)
	close(p.done)
}
