package reliability

import "fmt"

// Credits shares out what a module's endpoints can hold unread (posted receives, socket buffer)
// among its peers, so that all of them together cannot overrun it. A default socket buffer holds 92
// full-size datagrams, a window 4096: without credits one sender overruns it at once.
//
// Each peer is granted what it has earned by use, at most an equal share, and at most what is free;
// one that has earned nothing yet, at most a quarter of what is free, so that idle peers, however
// many, leave the most of it to those that work. A share that shrinks (another peer joined) takes
// back nothing: the peer's limit stands still until it has used up the difference. A peer that
// finds the pool empty is granted single packets, so that none ever waits for nothing; one for each
// peer is kept back for that.
type Credits struct {
	capacity int
	granted  int
	peers    int
	bare     int // peers that hold nothing yet: a packet is kept for each of them
}

// NewCredits returns a pool of capacity packets (at least 1).
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// Join and Leave count the peers that share the pool.
func (c *Credits) Join() {
	c.peers++
	c.bare++
}

// Leave undoes a Join.
func (c *Credits) Leave() { c.peers-- }

// Peers is the number of peers that share the pool.
func (c *Credits) Peers() int { return c.peers }

// Check reports the first broken invariant: the bound on what is granted.
func (c *Credits) Check() error {
	if c.peers < 0 || c.granted < 0 || c.granted > c.capacity+c.peers {
		return fmt.Errorf("reliability: %d credits of %d granted to %d peers", c.granted, c.capacity,
			c.peers)
	}
	return nil
}

// Capacity is the number of packets given to NewCredits.
func (c *Credits) Capacity() int { return c.capacity }

// Granted is what all peers together may send now: above Capacity only by the single packets of
// peers that found the pool empty.
func (c *Credits) Granted() int { return c.granted }

// Share is the equal share of a peer.
func (c *Credits) Share() int { return max(1, c.capacity/max(1, c.peers)) }

// renew replaces a peer's booking of charged packets, of which it still holds held, by a new one of
// at most want packets, which the peer has earned or is given to begin with: what is booked is what
// the peer is told, or the pool would leak.
func (c *Credits) renew(charged, held, want uint32, earned bool) uint32 {
	if charged == 0 {
		c.bare = max(c.bare-1, 0)
	}
	others := c.granted - int(charged)
	free := c.capacity - others - c.bare
	if !earned {
		free = (free + 3) / 4
	}
	grant := max(min(c.Share(), free, int(want)), int(held), 1)
	grant = min(grant, 1<<16-1)
	c.granted = others + grant
	return uint32(grant)
}
