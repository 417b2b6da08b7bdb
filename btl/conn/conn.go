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
)

// Conn is a stream of bytes each way: a net.Conn, with half-close.
type Conn struct {
	n *Node
	name
	local, remote Addr

	// This field and all that follow belong to the goroutine that drives the module.
	dialing  *request
	backlog  *Listener // in whose it is
	accepted bool
	closed   bool
	err      error // why it has ended
	due      due
	waits    bool // among the peer's waiting
	incoming
	outgoing
}

// request is a pending call of a Conn or Listener.
type request struct {
	w    runner.Waker
	buf  []byte
	n    int   // bytes of buf that are done
	conn *Conn // of Accept; of Read and Write the one itself

	beginRead, beginWrite func(*btl.Module, runner.Waker) error // the methods, made once
}

// requests pools the requests of ended Reads and Writes.
var requests = sync.Pool{New: func() any {
	q := &request{}
	q.beginRead, q.beginWrite = q.read, q.write
	return q
}}

// request makes the request of a Read or a Write.
func (c *Conn) request(b []byte) *request {
	q := requests.Get().(*request)
	q.conn, q.buf, q.n = c, b, 0
	return q
}

// end pools a request, and returns the results of its call. A failed request is not reused, as a
// Runner that has ended may still refer to it.
func (q *request) end(op string, err error) (int, error) {
	n, c := q.n, q.conn
	if err != nil {
		return n, c.wrap(op, err)
	}
	q.w, q.conn, q.buf = runner.Waker{}, nil, nil
	requests.Put(q)
	return n, nil
}

// Read reads received bytes, and waits until there are some. At the end of the stream, and after
// CloseRead, it returns io.EOF. Other errors, in a net.OpError: os.ErrDeadlineExceeded,
// net.ErrClosed, or, after all bytes received in order, the error that ended the Conn.
func (c *Conn) Read(b []byte) (int, error) {
	q := c.request(b)
	return q.end("read", c.n.r.Await(context.Background(), q.beginRead))
}

// read begins the request of a Read.
func (q *request) read(_ *btl.Module, w runner.Waker) error {
	c := q.conn
	q.w = w
	_ = c.n.flushConns(nil) // It cannot fail.
	c.readers = append(c.readers, q)
	c.serveReaders()
	c.advance()
	return nil
}

// Write writes all of b, which is copied when Write returns; it waits only while the peer has no
// room. A lone Write is sent before it returns. A Write of up to 4 KiB, within 10 us after the
// previous one, is part of a burst: it is buffered and sent together with its neighbours as soon as
// the writing goroutine blocks, another processor is free, 64 KiB are buffered, or a Write finds
// buffered bytes older than 50 us. No Write waits for a timer or an acknowledgement; after
// SetNoDelay(true) each Write is sent before it returns. Errors, in a net.OpError, with the bytes
// that were written before: os.ErrDeadlineExceeded, net.ErrClosed, ErrStopped, or the error that
// ended the Conn.
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

// SetNoDelay with true makes every Write send before it returns, also in a burst. The default is
// false. Unlike TCP's default it never delays a Write by a timer: see Write. Buffered bytes are
// sent at once.
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.do("set", func() {
		c.buffer.mu.Lock()
		defer c.buffer.mu.Unlock()
		c.buffer.direct = noDelay
	})
}

// write begins the request of a Write.
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

// Close closes both directions. Written bytes are sent; unread and future bytes are dropped.
// Pending and later calls return net.ErrClosed.
func (c *Conn) Close() error { return c.do("close", c.close) }

// CloseWrite ends the stream to the peer, which reads all of it, and then io.EOF.
func (c *Conn) CloseWrite() error { return c.do("close", c.closeWrite) }

// CloseRead drops unread and future bytes; the peer's Writes end with ErrStopped.
func (c *Conn) CloseRead() error { return c.do("close", c.closeRead) }

// do runs fn with the module, unless the Conn is closed.
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

// LocalAddr returns the local address, an Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address, an Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.do("set", func() {
		c.rd.set(c, t)
		c.wd.set(c, t)
	})
}

// SetReadDeadline makes Reads, also a pending one, end at t with os.ErrDeadlineExceeded; the zero
// time means no deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.do("set", func() { c.rd.set(c, t) })
}

// SetWriteDeadline is SetReadDeadline for Writes; a Write that times out may have written some of
// its bytes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.do("set", func() { c.wd.set(c, t) })
}

// wrap wraps an error in a net.OpError, as package net does.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}

// close is Close.
func (c *Conn) close() {
	c.closed = true
	c.answered(net.ErrClosed)
	c.rd.stop()
	c.wd.stop()
	c.closeWrite()
	c.closeRead()
	c.advance()
}

// deadline is the deadline of one direction of a Conn.
type deadline struct {
	timer  *time.Timer
	life   uint64 // of the timer that counts
	passed bool
}

// set sets the deadline. Pending calls end if it has passed.
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
		// A Runner that has ended has ended all calls.
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

// pass ends the pending calls, as the deadline has passed.
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
