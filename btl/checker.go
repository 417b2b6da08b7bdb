package btl

import (
	"fmt"

	"gobtl/btl/internal/owed"
)

// checker is the scratch memory of Check. The first call allocates it, so that a module that is
// never checked has none.
type checker struct {
	places   []place    // where each send buffer was found
	held     []int      // send buffers on the wire or queued, by slot of their endpoint
	round    uint32     // marks the fragments that this call has met
	freeNext int        // free descriptors are looked at in turn, some in each call
	joined   int        // endpoints with a share of the credits
	charged  int        // what was granted to them
	timers   int        // endpoints with a timer
	window   int        // packets in the send windows
	asmBytes int64      // reassembly memory of the endpoints
	frags    [5]int     // descriptors by state
	refs     int        // segments with a fragment
	out      int        // what the fragments say that is
	regions  int        // fragments with a region of their own
	packs    int        // open ones
	acks     owed.Tally // endpoints that owe an ACK
	lent     int        // send buffers with the caller, in lent fragments
}

// place is where a send buffer was found; each buffer must be found in exactly one place.
type place uint8

const (
	placeNone   place = iota // not yet: lent to the caller, or acknowledged and still posted
	placeFree                // on the list of free ones
	placeQueued              // holds a fragment of a to-send list
	placeWindow              // a number in the window of an endpoint
	placePack                // is the open pack of an endpoint
	placeEnded               // was queued, in a fragment whose OnDone is about to be called
)

func (p place) String() string {
	return [...]string{
		"nowhere", "free", "queued", "in a window", "an open pack", "in an ended fragment",
	}[p]
}

// reset makes the scratch memory ready for a call.
func (c *checker) reset(m *Module) {
	places, held := c.places, c.held
	*c = checker{round: c.round + 1, freeNext: c.freeNext}
	if len(places) == 0 {
		places = make([]place, len(m.segs))
	}
	for len(held) < len(m.peers.All()) {
		held = append(held, 0)
	}
	clear(places)
	clear(held)
	c.places, c.held = places, held
}

// meet counts a fragment with segments in flight, once. It skips Byes: they are no caller's sends
// and not from the pool.
func (c *checker) meet(f *Fragment) {
	if f.checked == c.round {
		return
	}
	f.checked, f.unmet = c.round, f.out
	c.out += int(f.out)
	if f.ownRegion {
		c.regions++
	}
	if !f.internal() {
		c.frags[f.state]++
	}
}

// ref counts a packet of fragment f, in send buffer i.
func (c *checker) ref(i int, f *Fragment) error {
	c.refs++
	c.meet(f)
	if f.unmet == 0 || f.state != fragQueued && f.state != fragSent {
		return fmt.Errorf("send buffer %d is one too many of a fragment in state %d with %d", i,
			f.state, f.out)
	}
	f.unmet--
	return nil
}
