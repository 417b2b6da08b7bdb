package conn

import (
	"context"
	"errors"
	"time"

	"gobtl/btl"
)

// An orphan is a closed Conn that still has messages to send, or whose Dial the peer has not
// answered. Without a time limit, an orphan would exist forever if its peer grants no credit. The
// memory and the lifetime of orphans are limited, like those of TCP's orphaned sockets. When an
// orphan is dropped, its peer gets a reset message.
//
//	Close --+-- everything is sent --------------------------------> removed
//	        +-- no progress for too many sweeps, or GoneBytes -----> dropped, reset

// The type "orphan" is the state of an orphan (a closed Conn with unsent bytes) at the latest sweep
// (check of all orphans).
type orphan struct {
	progress
	idle int // sweeps since the progress has changed
}

// The type "progress" contains those values of a Conn that change when the peer grants credit or
// acknowledges a message, or when a message is sent.
type progress struct {
	limit, off uint64
	inFlight   int
}

func progressOf(c *Conn) progress { return progress{c.limit, c.off, c.inFlight} }

const (
	// If an orphan (a closed Conn with unsent bytes) has no message in flight, and gets no new credit
	// for orphanTimeMin, or for PeerTimeout if that is longer, it is dropped. orphanTimeMin is one
	// minute, like the time-out that Linux uses for TCP's state FIN-WAIT-2.
	orphanTimeMin = time.Minute
	// orphanSweeps is the number of sweeps (checks of all orphans) that an orphan without a message in
	// flight can survive without new credit. The age of an orphan is counted in sweeps instead of
	// time, so that a process that was suspended reads the credits that have arrived in the meantime
	// before it drops orphans.
	orphanSweeps = 4
	// orphanSentSweeps is the number of sweeps that an orphan can survive without progress while the
	// peer has not acknowledged all sent messages. orphanSentSweeps is ten times orphanSweeps, because
	// a message can wait for a long time behind large messages and puts of other senders to the same
	// peer.
	orphanSentSweeps = 10 * orphanSweeps
)

// errOrphan is the error of a closed Conn whose unsent bytes were dropped.
var errOrphan = errors.New("conn: the peer has not let this side send the last bytes")

// The method "adopt" makes a closed Conn an orphan, whose memory and lifetime are limited. A
// closing Node does not limit the memory of orphans (closed Conns with unsent bytes), because
// Node.Close waits only a limited time until their bytes are sent.
func (n *Node) adopt(c *Conn) {
	if _, known := n.orphans[c]; known || c.gone() {
		return
	}
	n.orphans[c] = orphan{progress: progressOf(c)}
	if !n.sweeping {
		n.sweeping = true
		n.sweepLater()
	}
	unanswered := c.mine && !c.accepted
	if rest := c.buffer.shrink(); (rest > 0 || unanswered) && !n.closed {
		n.keep(c, rest)
	}
}

// The method "disown" removes a Conn from the Node's orphans (closed Conns with unsent bytes).
func (n *Node) disown(c *Conn) {
	if _, known := n.orphans[c]; known {
		delete(n.orphans, c)
		n.gone.Remove(c)
	}
}

// sweepLater starts the timer for the next sweep (check of all orphans).
func (n *Node) sweepLater() {
	time.AfterFunc(n.orphanTime/orphanSweeps, func() {
		// Do fails if the Runner and all Conns have ended.
		_ = n.r.Do(context.Background(), func(*btl.Module) error {
			n.sweep()
			if n.sweeping = len(n.orphans) > 0; n.sweeping {
				n.sweepLater()
			}
			return nil
		})
	})
}

// The method "sweep" drops the orphans (closed Conns with unsent bytes) that have made no progress
// during more than orphanSweeps or orphanSentSweeps sweeps.
func (n *Node) sweep() {
	for c, o := range n.orphans {
		o.idle++
		if now := progressOf(c); now != o.progress {
			o = orphan{progress: now}
		}
		n.orphans[c] = o
		most := orphanSweeps
		if c.inFlight > 0 {
			most = orphanSentSweeps
		}
		if o.idle > most {
			c.reset()
		}
	}
}

// reset drops an orphan (a closed Conn), and sends a reset message if the peer already knows the
// Conn. If the peer may not know the Conn yet, because the open message is in flight, the reset
// message is sent when the open message is acknowledged. A reset message that overtakes the open
// message would leave a Conn at the peer that never ends.
func (c *Conn) reset() {
	switch {
	case c.due&dueOpen != 0: // The peer will never know the Conn.
	case c.mine && !c.accepted && c.inFlight > 0:
		c.resets = true
	default:
		c.tellReset()
	}
	c.fail(errOrphan)
}

// tellReset sends the reset message of a Conn.
func (c *Conn) tellReset() {
	c.n.tellLater(c.ep, head{kind: kindReset, mine: c.mine, id: c.id})
	c.n.forget(c.ep)
}

// shrink moves the unsent bytes of a closed Conn to a block of exactly their size, and returns
// their number.
func (w *writeBuffer) shrink() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := append([]byte(nil), w.buf[w.sent:]...)
	w.drop()
	w.buf = rest
	w.count()
	return len(rest)
}
