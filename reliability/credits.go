package reliability

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Credits shares a module's receive capacity (posted receives or the socket buffer) among
// its peers. The flow-control credits of all peers together do not exceed the receive
// capacity.
//
// A peer is granted at most the credits that it has earned by use, at most an equal share of the
// capacity among the active peers, and at most the free credits. A peer gets more than its equal
// share only if no other peer waits for a part of its own equal share and an eighth of the capacity
// stays free. The free eighth of the receive capacity is for peers that become active later. A peer
// that has earned no credits is granted at most a quarter of the free credits, and less if there
// are many peers. If an equal share shrinks because another peer joined, granted credits are not
// revoked. If a peer has more credits than its equal share, the peer is granted no new credits
// until it has used up the difference. If no credits are free, a peer is granted single packets, so
// that no peer waits for ever.
//
// Credits expire some time after the latest increase of the peer's credit limit. When a peer's
// credits have expired, the pool counts no more than a few credits for the peer. The peer gives up
// its expired credits earlier than the pool stops counting them (Sender.Rest). Idle, slow and dead
// peers thus return their credits without any message. A peer that becomes active again after a
// pause keeps its earned credits.
//
//	granted --raised--> end of the list ... front --creditLapse later--> lapsed --Grant--> granted
//
// The pool counts slots of the receive buffer. A slot of the receive buffer has room for one full
// packet. A packet is counted as less than a slot if the packet is small (small.go), or if the
// path is long and most of the granted packets are in transit (stretch.go).
type Credits struct {
	capacity      int
	granted       int // places
	peers         int
	lapsed        int // peers whose credits have expired
	lapsedGranted int // buffer slots of the peers with expired credits
	short         int // peers granted less than they need, and less than their share
	stretch
	small

	now         mono.Time
	first, last *Receiver // peers with valid credits, the longest unraised first
}

const (
	// creditLease is the time, counted from the latest increase of its credit limit, after which a
	// sender with no packet in flight must give up all but a few of its credits (see
	// restingCredits).
	creditLease = 10 * time.Millisecond
	// creditLapse is the time, counted from the latest increase of a peer's credit limit, after
	// which the peer's credits expire at the receiver.
	creditLapse = 2 * creditLease
	// creditPeriod is the time in which a peer must use a quarter of its earned credits. A peer
	// that does not use a quarter of its earned credits in creditPeriod loses half of them.
	creditPeriod = 200 * time.Millisecond
	// spareShare is the divisor for the part of the receive capacity that is never granted beyond
	// equal shares.
	spareShare = 8
	// lapsedShare is the divisor for the part of the receive capacity that the peers with expired
	// credits hold together. Each peer with expired credits may hold one packet more, in addition
	// to the receive capacity divided by lapsedShare.
	lapsedShare = 32
)

// NewCredits returns a pool for a receive capacity of the given number of packets, at least 1.
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// At sets the current time of the pool.
func (c *Credits) At(now mono.Time) { c.now = now }

// Join adds a peer to those that share the pool.
func (c *Credits) Join() { c.peers++ }

// Leave removes a peer from those that share the pool.
func (c *Credits) Leave() { c.peers-- }

// Peers is the number of peers that share the pool.
func (c *Credits) Peers() int { return c.peers }

// Check returns an error for the first invariant of the pool that does not hold.
func (c *Credits) Check() error {
	if c.peers < 0 || c.granted < 0 || c.granted > c.capacity+c.peers {
		return fmt.Errorf("reliability: %d credits of %d granted to %d peers", c.granted, c.capacity,
			c.peers)
	}
	if c.lapsed < 0 || c.lapsed > c.peers || c.lapsedGranted < 0 || c.lapsedGranted > c.granted ||
		c.short < 0 || c.short > c.peers {
		return fmt.Errorf("reliability: of %d peers %d have let go of credits and hold %d of %d, %d lack",
			c.peers, c.lapsed, c.lapsedGranted, c.granted, c.short)
	}
	count := 0
	var before *Receiver
	for r := c.first; r != nil && count <= c.peers; r = r.later {
		if count++; r.earlier != before || r.departed || before != nil && r.raisedAt < before.raisedAt {
			return fmt.Errorf("reliability: credits raised at %d are out of turn", r.raisedAt)
		}
		before = r
	}
	if c.last != before || count > c.peers {
		return fmt.Errorf("reliability: %d of %d peers have credits that can lapse", count, c.peers)
	}
	return nil
}

