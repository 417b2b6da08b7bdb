package reliability

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Credits divides a module's receive capacity (posted receive buffers or the socket buffer) among
// its peers. Together, the credits of all peers take at most as many buffer slots as the receive
// capacity has.
//
// The credits of a peer are limited by the credits that the peer has earned by use, by its equal
// share of the receive capacity, and by the free credits. The receive capacity is shared equally
// among the hosts with active peers, and each host's share is shared equally among its active peers
// (hosts.go). A peer gets more than its equal share only if every other peer has either all credits
// that it needs or its own equal share. Credits beyond a peer's equal share must leave an eighth of
// the receive capacity free, for peers that become active later. A peer that has not earned credits
// yet gets at most a quarter of the free credits, and less if there are more than four peers. When
// a peer joins and the equal share of each peer becomes smaller, credits that were already granted
// are not revoked. A peer that has more credits than its equal share gets no new credits until it
// has used up the difference. Even if no credits are free, each peer has one credit, so that no
// peer waits for ever.
//
// A peer's credits expire some time after the latest increase of its credit limit. When a peer's
// credits expire, this peer keeps a few of them, and the pool can grant the rest to other peers. A
// sender gives up its expired credits (Sender.Rest) before the receiver grants these credits to
// other senders. Because credits expire, the receiver regains the credits of idle, slow and dead
// peers without a message from them. The expiry of a peer's credits does not reduce the peer's
// earned credits.
//
//	granted --raised--> end of the list ... front --creditLapse later--> lapsed --Grant--> granted
//
// The pool counts how many slots of the receive buffer the granted credits take. A slot is the part
// of the receive buffer that one full-sized packet takes. A packet counts as less than a slot if it
// is small (small.go), or if the path is so long that most of the granted packets are in transit
// (stretch.go).
type Credits struct {
	capacity      int
	granted       int // places
	peers         int
	lapsed        int // peers whose credits have expired
	lapsedGranted int // buffer slots of the peers with expired credits
	short         int // peers granted less than they need, and less than their share
	hosts
	stretch
	small

	now         mono.Time
	first, last *Receiver // peers with unexpired credits, the longest unraised first
}

const (
	// If a sender's credit limit was not increased for the time creditLease and no packet is in
	// flight, the sender must give up all but a few credits (see restingCredits).
	creditLease = 10 * time.Millisecond
	// creditLapse is how long after the latest increase of a peer's credit limit the receiver
	// considers the peer's credits expired.
	creditLapse = 2 * creditLease
	// If a peer uses less than a quarter of its earned credits in an interval of the length
	// creditPeriod, it loses half of its earned credits, unless its credits have expired.
	creditPeriod = 200 * time.Millisecond
	// spareShare is a divisor. The last capacity/spareShare free buffer slots are never granted to
	// peers that already have their equal shares.
	spareShare = 8
	// lapsedShare is a divisor. All peers with expired credits together keep at most
	// capacity/lapsedShare buffer slots. If peers with expired credits already keep
	// capacity/lapsedShare slots, the next peer whose credits expire keeps one credit, which takes no
	// buffer slot.
	lapsedShare = 32
)

// NewCredits returns a pool of credits for a receive capacity in packets. A capacity below 1 counts
// as 1.
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// At sets the current time of the pool.
func (c *Credits) At(now mono.Time) { c.now = now }

// Join adds a peer to the peers that share the pool. The peer counts as the only peer of its host.
func (c *Credits) Join() { c.peers++ }

// JoinHost adds a peer to the peers that share the pool. All peers with the same name of their host
// together get the share of one host.
func (c *Credits) JoinHost(r *Receiver, name string) {
	c.peers++
	c.settle(r, name)
}

// Leave removes a peer from the peers that share the pool. The caller must call Receiver.Leave
// before.
func (c *Credits) Leave() { c.peers-- }

// Peers returns the number of peers that share the pool.
func (c *Credits) Peers() int { return c.peers }

