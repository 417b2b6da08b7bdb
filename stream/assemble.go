package stream

import "gobtl/internal/mono"

// assembler stores the received messages of an unreliable stream in the regions of a ring, and
// passes the regions to the reader in the order of their numbers. Regions are numbered from 0
// without end. Region n uses slot n mod Regions of the ring.
//
//	handed over     lo            hi         not begun
//	----------------|--- open ----|---------------------
//
// The first open region is passed to the reader when all its messages have arrived. An incomplete
// open region is passed to the reader when a message has arrived whose ordinal is more than
// horizonMessages after the end of the region. The assembler fills missing messages with zeros.
type assembler struct {
	ring    *Ring
	track   tracker
	perMsg  int // payload bytes of each datagram of a message except the last
	lo, hi  uint64
	high    uint64 // 1 + the highest received ordinal
	horizon uint64
	opened  uint64 // number of opened regions, counted by the method "open"
	closeAt uint64 // region lo is passed to the reader when the field "high" reaches closeAt
	ended   bool
	// The field "limit" is the first ordinal (message number) that the sender cannot have sent yet. A
	// datagram whose ordinal is the field "limit" or higher is counted as foreign, and dropped.
	limit uint64
	// The field "cost" is the work for one region from its opening to its end, measured in bytes of
	// accessed memory. The field "budget" is the work that the assembler may still do for regions, in
	// bytes of accessed memory. The budget never exceeds budgetMax.
	cost, budget, budgetMax uint64
	// The fields below are for the reliable mode (see budget.go). The field perPass is the largest
	// number of regions that one call of grant opens. The field perByte is the work by which each byte
	// of a put increases the budget. The budget already includes the first paidBytes bytes of puts,
	// and the time until paidAt. If the field "more" is true, grant must be called again even if no
	// region is released. The field "debt" is work that was done beyond the budget, and that later
	// increases of the budget must cover first.
	openMax, perPass, perByte, paidBytes uint64
	debt                                 uint64
	paidAt                               mono.Time
	more                                 bool
	// If overwrite is true, no reader releases regions, so each region is free again as soon as it was
	// passed to the program.
	overwrite bool
	// The function "done" is called with each region that is passed to the reader, and must not block.
	done func(Region)
	// The function "gap" is called with each range of missing ordinals [first, last], in ascending
	// order. The function "gap" may be nil.
	gap  func(first, last uint64)
	told uint64 // missing ordinals below told have been reported

	// If the field "stored" is true, lastOrdinal and lastDatagram identify the latest stored datagram.
	lastOrdinal  uint64
	lastDatagram uint32
	stored       bool
	straight     bool // the message's datagrams arrived in order and without a gap

	// curRegion is the number of the region to which the latest datagram belongs. The messages of
	// region curRegion have the ordinals from curFirst to curEnd-1.
	curFirst, curEnd, curRegion uint64
}

// The type "result" describes what the assembler has done with a datagram.
type result uint8

const (
	resultStored  result = iota
	resultUnused         // duplicate, late, foreign, or dropped without a free region
	resultBlocked        // no free region: the caller must offer the datagram again
)

// horizonMessages is the number of later messages after which an incomplete region no longer waits
// for reordered datagrams.
const horizonMessages = 1024

// newFiller returns an assembler for complete messages that arrive in the order of their ordinals,
// as in the reliable mode. The caller may call the methods "fill", "skip" and "grant" of the
// returned assembler, but not the method "take".
func newFiller(ring *Ring, first uint64) *assembler {
	return assemblerOf(ring, newCounter(first), ring.geo.MessageBytes)
}

func newAssembler(ring *Ring, first uint64, datagrams uint32, perMsg int) *assembler {
	return assemblerOf(ring, newTracker(first, datagrams, ring.geo.Messages()), perMsg)
}

func assemblerOf(ring *Ring, track tracker, perMsg int) *assembler {
	g := ring.geo
	first := track.first
	a := &assembler{
		ring: ring, track: track, perMsg: perMsg, told: first, limit: unknownTotal,
		high:    first,
		horizon: min(uint64(g.Regions-1)*uint64(g.RegionMessages)/2, horizonMessages),
		done:    func(Region) {},
		curEnd:  first,
	}
	a.setBudget()
	a.setCloseAt()
	return a
}

func (a *assembler) regionFirst(n uint64) uint64 {
	return a.track.first + n*uint64(a.ring.geo.RegionMessages)
}

func (a *assembler) regionEnd(n uint64) uint64 { return a.regionFirst(n + 1) }

func (a *assembler) slot(n uint64) int { return int(n % uint64(a.ring.geo.Regions)) }