// Capacity is the number of packets given to NewCredits.
func (c *Credits) Capacity() int { return c.capacity }

// Granted is the number of buffer slots that are granted to all peers together. Granted can exceed
// Capacity only because a peer is granted a single packet when no credits are free.
func (c *Credits) Granted() int { return c.granted }

// Share is the equal share of an active peer, in buffer slots.
func (c *Credits) Share() int {
	return max(1, (c.capacity-c.lapsedGranted)/max(1, c.peers-c.lapsed))
}

// renew replaces the credits of a peer by new credits, and returns the number of new credits. The
// argument held of renew is the number of unused old credits. The argument want of renew is the
// upper limit of the new credits. The pool must count exactly the credits that the peer is told,
// because the pool could never recover a difference.
func (c *Credits) renew(r *Receiver, held, want uint32) uint32 {
	before := r.booked
	c.lapse()
	needs := r.lapsed || 2*held <= r.charged // the peer was idle, or has used half of its credits
	c.unbook(r)
	r.lapsed = false
	share, free := c.Share(), c.capacity-c.granted
	most := share
	if c.short == 0 {
		most = max(most, free-c.capacity/spareShare)
	}
	if r.earned <= earnedFirst {
		n := max(c.peers, 4)
		most = min(share, (free+n-1)/n)
	}
	places := c.places(r, want)
	wants := max(min(most, free, places), 1)
	grant := min(max(min(c.packets(r, wants), want), held, 1), 1<<16-1)
	booked := c.places(r, grant)
	if grant == held { // the held credits may take more places now than when they were booked
		booked = min(booked, max(int(before), wants))
	}
	r.short = needs && booked < min(share, places)
	r.wants = grant < want
	c.book(r, grant, booked)
	return grant
}

// The method book records the credits granted to a peer, and the slots of the receive buffer that
// the credits take.
func (c *Credits) book(r *Receiver, grant uint32, places int) {
	r.charged, r.booked = grant, uint32(places)
	c.granted += places
	if grant > r.booked {
		c.stretched++
	}
	if r.lapsed {
		c.lapsed++
		c.lapsedGranted += places
	}
	if r.short {
		c.short++
	}
}

// The method unbook undoes the latest call of the method book for a peer.
func (c *Credits) unbook(r *Receiver) {
	c.granted -= int(r.booked)
	if r.charged > r.booked {
		c.stretched--
	}
	if r.lapsed {
		c.lapsed--
		c.lapsedGranted -= int(r.booked)
	}
	if r.short {
		c.short--
	}
	r.charged, r.booked, r.short = 0, 0, false
}

// raised moves a peer whose credit limit has just been raised to the end of the list of peers
// with credits.
func (c *Credits) raised(r *Receiver) {
	if c.last != r {
		c.unlist(r)
		r.listed, r.earlier = true, c.last
		if c.last == nil {
			c.first = r
		} else {
			c.last.later = r
		}
		c.last = r
	}
	r.raisedAt = c.now
}

func (c *Credits) unlist(r *Receiver) {
	if !r.listed {
		return
	}
	if r.earlier == nil {
		c.first = r.later
	} else {
		r.earlier.later = r.later
	}
	if r.later == nil {
		c.last = r.earlier
	} else {
		r.later.earlier = r.earlier
	}
	r.listed, r.earlier, r.later = false, nil, nil
}

// The method lapse revokes the credits of peers whose credit limit was not raised for the time
// creditLapse.
func (c *Credits) lapse() {
	for r := c.first; r != nil && c.now.Sub(r.raisedAt) >= creditLapse; r = c.first {
		c.unlist(r)
		keep := restingCredits(r.charged)
		before := int(r.booked)
		if c.unbook(r); c.lapsedGranted+c.places(r, keep) > c.capacity/lapsedShare {
			keep = 1
		}
		r.lapsed = true
		c.book(r, keep, min(c.places(r, keep), before))
	}
}

// restingCredits returns how many of n credits an idle peer keeps. An idle peer keeps the number of
// credits that every new peer gets. If n is less than the number of credits that every new peer
// gets, an idle peer keeps half of n, but at least two credits.
func restingCredits(n uint32) uint32 {
	if n >= earnedFirst {
		return earnedFirst
	}
	return max(n-n/2, min(n, 2))
}
