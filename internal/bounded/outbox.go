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
// writes the data. If the peer does not read the data, Run returns, and other peers are not
// affected. Any goroutine may call the methods of an Outbox, but Run may be called by one goroutine
// only.
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

// NewOutbox returns an Outbox that writes to the given connection, to which the caller must not
// write any more. The argument bytesMax of NewOutbox is the largest number of queued bytes. The
// Write that is in progress may hold the same number of bytes in addition. The argument limit of
// NewOutbox is the longest time for one Write.
func NewOutbox(conn net.Conn, bytesMax int, limit time.Duration) *Outbox {
	o := &Outbox{conn: conn, most: bytesMax, limit: limit}
	o.more.L = &o.lock
	return o
}

// Put queues a copy of data, and returns at once. If data does not fit in the queue, Put makes Run
// return, and Err then returns ErrUntaken. When Run has returned, or Close was called, Put has no
// effect.
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

// Close makes Run return when it has written the queued data, or when the time flush has passed.
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

// Err returns the reason why Run has returned although Close was not called, or nil. If the peer
// does not read, the error wraps ErrUntaken. All other errors are errors of the connection.
func (o *Outbox) Err() error {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.err
}

// Run writes queued data to the connection until Close is called, or until an error occurs. After
// Run, the caller must close the connection, because nothing more can be written to it.
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

// The method next waits for queued data, and returns all of it. When Close was called and no data
// is queued, next returns nil.
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

// The method end makes Run return because of an error. The caller must hold the lock.
func (o *Outbox) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.closed, o.queued = true, nil
	_ = o.conn.SetWriteDeadline(time.Unix(1, 0)) // ends a Write of Run
	o.more.Signal()
}
