package conn

import (
	"context"
	"time"

	"gobtl/btl"
)

// Reach connects to the first of several addresses that answers, as DialContext does for a name.
func (n *Node) Reach(ctx context.Context, addresses ...string) (*btl.Endpoint, error) {
	return n.reach(ctx, addresses)
}

// Held is the memory that Conns which have ended hold, and how many Conns are in the backlog of a
// service.
func (n *Node) Held(service string) (bytes int64, backlog int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		bytes = n.gone.Bytes()
		if l := n.listeners[service]; l != nil {
			backlog = l.backlog.Waiting()
		}
		return nil
	})
	return bytes, backlog
}

// EndedAddresses is how many peer addresses have ended Conns with unread bytes.
func (n *Node) EndedAddresses() (count int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = len(n.goneOf)
		return nil
	})
	return count
}

// Unsent is how many bytes of small Writes are not sent yet.
func (c *Conn) Unsent() int { return len(c.buffer.unsent()) }

// WriteInBurst writes like a Write that follows another at once, whatever the clock says, and
// returns whether the bytes were buffered.
func (c *Conn) WriteInBurst(b []byte) bool {
	now := sinceStart()
	c.buffer.mu.Lock()
	c.buffer.latest, c.buffer.oldest = now, now
	c.buffer.mu.Unlock()
	taken, first := c.buffer.take(b, now)
	if first {
		c.n.flushSoon(c)
	}
	return taken
}

// Buffers says whether a Conn has memory for small Writes.
func (c *Conn) Buffers() bool {
	c.buffer.mu.Lock()
	defer c.buffer.mu.Unlock()
	return c.buffer.buf != nil
}

// BufferBytes is the memory of a Conn's buffer for small Writes.
func (c *Conn) BufferBytes() int {
	c.buffer.mu.Lock()
	defer c.buffer.mu.Unlock()
	return cap(c.buffer.buf)
}

// SetOrphanTime sets the time without credit after which a closed Conn is dropped.
func (n *Node) SetOrphanTime(d time.Duration) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		n.orphanTime = d
		return nil
	})
}

// SetCloseMost sets the time for which Close waits for peers that accept few bytes at a time.
func (n *Node) SetCloseMost(d time.Duration) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		n.closeMost = d
		return nil
	})
}

// SetDialMost sets the time for which Dial tries again if its context has no deadline.
func (n *Node) SetDialMost(d time.Duration) { n.dialMost = d }

// Dialed is how many Conns this side has begun to dial.
func (n *Node) Dialed() (count uint32) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = n.lastID
		return nil
	})
	return count
}

// DialPause is the pause after a number of attempts of Dial.
func DialPause(tries int, random uint64) time.Duration { return dialPause(tries, random) }

// SetUnsentMost sets the maximum memory of all write buffers.
func (n *Node) SetUnsentMost(bytes int64) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		n.unsent.most = bytes
		return nil
	})
}

// UnsentMemory returns the memory of all write buffers, as the Node counts it.
func (n *Node) UnsentMemory() int64 { return n.unsent.bytes.Load() }

// Sweep looks once at the closed Conns, and returns how many are left.
func (n *Node) Sweep() (left int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		n.sweep()
		left = len(n.orphans)
		return nil
	})
	return left
}

// Window is how many bytes a Conn keeps unread.
func (c *Conn) Window() (bytes int) {
	_ = c.n.r.Do(context.Background(), func(*btl.Module) error {
		bytes = int(c.window)
		return nil
	})
	return bytes
}

// Received says whether all bytes of a peer's Conn have come up to an offset, or it has ended.
func (n *Node) Received(to uint64, id uint32) (all bool) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		all = true
		for name, c := range n.conns {
			if !name.mine && name.id == id {
				all = c.next >= to
			}
		}
		return nil
	})
	return all
}

// Lent is the largest number of messages that were in flight from the memory of Writes since the
// latest call of Lent. No Write may be pending.
func (n *Node) Lent() (count int) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		count = len(n.lents)
		n.lents = nil
		return nil
	})
	return count
}

// WriteAll begins a Write on each of several Conns of a Node before any of them can send, and waits
// for none of them.
func WriteAll(conns []*Conn, all [][]byte) error {
	n := conns[0].n
	return n.r.Do(context.Background(), func(*btl.Module) error {
		for i, c := range conns {
			c.writers = append(c.writers, &request{conn: c, buf: all[i]})
		}
		for _, c := range conns {
			c.advance()
		}
		return nil
	})
}

// Total is the memory that the Conns which have not ended hold, and the sum over these Conns.
func (n *Node) Total() (bytes, sum int64) {
	_ = n.r.Do(context.Background(), func(*btl.Module) error {
		bytes = n.held
		for _, c := range n.conns {
			sum += int64(len(c.ring) + c.copiedBytes())
		}
		return nil
	})
	return bytes, sum
}

// copiedBytes is the maximum memory of a Conn's copies.
func (c *Conn) copiedBytes() (sum int) {
	for _, s := range c.early {
		for m := s.copies.first; m != nil; m = m.next {
			sum += costOf(cap(m.data))
		}
	}
	return sum
}

// OrphanSentSweeps is orphanSentSweeps, for tests.
const OrphanSentSweeps = orphanSentSweeps

// InFlight is how many messages of a Conn the peer has not acknowledged.
func (c *Conn) InFlight() (count int) {
	_ = c.n.r.Do(context.Background(), func(*btl.Module) error {
		count = c.inFlight
		return nil
	})
	return count
}
