package conn

import (
	"context"
	"errors"
	"time"

	"gobtl/btl"
)

// An orphan is a Conn that is closed and still has something to send. A peer that grants no credit
// would keep an orphan forever. For this reason, the memory and the time of orphans are limited, as
// those of TCP's orphans are. The peer of an orphan that is dropped gets a reset message.
//
//	Close --+-- everything is sent --------------------------------> removed
//	        +-- no credit in orphanSweeps sweeps, or GoneBytes ----> dropped, reset

// orphan is what the latest sweep has seen of an orphan.
type orphan struct {
	limit uint64 // limit of the Conn
	idle  int    // sweeps since the limit has changed, or since a message was in flight
}

const (
	// orphanTimeMin is the minimum time without new credit after which an orphan is dropped. A peer
	// that reads slowly has this time to read more. The value is that of Linux for TCP's state
	// FIN-WAIT-2.
	orphanTimeMin = time.Minute
	// orphanSweeps is the number of sweeps in that time. The sweeps are counted instead of the time,
	// so that a suspended process that continues does not drop orphans whose new credit it has not
	// read yet.
	orphanSweeps = 4
)

// errOrphan is the error of an orphan that was dropped.
var errOrphan = errors.New("conn: the peer has not let this side send the last bytes")

// adopt limits the memory and the time of a Conn that was closed. While the Node closes, Node.Close
// limits the time, and no bytes are dropped to save memory.
func (n *Node) adopt(c *Conn) {
	if _, known := n.orphans[c]; known || c.gone() {
		return
	}
	n.orphans[c] = orphan{limit: c.limit}
	if !n.sweeping {
		n.sweeping = true
		n.sweepLater()
	}
	if rest := c.buffer.shrink(); rest > 0 && !n.closed {
		n.keep(c, rest)
	}
}

// disown stops the limits of a Conn that is removed.
func (n *Node) disown(c *Conn) {
	if _, known := n.orphans[c]; known {
		delete(n.orphans, c)
		n.gone.Remove(c)
	}
}

// sweepLater starts the timer of the next sweep.
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

// sweep drops the orphans that have got no credit in orphanSweeps sweeps.
func (n *Node) sweep() {
	for c, o := range n.orphans {
		o.idle++
		if c.limit != o.limit || c.inFlight > 0 {
			o = orphan{limit: c.limit}
		}
		n.orphans[c] = o
		if o.idle > orphanSweeps {
			c.reset()
		}
	}
}

// reset drops an orphan, and tells the peer, unless the peer does not know the Conn yet.
func (c *Conn) reset() {
	if c.due&dueOpen == 0 {
		c.n.tellLater(c.ep, head{kind: kindReset, mine: c.mine, id: c.id})
	}
	c.fail(errOrphan)
}

// shrink frees the memory behind the unsent bytes of a buffer that takes no more Writes, and
// returns the number of these bytes.
func (w *writeBuffer) shrink() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := append([]byte(nil), w.buf[w.sent:]...)
	w.drop()
	w.buf = rest
	return len(rest)
}
