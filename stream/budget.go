package stream

import (
	"time"

	"gobtl/internal/mono"
)

// One packet of a peer can cause the assembler to open and close many regions of a ring. In the
// unreliable mode, such a packet is a datagram far ahead of earlier datagrams, and in the reliable
// mode, a notice that skips messages or reports puts. The assembler limits the work for opening and
// closing regions by a budget, which grows only with the data that the sender has really sent and
// with time, and which has a constant maximum. When the assembler opens a region, it takes the cost
// of opening and closing the region from the budget.
//
//   - In the unreliable mode, each datagram increases the budget by workBytes plus workFactor times
//     its payload.
//   - In the reliable mode, each byte that the sender has really put increases the budget by
//     workFactor plus twice the cost of a region divided by its size. In addition, each microsecond
//     increases the budget by workPerMicrosecond. The numbers in a notice do not increase the
//     budget.
//
// In the unreliable mode, the cost of a region includes the size of its memory. In the reliable
// mode, the cost does not include the memory, because the memory of a region without messages is
// not accessed, and a sender that drops messages leaves many regions empty. If the sender drops a
// part of a region, the missing messages are filled with zeros, and the number of zero bytes is
// taken from the budget. If the budget is smaller than the number of zero bytes, the difference
// becomes a debt. Later puts and time first reduce the debt, and then increase the budget.
const (
	workFactor = 20
	workBytes  = 4 << 10
	// workRegion is the work that is counted for a region in addition to its descriptor and bytes.
	workRegion = 512
	// workPerMicrosecond is the work, in bytes of accessed memory, by which each microsecond increases
	// the budget. An empty region of a reliable stream costs about 600 bytes of the budget, and takes
	// up to 50 ns, independent of its size. A region of more than 192 messages costs more, because its
	// descriptor is longer.
	workPerMicrosecond = 256
)

const (
	// openMax is the largest number of open regions in the reliable mode, and therefore of the regions
	// that one notice can close.
	openMax = 1 << 16
	// grantBytes is the largest total size of the descriptors of the regions that one call of grant
	// opens in the reliable mode, unless a single descriptor is larger.
	grantBytes = 256 << 10
)

// setBudget sets the cost of a region, and fills the budget.
func (a *assembler) setBudget() {
	g := &a.ring.geo
	bytes := uint64(g.RegionBytes())
	a.cost = uint64(8*a.ring.stride + workRegion)
	a.openMax = min(uint64(g.Regions), openMax)
	a.perPass = max(grantBytes/uint64(8*a.ring.stride), 1)
	a.perByte = 2*(a.cost/bytes) + workFactor
	if a.reliable() {
		// A full budget covers the two partly dropped regions at the beginning and at the end of a gap.
		a.budgetMax = 2 * (a.openMax*a.cost + bytes)
	} else {
		a.cost += bytes
		a.budgetMax = 2 * uint64(g.Regions) * a.cost
	}
	a.budget = a.budgetMax
}

// The method "reliable" reports whether the assembler is for the reliable mode.
func (a *assembler) reliable() bool { return len(a.track.state) == 0 }

// earn increases the budget by the given work.
func (a *assembler) earn(work uint64) { a.budget = min(a.budget+work, a.budgetMax) }

// The method "poor" reports whether the caller must call "pay" before the next "grant".
func (a *assembler) poor() bool { return a.budget < a.budgetMax/2 }

// The method "charge" takes the given work from the budget. If the budget is less than the given
// work, the difference becomes a debt.
func (a *assembler) charge(work uint64) {
	paid := min(work, a.budget)
	a.budget -= paid
	a.debt += work - paid
}

// pay increases the budget in the reliable mode, by the work for the bytes that the sender has put
// and for the time since the latest call. The argument "written" of the method "pay" is the number
// of bytes that the sender has put since the start.
func (a *assembler) pay(now mono.Time, written uint64) {
	d := min(max(now.Sub(a.paidAt), 0), time.Minute)
	work := min(written-a.paidBytes, a.budgetMax+a.debt)*a.perByte + uint64(d)*workPerMicrosecond/1000
	paid := min(work, a.debt)
	a.debt -= paid
	a.earn(work - paid)
	a.paidAt, a.paidBytes = now, written
}

// grant opens free regions, in the order of their numbers, and returns the first ordinal after the
// open regions. One call of grant opens at most perPass regions, and at most as many as the budget
// covers. If free regions remain because of perPass or the budget, grant sets the field "more".
func (a *assembler) grant() uint64 {
	end := a.lo + a.openMax
	if a.track.total != unknownTotal {
		end = min(end, a.regionCount())
	}
	a.more = false
	if a.hi < end {
		to := min(end, a.hi+a.perPass, a.hi+a.budget/a.cost)
		if to == a.hi {
			a.more = a.free()
		} else {
			a.more = a.open(to-1) && to < end
		}
	}
	return min(a.regionFirst(a.hi), a.track.total)
}

// regionCount returns the number of regions of a stream whose number of messages is known.
func (a *assembler) regionCount() uint64 {
	c := uint64(a.ring.geo.RegionMessages)
	return (a.track.total - a.track.first + c - 1) / c
}

// grantAt returns the time of the next call of grant, if grant has set the field "more".
func (a *assembler) grantAt(now mono.Time) mono.Time {
	if a.budget < a.cost {
		return now.Add(time.Millisecond)
	}
	return now
}