func (a *assembler) regionOf(ordinal uint64) uint64 {
	if ordinal < a.curFirst || ordinal >= a.curEnd {
		c := uint64(a.ring.geo.RegionMessages)
		a.curRegion = (ordinal - a.track.first) / c
		a.curFirst = a.regionFirst(a.curRegion)
		a.curEnd = a.curFirst + c
	}
	return a.curRegion
}

// payloadBytes returns the payload size of datagram i of a message, or 0 if a message has no
// datagram i.
func (a *assembler) payloadBytes(i uint32) int {
	if i >= a.track.datagrams {
		return 0
	}
	return min(a.perMsg, a.ring.geo.MessageBytes-int(i)*a.perMsg)
}

// The method "place" returns the part of a region's memory from the position of datagram i of a
// message to the end of the region.
func (a *assembler) place(ordinal uint64, i uint32) []byte {
	n := a.regionOf(ordinal)
	at := int(ordinal-a.curFirst)*a.ring.geo.MessageBytes + int(i)*a.perMsg
	return a.ring.Region(a.slot(n))[at:]
}

// take records a datagram and stores its payload. If the argument "landed" is true, the fabric has
// already written the payload to its final position. If the argument "block" is true and there is
// no free region, the method "take" returns resultBlocked. After resultBlocked, the caller must
// call "take" again for the same datagram.
func (a *assembler) take(
	ordinal uint64, datagram uint32, payload []byte, block, landed bool,
) result {
	if ordinal < a.track.first || ordinal >= min(a.track.total, a.limit) || len(payload) == 0 ||
		len(payload) != a.payloadBytes(datagram) {
		a.track.foreign++
		return resultUnused
	}
	a.earn(workBytes + workFactor*uint64(len(payload)))
	n := a.regionOf(ordinal)
	late := a.ended || n < a.lo
	room := late || n < a.hi
	if !room {
		paid := a.leap(n)
		room = paid && a.open(n)
		if !room && paid && block {
			return resultBlocked
		}
	}
	if a.track.arrive(ordinal, datagram) != arrivalNew {
		return resultUnused
	}
	a.high = max(a.high, ordinal+1)
	switch {
	case late:
		a.track.settle(ordinal, spoiltLate)
		return resultUnused
	case !room:
		a.track.settle(ordinal, spoiltOverrun)
		a.advance()
		return resultUnused
	}
	if !landed {
		copy(a.place(ordinal, datagram), payload)
	}
	if datagram == 0 {
		a.straight = a.track.state[ordinal&a.track.mask].left == a.track.datagrams-1
	} else {
		a.straight = a.straight && ordinal == a.lastOrdinal && datagram == a.lastDatagram+1
	}
	a.lastOrdinal, a.lastDatagram, a.stored = ordinal, datagram, true
	if a.track.settle(ordinal, spoiltNot) {
		slot := a.slot(n)
		a.ring.mark(slot, int(ordinal-a.curFirst), 1)
		if n == a.lo && a.whole(slot) {
			a.advance()
			return resultStored
		}
	}
	if a.high >= a.closeAt {
		a.advance()
	}
	return resultStored
}

func (a *assembler) whole(slot int) bool {
	c := &a.ring.counts[slot]
	return c.received == c.messages
}

// leap prepares the opening of the regions up to number n, and reports whether the assembler's
// budget of work covers the cost of at least one region. If region n is too far ahead of the open
// regions (horizonMessages), or if the budget does not cover all regions up to n, the method "leap"
// passes all open regions to the reader, and skips the oldest of the regions that are not open yet.
func (a *assembler) leap(n uint64) bool {
	back := min(uint64(a.ring.geo.Regions-1), a.horizon/uint64(a.ring.geo.RegionMessages)+1)
	pays := a.budget / a.cost
	if n-a.hi <= back && n-a.hi < pays {
		return true
	}
	if pays == 0 {
		return false
	}
	for a.lo < a.hi {
		a.handOver()
	}
	a.lo = max(a.hi, n-min(back, pays-1))
	a.hi = a.lo
	a.setCloseAt()
	return true
}

// open opens all regions up to number n and returns true, or returns false if one of the regions to
// open is not free.
func (a *assembler) open(n uint64) bool {
	g := &a.ring.geo
	for a.hi <= n {
		if a.hi-a.lo == uint64(g.Regions) {
			a.handOver()
		}
		slot := a.slot(a.hi)
		if a.ring.get(slot, wordState) != regionFree {
			return false
		}
		first := a.regionFirst(a.hi)
		count := min(uint64(g.RegionMessages), a.track.total-first)
		a.ring.open(slot, first, int(count))
		a.budget -= min(a.budget, a.cost)
		a.hi++
		a.opened++
	}
	return true
}

// The method "free" reports whether the region that is opened next is free.
func (a *assembler) free() bool { return a.ring.get(a.slot(a.hi), wordState) == regionFree }

