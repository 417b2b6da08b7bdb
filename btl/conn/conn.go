package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/internal/byhost"
)

// Conn is a bidirectional byte stream. A Conn implements net.Conn, and supports half-close.
type Conn struct {
	n *Node
	name
	local, remote Addr
	host          *host

	// Only the goroutine that drives the module may use the field "dialing" of a Conn and the fields
	// after it.
	dialing  *request
	backlog  *Listener             // the Listener whose backlog holds the Conn
	place    *byhost.Member[*Conn] // in the backlog, or nil
	accepted bool
	closed   bool
	inGoneOf bool  // the Conn counts in Node.goneOf
	err      error // why it has ended
	due      due
	peer     *peer
	at       int   // index in peer.conns
	waits    bool  // the Conn is in peer.waiting
	behind   *Conn // the next Conn in peer.waiting
	incoming
	outgoing
}

// The type "request" is a pending call of Dial, Read, Write or Accept.
type request struct {
	w    runner.Waker
	buf  []byte
	n    int   // bytes of buf that are read or written
	lent int   // messages in flight that the transport reads from buf
	over bool  // nothing more of buf will be sent; the Write ends when lent is 0
	err  error // result of the Write, if over
	conn *Conn // the Conn of Read or Write, or the result of Accept

	beginRead, beginWrite func(*btl.Module, runner.Waker) error // the methods, made once
}

var requests = sync.Pool{New: func() any {
	q := &request{}
	q.beginRead, q.beginWrite = q.read, q.write
	return q
}}

// The method "request" creates the request object of a Read or Write.
func (c *Conn) request(b []byte) *request {
	q := requests.Get().(*request)
	q.conn, q.buf, q.n = c, b, 0
	return q
}

// The method "end" returns the results of a Read or Write, and puts a successful request back into
// the pool.
func (q *request) end(op string, err error) (int, error) {
	n, c := q.n, q.conn
	if err != nil {
		return n, c.wrap(op, err)
	}
	q.w, q.conn, q.buf, q.over = runner.Waker{}, nil, nil, false
	requests.Put(q)
	return n, nil
}

// Read reads received bytes, and waits until at least one byte has arrived. Read returns io.EOF at
// the end of the stream, and after CloseRead. All errors of Read except io.EOF are wrapped in a
// net.OpError, and are os.ErrDeadlineExceeded, net.ErrClosed, or the error that ended the Conn.
// Read returns the error that ended the Conn only when all bytes that were received without a gap
// have been read.
func (c *Conn) Read(b []byte) (int, error) {
	q := c.request(b)
	return q.end("read", c.n.r.Await(context.Background(), q.beginRead))
}

// The method "read" begins a Read on the goroutine that drives the module.
func (q *request) read(_ *btl.Module, w runner.Waker) error {
	c := q.conn
	q.w = w
	_ = c.n.flushConns(nil) // flushConns cannot fail.
	c.readers = append(c.readers, q)
	c.serveReaders()
	c.advance()
	return nil
}

// Write writes all of b, and the caller is free to change b after Write has returned. Write waits
// while the peer's window has no room for more bytes. Over a network with datagrams of about 64
// KiB, if the Conn has no write deadline, a Write of more than 320 KiB copies only its last 256 to
// 320 KiB. A Write that does not copy all bytes waits until the peer's transport has acknowledged
// the bytes that were not copied. Even if Close or a new deadline ends a Write early, the Write
// returns only when the bytes that were not copied are acknowledged, or when the peer counts as
// dead (btl.Config.PeerTimeout).
//
// A Write that is not part of a burst sends its bytes before it returns. A Write of at most 4 KiB
// that begins within 10 us after the end of the previous Write is part of a burst, and its bytes
// are buffered. The buffered bytes are sent when the writing goroutine blocks, when another CPU is
// idle, when 64 KiB are buffered, or at a Write that begins more than 50 us after the first
// buffered Write. Buffered bytes never wait for a timer or an acknowledgement. After
// SetNoDelay(true), each Write sends its bytes before it returns.
//
// Even if Write returns an error, it returns the number of bytes written. The errors of Write,
// wrapped in a net.OpError, are os.ErrDeadlineExceeded, net.ErrClosed, ErrStopped, and the error
// that ended the Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.n.r != nil {
		if taken, first := c.buffer.take(b, sinceStart()); taken {
			if first {
				c.n.flushSoon(c)
			}
			return len(b), nil
		}
		defer c.buffer.ended()
	}
	q := c.request(b)
	return q.end("write", c.n.r.Await(context.Background(), q.beginWrite))
}