// Check returns an error for the first invariant of the pool that does not hold, or nil if all of
// them hold.
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
	if err := c.hosts.check(); err != nil {
		return err
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

// Capacity returns the receive capacity in packets, which was given to NewCredits.
func (c *Credits) Capacity() int { return c.capacity }

// Granted returns the total number of buffer slots that the credits of all peers take. The result
// of Granted may exceed Capacity, because a peer gets one credit even if no credits are free.
func (c *Credits) Granted() int { return c.granted }

// Share returns how many buffer slots each host with active peers gets if the receive capacity is
// shared equally.
func (c *Credits) Share() int {
	return max(1, (c.capacity-c.lapsedGranted)/max(1, c.peers-c.lapsed-c.further))
}

// renew replaces a peer's unused credits by a new grant, and returns the number of granted credits.
// The argument "held" of the method "renew" is the number of the peer's previous credits that it
// has not used. The argument "want" of the method "renew" is the largest number of credits to
// grant. The caller must announce exactly the returned number of credits to the peer, because the
// pool does not detect a difference between the announced and the granted credits.
func (c *Credits) renew(r *Receiver, held, want uint32) uint32 {
	before := r.booked
	c.lapse()
	needs := r.lapsed || 2*held <= r.charged // the peer was idle, or has used half of its credits
	c.unbook(r)
	r.lapsed = false
	share, full := c.share(r)
	free := c.capacity - c.granted
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
	if grant == held { // the held credits can take more slots than when they were booked
		booked = min(booked, max(int(before), wants))
	}
	r.short = needs && booked < min(share, places)
	r.wants = grant < want
	if full && grant == 1 {
		booked = 0
	}
	c.book(r, grant, booked)
	return grant
}

// The method "book" records the credits that were granted to a peer, and adds the buffer slots that
// these credits take to the totals of the pool.
func (c *Credits) book(r *Receiver, grant uint32, places int) {
	r.charged, r.booked = grant, uint32(places)
	c.granted += places
	if r.stretched() {
		c.stretched++
	}
	if r.lapsed {
		c.lapsed++
		c.lapsedGranted += places
		c.rests(r)
	} else if r.host != nil {
		r.host.booked += int32(places)
	}
	if r.short {
		c.short++
	}
}

// The method "unbook" subtracts a peer's credits and buffer slots from the totals of the pool.
func (c *Credits) unbook(r *Receiver) {
	c.granted -= int(r.booked)
	if r.stretched() {
		c.stretched--
	}
	if r.lapsed {
		c.lapsed--
		c.lapsedGranted -= int(r.booked)
		c.wakes(r)
	} else if r.host != nil {
		r.host.booked -= int32(r.booked)
	}
	if r.short {
		c.short--
	}
	r.charged, r.booked, r.short = 0, 0, false
}

// The method "raised" records that a peer's credit limit has just been raised, and moves the peer
// to the end of the pool's list of peers with unexpired credits.
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

// The method "lapse" reduces the credits of each peer whose credit limit was not raised for the
// time creditLapse.
func (c *Credits) lapse() {
	for r := c.first; r != nil && c.now.Sub(r.raisedAt) >= creditLapse; r = c.first {
		c.unlist(r)
		keep := restingCredits(r.charged)
		places := min(c.places(r, keep), int(r.booked))
		if c.unbook(r); c.lapsedGranted+places > c.capacity/lapsedShare {
			keep, places = 1, 0
		}
		r.lapsed = true
		c.book(r, keep, places)
	}
}

// restingCredits returns how many of its n credits an idle peer keeps. An idle peer keeps at most
// earnedFirst credits, which is the number of credits that a new peer gets. If an idle peer has n
// credits and n is less than earnedFirst, the peer keeps half of the n credits, but at least two.
func restingCredits(n uint32) uint32 {
	if n >= earnedFirst {
		return earnedFirst
	}
	return max(n-n/2, min(n, 2))
}
