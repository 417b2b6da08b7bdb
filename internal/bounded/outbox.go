package bounded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ErrUntaken means that a peer does not read the data on its connection fast enough.
var ErrUntaken = errors.New("peer does not read")

// Outbox sends data over one connection from a queue, so that the caller of Put never waits for the
// peer. The goroutine that calls Run writes the data. If the peer does not read the data, Run
// returns, and the method Err then returns the reason. Because each connection has its own Outbox,
// a slow peer does not delay the connections of other peers. The methods of an Outbox are safe for
// concurrent use, except that only one goroutine may call Run.
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

// NewOutbox returns an Outbox for the given connection. After NewOutbox, the caller must not write
// to the connection itself. The argument bytesMax is the largest number of bytes in the queue of
// the Outbox, without the bytes of the Write in progress. The argument "limit" is the time limit
// for one Write to the connection.
func NewOutbox(conn net.Conn, bytesMax int, limit time.Duration) *Outbox {
	o := &Outbox{conn: conn, most: bytesMax, limit: limit}
	o.more.L = &o.lock
	return o
}

// Put queues a copy of the argument "data", and returns at once. If the data does not fit in the
// queue, Put makes Run return, and the result of Err wraps ErrUntaken. After Close, or after Run
// has ended by an error, Put has no effect.
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

// Close makes Run write the queued data and then return. After a call of Close, Run returns at the
// latest after the duration "flush", even if data is still queued.
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

// Err returns the error that has ended Run, or nil if no error has occurred. If the peer does not
// read fast enough, the result of Err wraps ErrUntaken, and otherwise Err returns the error of the
// connection.
func (o *Outbox) Err() error {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.err
}

// Run writes queued data to the connection until Close is called, or until an error occurs. When
// Run has returned, the caller must close the connection, because Run has made further writes on
// the connection impossible.
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

// The method "next" waits for queued data, empties the queue, and returns the data. The method
// "next" returns nil if Close was called and no data is queued.
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

// The method "end" makes Run return because of an error. The caller must hold the lock.
func (o *Outbox) end(err error) {
	if o.err == nil {
		o.err = err
	}
	o.closed, o.queued = true, nil
	_ = o.conn.SetWriteDeadline(time.Unix(1, 0)) // ends a Write of Run
	o.more.Signal()
}
