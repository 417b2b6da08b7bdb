package reliability

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Credits shares out what a module's endpoints can hold unread (posted receives, socket buffer)
// among its peers, so that all of them together cannot overrun it. A default socket buffer holds 92
// full-size datagrams, a window 4096: without credits one sender overruns it at once.
//
// Each peer is granted what it has earned by use, at most an equal share of those that work, and at
// most what is free; more while nobody else lacks of its own share, as long as an eighth stays
// free: of many that begin at once the first ones do not take what the others come for. One that
// has earned nothing yet is granted at most a quarter of what is free, of many peers less, so that
// idle ones leave something to those that work, and to those to come. A share that shrinks (another
// peer joined) takes back nothing: the peer's limit stands still until it has used up the
// difference. A peer that finds the pool empty is granted single packets, so that none ever waits
// for nothing.
//
// What is granted lapses: a peer whose limit was not raised for a while is booked with next to
// nothing, for by then it has let go of the rest itself (Sender.Rest), if it lives. So the idle,
// the slow and the dead keep nothing from the others, and no word is needed for it. A peer that
// comes back has earned its share already.
//
//	granted --raised--> end of the list ... front --creditLapse later--> lapsed --Grant--> granted
//
// What is on a long path is not here yet: see stretch.go; and small packets need little room: see
// small.go. So what is shared out is places, of which a packet takes one, or less than one.
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
	// creditLease is how long a sender without packets in flight may use more than the first credits
	// since they were raised last: as long as the pauses of one that works, and no longer than others
	// can wait.
	creditLease = 10 * time.Millisecond
	// creditLapse is when they have lapsed for the receiver: the acknowledgement that raised them, and
	// what was sent with them, have arrived by then, or else the path is a long one, which holds much
	// more than any socket.
	creditLapse = 2 * creditLease
	// creditPeriod is the time in which a peer must use a quarter of what it has earned, or it loses
	// half of that. Over the longest paths a full window takes not much more than that.
	creditPeriod = 200 * time.Millisecond
	// spareShare is the part of the pool that nobody has beyond an equal share.
	spareShare = 8
	// lapsedShare is the part of the pool that all the lapsed have together, but for a packet each.
	lapsedShare = 32
)

// NewCredits returns a pool of capacity packets (at least 1).
func NewCredits(capacity int) *Credits { return &Credits{capacity: max(1, capacity)} }

// At says what time it is: the pool reads no clock. It may stand still, and then nothing lapses.
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

// Granted is how many places are booked for what all peers together may send now: above Capacity
// only by the single ones of peers that found the pool empty.
func (c *Credits) Granted() int { return c.granted }

// Share is the equal share of a peer that works, in places.
func (c *Credits) Share() int {
	return max(1, (c.capacity-c.lapsedGranted)/max(1, c.peers-c.lapsed))
}

// renew replaces a peer's booking, of which it still holds held, by a new one of at most want
// packets, which the peer has earned or is given to begin with: what is booked is what the peer is
// told, or the pool would leak.
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

// book notes what a peer is granted, and how many places that takes.
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

// unbook undoes the latest book.
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

// lapse takes back what was raised too long ago.
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

// restingCredits is how many of so many credits a peer keeps while it rests: the first ones, and if
// it has fewer, for then there are many, half of them. (With one of two a sender would wait for
// an acknowledgement that is due after two packets.)
func restingCredits(n uint32) uint32 {
	if n >= earnedFirst {
		return earnedFirst
	}
	return max(n-n/2, min(n, 2))
}
