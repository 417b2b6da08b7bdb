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

	// Of who drives the module, as all that follows.
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

// request is a call that waits.
type request struct {
	w    runner.Waker
	buf  []byte
	n    int   // bytes of buf that are done
	conn *Conn // of Accept; of Read and Write the one itself

	beginRead, beginWrite func(*btl.Module, runner.Waker) error // the methods, made once
}

// requests are those of Reads and Writes that have ended.
var requests = sync.Pool{New: func() any {
	q := &request{}
	q.beginRead, q.beginWrite = q.read, q.write
	return q
}}

// request makes a Read or a Write.
func (c *Conn) request(b []byte) *request {
	q := requests.Get().(*request)
	q.conn, q.buf, q.n = c, b, 0
	return q
}

// end gives a request back, and returns what its call does. One that has failed may be known to a
// Runner that has ended, so it is not used again.
func (q *request) end(op string, err error) (int, error) {
	n, c := q.n, q.conn
	if err != nil {
		return n, c.wrap(op, err)
	}
	q.w, q.conn, q.buf = runner.Waker{}, nil, nil
	requests.Put(q)
	return n, nil
}

// Read reads what has come, and waits until that is something. At the end of the stream it is
// io.EOF, after CloseRead, too. Other errors, in a net.OpError: os.ErrDeadlineExceeded,
// net.ErrClosed, or why the Conn has ended, after all that has come whole.
func (c *Conn) Read(b []byte) (int, error) {
	q := c.request(b)
	return q.end("read", c.n.r.Await(context.Background(), q.beginRead))
}

// read begins a Read.
func (q *request) read(_ *btl.Module, w runner.Waker) error {
	c := q.conn
	q.w = w
	_ = c.n.flushConns(nil) // It cannot fail.
	c.readers = append(c.readers, q)
	c.serveReaders()
	c.advance()
	return nil
}

// Write writes all of b, which is copied when it returns: only that the peer has no room for more
// makes it wait. A Write that stands alone is sent before it returns. One of up to 4 KiB that
// comes within 10 us after the one before is part of a burst: it is sent together with those
// around it, as soon as the goroutine that writes waits for something, another processor is free,
// 64 KiB have come together, or a Write finds bytes that are 50 us old. None waits for a timer or
// for an acknowledgement; SetNoDelay(true) has each one sent before it returns. Errors, in a
// net.OpError, with the bytes that were written before: os.ErrDeadlineExceeded, net.ErrClosed,
// ErrStopped, or why the Conn has ended.
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

// SetNoDelay with true has every Write sent before it returns, also in a burst. False is the
// default, which makes no Write wait, unlike TCP's: see Write. What was written before is sent at
// once.
func (c *Conn) SetNoDelay(noDelay bool) error {
	return c.do("set", func() {
		c.buffer.mu.Lock()
		defer c.buffer.mu.Unlock()
		c.buffer.direct = noDelay
	})
}

// write begins a Write.
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

// Close closes both directions. What was written is sent; what was not read is dropped, and what
// comes. Calls that wait end with net.ErrClosed, and so do those that come.
func (c *Conn) Close() error { return c.do("close", c.close) }

// CloseWrite ends the stream to the other side, which reads all of it, and then io.EOF.
func (c *Conn) CloseWrite() error { return c.do("close", c.closeWrite) }

// CloseRead drops what has come and what comes; the other side's Writes end with ErrStopped.
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

// LocalAddr is an Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is an Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.do("set", func() {
		c.rd.set(c, t)
		c.wd.set(c, t)
	})
}

// SetReadDeadline has Reads end at t with os.ErrDeadlineExceeded, also the one that waits; the
// zero time is never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.do("set", func() { c.rd.set(c, t) })
}

// SetWriteDeadline is that of Writes, some of whose bytes may be written then.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.do("set", func() { c.wd.set(c, t) })
}

// wrap is an error as those of the package net look.
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

// deadline is one of a direction.
type deadline struct {
	timer  *time.Timer
	life   uint64 // of the timer that counts
	passed bool
}

// set sets the deadline. What waits ends if it has passed.
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

// pass ends what waits.
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
