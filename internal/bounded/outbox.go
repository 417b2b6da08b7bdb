package bounded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ErrUntaken means that a peer does not read the data that was sent to it.
var ErrUntaken = errors.New("peer does not read")

// Outbox sends data to one connection without delaying its callers. The goroutine that calls Run
// writes the data. If the peer does not read, Run ends, and no other peer is affected. Any
// goroutine may call the methods of an Outbox, except that only one goroutine may call Run.
type Outbox struct {
	conn  net.Conn
	most  int
	limit time.Duration

	lock   sync.Mutex // guards the fields below
	more   sync.Cond
	queued []byte
	closed bool
	err    error // why Run ends before Close
}

// NewOutbox takes over the writing of a connection. The argument bytesMax of NewOutbox is the
// largest number of queued bytes. A Write of Run may hold the same number of bytes in addition. The
// argument limit of NewOutbox is the longest time for one Write.
func NewOutbox(conn net.Conn, bytesMax int, limit time.Duration) *Outbox {
	o := &Outbox{conn: conn, most: bytesMax, limit: limit}
	o.more.L = &o.lock
	return o
}

// Put queues a copy of data, and returns at once. If there is no room for data, Put ends Run with
// ErrUntaken. After the end of Run, and after Close, Put has no effect.
func (o *Outbox) Put(data []byte) {
	o.lock.Lock()
	defer o.lock.Unlock()
	switch {
	case o.closed:
	case len(o.queued)+len(data) > o.most:
		o.end(fmt.Errorf("%w: %d bytes wait for it", ErrUntaken, len(o.queued)))
	default:
		o.queued = append(o.queued, data...)
		o.more.Signal()
	}
}

// Close lets Run end after Run has written the queued data. Run has the time flush for that data.
func (o *Outbox) Close(flush time.Duration) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	_ = o.conn.SetWriteDeadline(time.Now().Add(flush)) // fails only on a closed connection
	o.more.Signal()
}

// Err returns the reason why Run ended before Close, or nil. If the peer does not read, the error
// wraps ErrUntaken. All other errors are those of the connection.
func (o *Outbox) Err() error {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.err
}

// Run writes the queued data until Close, or until an error. After Run, the caller must close the
// connection, which can no longer be written.
func (o *Outbox) Run() {
	for data := o.next(); data != nil; data = o.next() {
		if _, err := o.conn.Write(data); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = fmt.Errorf("%w: %w", ErrUntaken, err)
			}
			o.lock.Lock()
			o.end(err)
			o.lock.Unlock()
		}
	}
}

// next waits for queued data and returns all of it. After Close, next returns nil as soon as no
// data is queued.
func (o *Outbox) next() []byte {
	o.lock.Lock()
	defer o.lock.Unlock()
	for len(o.queued) == 0 && !o.closed {
		o.more.Wait()
	}
	if len(o.queued) == 0 {
		return nil
	}
	if !o.closed {
		_ = o.conn.SetWriteDeadline(time.Now().Add(o.limit)) // fails only on a closed connection
	}
	data := o.queued
	o.queued = nil
	return data
}

// end ends Run because of an error. The lock is held.
func (o *Outbox) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.closed, o.queued = true, nil
	_ = o.conn.SetWriteDeadline(time.Unix(1, 0)) // ends a Write of Run
	o.more.Signal()
}
