package reliability

import "fmt"

// Credits shares out what a module's endpoints can hold unread (posted receives, socket buffer)
// among its peers, so that all of them together cannot overrun it. A default socket buffer holds 92
// full-size datagrams, a window 4096: without credits one sender overruns it at once.
//
// Each peer is granted what it has earned by use, at most an equal share, and at most what is free;
// one that has earned nothing yet, at most a quarter of what is free, of many peers less, so that
// idle ones leave something to those that work, and to those to come. A share that shrinks (another
// peer joined) takes back nothing: the peer's limit stands still until it has used up the
// difference. A peer that finds the pool empty is granted single packets, so that none ever waits
// for nothing.
type Credits struct {
	capacity int
	granted  int
	peers    int
}

// NewCredits returns a pool of capacity packets (at least 1).
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// Join and Leave count the peers that share the pool.
func (c *Credits) Join() { c.peers++ }

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
	others := c.granted - int(charged)
	free := c.capacity - others
	if !earned {
		n := max(c.peers, 4)
		free = (free + n - 1) / n
	}
	grant := max(min(c.Share(), free, int(want)), int(held), 1)
	grant = min(grant, 1<<16-1)
	c.granted = others + grant
	return uint32(grant)
}