// advance passes open regions to the reader, in the order of their numbers. advance stops at the
// first incomplete region whose wait for reordered datagrams is not over (horizonMessages).
func (a *assembler) advance() {
	for a.lo < a.hi && (a.whole(a.slot(a.lo)) || a.high >= a.closeAt) {
		a.handOver()
	}
}

func (a *assembler) setCloseAt() { a.closeAt = a.regionEnd(a.lo) + a.horizon + 1 }

// handOver closes the first open region. If at least one message of the region was received,
// handOver passes the region to the reader, and otherwise skips the region.
func (a *assembler) handOver() {
	slot := a.slot(a.lo)
	r := a.ring
	c := r.counts[slot]
	first, count := c.first, int(c.messages)
	switch c.received {
	case 0: // not zeroed, because the reader may still use earlier data in this memory
	case c.messages:
		a.tellGap(first)
		a.told = first + uint64(count)
	default:
		a.tellGaps(slot, first, count)
	}
	a.lo++
	a.setCloseAt()
	switch {
	case c.received == 0:
		r.set(slot, wordState, regionFree)
	case a.overwrite:
		a.done(r.region(slot, c))
		r.set(slot, wordState, regionFree)
	default:
		r.set(slot, wordState, regionPopulated)
		a.done(r.region(slot, c))
	}
}

// tellGaps fills the missing messages of a region with zeros, and reports their ordinals to the
// function "gap".
func (a *assembler) tellGaps(slot int, first uint64, count int) {
	cleared := uint64(0)
	for k := range count {
		if _, ok := a.ring.Transferred(slot, k); ok {
			a.tellGap(first + uint64(k))
			a.told = first + uint64(k) + 1
			continue
		}
		clear(a.ring.Message(slot, k))
		cleared += uint64(a.ring.geo.MessageBytes)
	}
	if a.reliable() { // in the unreliable mode, the cost of the region contains all its bytes
		a.charge(cleared)
	}
}

// tellGap reports to the function "gap" that the messages from the ordinal a.told to the ordinal
// to-1 are missing.
func (a *assembler) tellGap(to uint64) {
	if a.told < to && a.gap != nil {
		a.gap(a.told, to-1)
	}
	a.told = max(a.told, to)
}

// end records that the stream has ended. The argument "total" of the method "end" is the ordinal
// after the last message of the stream.
func (a *assembler) end(total uint64) {
	a.track.end(total)
	for n := a.lo; n < a.hi; n++ {
		slot := a.slot(n)
		if first := a.ring.counts[slot].first; first < a.track.total {
			a.ring.shorten(slot, a.track.total-first)
		}
	}
	a.advance()
}

// The method "complete" reports whether the stream has ended and all its messages have arrived.
func (a *assembler) complete() bool {
	return a.track.total != unknownTotal && a.track.missing() == 0
}

// finish passes the remaining regions to the reader. Datagrams that arrive after a call of "finish"
// count as late.
func (a *assembler) finish() {
	if a.ended {
		return
	}
	a.ended = true
	for a.lo < a.hi {
		a.handOver()
	}
	a.tellGap(a.track.edge)
}

// fill records that the sender has written all messages with ordinals below the argument "to" into
// open regions. fill is called only in the reliable mode, in which messages arrive in the order of
// their ordinals. The method "fill" reports whether it has recorded at least one new message.
func (a *assembler) fill(to uint64) bool {
	from := a.track.edge
	if to = min(to, a.track.total); to <= from || to > a.regionFirst(a.hi) {
		return false
	}
	a.track.received += to - from
	a.track.edge = to
	for from < to {
		n := a.regionOf(from)
		upto := min(to, a.curEnd)
		a.ring.mark(a.slot(n), int(from-a.curFirst), int(upto-from))
		from = upto
		for a.lo < n || a.lo == n && a.full(n, from) {
			a.handOver()
		}
	}
	return true
}

// The method "full" reports whether all messages of region n have ordinals below the argument
// "upto".
func (a *assembler) full(n, upto uint64) bool {
	return upto >= a.ring.counts[a.slot(n)].end()
}

// skip records that the sender has dropped all messages from the ordinal track.edge to the ordinal
// to-1. skip opens no region, and closes at most openMax regions, whose cost was taken from the
// budget when they were opened.
func (a *assembler) skip(to uint64) {
	if to = min(to, a.track.total); to <= a.track.edge {
		return
	}
	a.track.edge = to
	n := (to - a.track.first) / uint64(a.ring.geo.RegionMessages)
	for a.lo < a.hi && a.lo < n {
		a.handOver()
	}
	if a.lo < n {
		a.lo, a.hi = n, n
		a.setCloseAt()
	}
}