// SetNoDelay selects whether every Write sends its bytes before it returns, even in a burst. The
// default is SetNoDelay(false), which buffers the Writes of a burst, but unlike Nagle's algorithm
// never waits for a timer or an acknowledgement (see Write). SetNoDelay immediately sends the bytes
// that are buffered.
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.do("set", func() {
		c.buffer.mu.Lock()
		defer c.buffer.mu.Unlock()
		c.buffer.direct = noDelay
	})
}

// The method "write" begins a Write on the goroutine that drives the module.
func (q *request) write(_ *btl.Module, w runner.Waker) error {
	c := q.conn
	q.w = w
	if err := c.mayWrite(); err != nil || len(q.buf) == 0 {
		w.Wake(err)
		return nil
	}
	c.writers = append(c.writers, q)
	c.advance()
	return nil
}

// Close closes both directions, but does not wait. After Close, the bytes of all earlier Writes are
// still sent, and all unread bytes are dropped. After Close, pending and later calls of the Conn
// return net.ErrClosed.
//
// After Close, the Node drops unsent bytes if the peer's window stays full for one minute, or for
// btl.Config.PeerTimeout if that is longer. While sent bytes of a closed Conn are unacknowledged,
// the Node drops unsent bytes only after ten minutes (or ten times btl.Config.PeerTimeout if that
// is longer) without an acknowledgement or a larger window. After Close, the Node also drops unsent
// bytes if closed Conns with unsent bytes need more memory than Config.GoneBytes permits. If bytes
// were dropped, the peer's Reads return the bytes that have arrived, and then ErrReset instead of
// io.EOF.
func (c *Conn) Close() error { return c.do("close", c.close) }

// CloseWrite ends the stream to the peer. The peer's Reads return all bytes written before
// CloseWrite, and then io.EOF.
func (c *Conn) CloseWrite() error { return c.do("close", c.closeWrite) }

// CloseRead drops the unread bytes and all bytes that arrive later. After CloseRead, the peer's
// Writes return ErrStopped.
func (c *Conn) CloseRead() error { return c.do("close", c.closeRead) }

// The method "do" runs the function fn with exclusive use of the module, or returns net.ErrClosed
// if the Conn is closed.
func (c *Conn) do(op string, fn func()) error {
	return c.wrap(op, c.n.r.Do(context.Background(), func(*btl.Module) error {
		if c.closed {
			return net.ErrClosed
		}
		fn()
		c.advance()
		return nil
	}))
}

// LocalAddr returns the local address, whose type is Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address, whose type is Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both the read deadline and the write deadline of a Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.do("set", func() {
		c.rd.set(c, t)
		c.wd.set(c, t)
	})
}

// SetReadDeadline makes pending and later Reads return os.ErrDeadlineExceeded at time t. The zero
// time means no deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.do("set", func() { c.rd.set(c, t) })
}

// SetWriteDeadline makes pending and later Writes return os.ErrDeadlineExceeded at time t. A Write
// that times out might have written some of its bytes. The zero time means no deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.do("set", func() { c.wd.set(c, t) })
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}

// The method "close" performs Close on the goroutine that drives the module.
func (c *Conn) close() {
	c.closed = true
	c.answered(net.ErrClosed)
	c.rd.stop()
	c.wd.stop()
	c.closeWrite()
	c.closeRead()
	c.advance()
	c.n.adopt(c)
}

type deadline struct {
	timer  *time.Timer
	life   uint64 // changes with each timer, so that earlier timers have no effect
	passed bool
}

// The method "set" sets the deadline. If the deadline has already passed, the pending Reads or
// Writes end with os.ErrDeadlineExceeded.
func (d *deadline) set(c *Conn, t time.Time) {
	defer c.shutWrites()
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.pass(c)
		return
	}
	life := d.life
	d.timer = time.AfterFunc(left, func() {
		_ = c.n.r.Do(context.Background(), func(*btl.Module) error {
			if d.life == life {
				d.pass(c)
			}
			return nil
		})
	})
}

func (d *deadline) stop() {
	d.life++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// The method "pass" ends the pending Reads or Writes of a Conn when their deadline has passed.
func (d *deadline) pass(c *Conn) {
	d.passed = true
	c.shutWrites()
	if c.rd.passed {
		c.serveReaders()
	}
	if c.wd.passed {
		c.endWriters(os.ErrDeadlineExceeded)
	}
}
