package peer

import (
	"fmt"

	"gobtl/btl/internal/owed"
)

// Checker contains the intermediate results of btl.Module.Check.
type Checker struct {
	closed   bool       // the module and its fabric are closed
	places   []place    // the list or owner in which each send buffer was found
	held     []int      // send buffers on the wire or queued, by slot of their endpoint
	round    uint32     // marks the fragments that this call has counted
	freeNext int        // the next free descriptor to be verified
	joined   int        // endpoints with a share of the credits
	charged  int        // credits granted to all endpoints
	timers   int        // endpoints with a timer
	window   int        // packets in the send windows
	asmBytes int64      // reassembly memory of the endpoints
	frags    [5]int     // descriptors by state
	refs     int        // segments with a fragment
	out      int        // sum of the counts of packets in flight in the fragments; must equal refs
	regions  int        // fragments with a region of their own
	packs    int        // open Packs
	acks     owed.Tally // endpoints with an outstanding ACK
	lent     int        // send buffers of fragments that the application fills
}

// place is the list or owner in which a check has found a send buffer. Each buffer must be found in
// exactly one place.
type place uint8

const (
	placeNone   place = iota // the application fills it, or its send is not complete after its ACK
	placeFree                // on the list of free ones
	placeQueued              // holds a fragment of a to-send list
	placeWindow              // a number in the window of an endpoint
	placePack                // is the open Pack of an endpoint
	placeEnded               // was queued, in a fragment whose OnDone is about to be called
)

func (p place) String() string {
	return [...]string{
		"nowhere", "free", "queued", "in a window", "an open pack", "in an ended fragment",
	}[p]
}

func (c *Checker) reset(all *Services) {
	places, held := c.places, c.held
	*c = Checker{round: c.round + 1, freeNext: c.freeNext}
	if len(places) == 0 {
		places = make([]place, len(all.Buffers.segs))
	}
	for len(held) < len(all.Peers.All()) {
		held = append(held, 0)
	}
	clear(places)
	clear(held)
	c.places, c.held = places, held
}

// meet counts a fragment with packets in flight. During one call of Check, the method "meet" counts
// each fragment only once.
func (c *Checker) meet(f *Fragment) {
	if f.checked == c.round {
		return
	}
	f.checked, f.unmet = c.round, f.out
	c.out += int(f.out)
	if f.Data.Registered() {
		c.regions++
	}
	if !f.internal() {
		c.frags[f.state]++
	}
}

// ref records that Check has found a packet in flight of fragment f. ref returns an error if the
// number of packets in flight of f that Check has found exceeds the fragment's own count, and nil
// otherwise.
func (c *Checker) ref(i int, f *Fragment) error {
	c.refs++
	c.meet(f)
	if f.unmet == 0 || f.state != fragQueued && f.state != fragSent {
		return fmt.Errorf("send buffer %d is one too many of a fragment in state %d with %d", i,
			f.state, f.out)
	}
	f.unmet--
	return nil
}
