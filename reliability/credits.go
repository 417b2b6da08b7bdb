package reliability

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Credits shares a module's receive capacity (posted receives, socket buffer) among its peers, so
// that all of them together cannot overrun it. A default socket buffer holds 92 full-size
// datagrams, a window 4096: without credits one sender overruns it at once.
//
// Each peer is granted the credits that it has earned by use, at most an equal share among active
// peers, and at most the free ones. It gets more while no other peer lacks part of its share, as
// long as an eighth of the pool stays free: of many peers that start at once, the first must not
// take the others' share. A peer that has earned nothing yet is granted at most a quarter of the
// free credits, with many peers less, so that idle peers leave credits to active and future ones.
// If a share shrinks (another peer joined), no credits are taken back: the peer's limit stands
// still until it has used up the difference. A peer that finds the pool empty is granted single
// packets, so that it never waits for ever.
//
// Credits lapse: after a while without a raised limit the pool counts next to none for the peer,
// which, if alive, has given the rest up itself by then (Sender.Rest). So idle, slow and dead peers
// keep no credits from others, without any message. A peer that becomes active again keeps its
// earned share.
//
//	granted --raised--> end of the list ... front --creditLapse later--> lapsed --Grant--> granted
//
// Packets on a long path do not occupy the buffer yet: see stretch.go; small packets need little
// room: see small.go. So the pool is counted in places, of which a packet takes one or less.
type Credits struct {
	capacity      int
	granted       int // places
	peers         int
	lapsed        int // peers whose credits have lapsed
	lapsedGranted int // and the places that are booked for them
	short         int // peers that were granted less than they need, and than their share
	stretch
	small

	now         mono.Time
	first, last *Receiver // whose credits have not lapsed, the one that was raised longest ago first
}

const (
	// creditLease is how long, after its limit was last raised, a sender with nothing in flight may
	// use more than its resting credits: it covers the pauses of an active sender, and is as long
	// as others can wait.
	creditLease = 10 * time.Millisecond
	// creditLapse is the time after which credits lapse at the receiver. By then the ACK that
	// raised them, and the packets sent with them, have arrived, unless the path is long and holds
	// much more than any socket buffer.
	creditLapse = 2 * creditLease
	// creditPeriod is the time in which a peer must use a quarter of its earned credits, or half of
	// them are taken away. A full window over the longest paths takes little longer.
	creditPeriod = 200 * time.Millisecond
	// spareShare is the divisor for the part of the pool that is never granted beyond equal shares.
	spareShare = 8
	// lapsedShare is the divisor for the part of the pool that all lapsed peers hold together,
	// beyond one packet each.
	lapsedShare = 32
)

// NewCredits returns a pool of capacity packets (at least 1).
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// At sets the pool's time, as the pool reads no clock. If the time stands still no credits lapse.
func (c *Credits) At(now mono.Time) { c.now = now }

// Join and Leave count the peers that share the pool.
func (c *Credits) Join() { c.peers++ }

// Leave undoes a Join.
func (c *Credits) Leave() { c.peers-- }

// Peers is the number of peers that share the pool.
func (c *Credits) Peers() int { return c.peers }

// Check reports the first broken invariant: the bound on what is granted, and the list.
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

// Granted is the number of places granted to all peers together. It exceeds Capacity only by the
// single packets of peers that found the pool empty.
func (c *Credits) Granted() int { return c.granted }

// Share is the equal share of an active peer, in places.
func (c *Credits) Share() int {
	return max(1, (c.capacity-c.lapsedGranted)/max(1, c.peers-c.lapsed))
}

// renew replaces a peer's grant, of which held credits are unused, by a new one of at most want
// packets: its earned or initial credits. The pool must count exactly the credits that the peer is
// told, or it would leak.
func (c *Credits) renew(r *Receiver, held, want uint32) uint32 {
	before := r.booked
	c.lapse()
	needs := r.lapsed || 2*held <= r.charged // it comes back, or has used what it had
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
	if grant == held { // which may take more now than when it was booked
		booked = min(booked, max(int(before), wants))
	}
	r.short = needs && booked < min(share, places)
	r.wants = grant < want
	c.book(r, grant, booked)
	return grant
}

// book records a peer's grant, and the places that it takes.
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

// unbook undoes the peer's latest book.
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

// raised puts a peer whose limit has been raised at the end of the list.
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

// lapse takes back the credits of peers whose limits were last raised too long ago.
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

// restingCredits is the number of n credits that an idle peer keeps: the initial ones or, if n is
// less (as there are many peers), half of them. (A sender with one of two credits would wait for an
// ACK that is due after two packets.)
func restingCredits(n uint32) uint32 {
	if n >= earnedFirst {
		return earnedFirst
	}
	return max(n-n/2, min(n, 2))
}
