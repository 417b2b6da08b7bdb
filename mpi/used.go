package mpi

import "fmt"

// A context is a number that identifies a communicator in the tags of the communicator's messages.
// For each rank that makes contexts, this rank remembers which of the newest usedWindow contexts of
// that rank were used for a communicator. If the context of a new communicator is older than the
// newest usedWindow contexts of the rank that has made the context, this rank refuses the
// communicator with ErrWrongContext. The window of usedWindow contexts is large enough, because
// communicators whose contexts come from the same rank are created nearly in the order in which the
// contexts were made.
const usedWindow = 1024

// A usedContexts value belongs to one rank that makes contexts, and records which contexts of that
// rank this process has already used for a communicator. The algorithm is the sliding window of RFC
// 4303, section 3.4.3, against repeated packets.
type usedContexts struct {
	newest uint64 // the largest number; 0: none
	bits   [usedWindow / 64]uint64
}

// The method "take" records the context number n as used, and returns true. If n was used before,
// or is older than the window, the method "take" returns false.
func (u *usedContexts) take(n uint64) bool {
	for ; u.newest < n && u.newest+usedWindow >= n; u.newest++ {
		u.set(u.newest+1, false)
	}
	if u.newest < n { // all known numbers are older than the window
		u.newest, u.bits = n, [usedWindow / 64]uint64{}
	}
	at, bit := n%usedWindow/64, uint64(1)<<(n%64)
	if n == 0 || n+usedWindow <= u.newest || u.bits[at]&bit != 0 {
		return false
	}
	u.set(n, true)
	return true
}

func (u *usedContexts) set(n uint64, used bool) {
	at, bit := n%usedWindow/64, uint64(1)<<(n%64)
	if u.bits[at] &^= bit; used {
		u.bits[at] |= bit
	}
}

// contextUse maps the world rank of each rank that makes contexts to the usedContexts value for
// this rank.
type contextUse map[int]*usedContexts

// The method "check" checks the context of a new communicator, and records that it is used. The
// argument "maker" is the world rank that has made the context. If a context could be used twice,
// two communicators with the same context could receive each other's messages. The caller must hold
// mu.
func (by contextUse) check(context uint64, maker int) error {
	if int(context>>makerShift) != maker || context&(1<<countShift-1) != 0 {
		return fmt.Errorf("%w: %#x from rank %d of the world", ErrWrongContext, context, maker)
	}
	u := by[maker]
	if u == nil {
		u = new(usedContexts)
		by[maker] = u
	}
	if !u.take(context >> countShift & (1<<countBits - 1)) {
		return fmt.Errorf("%w: %#x again, from rank %d of the world", ErrWrongContext, context, maker)
	}
	return nil
}

// A contextMaker makes the contexts of the communicators that one rank makes. No two contexts of a
// job are equal, because each context contains the world rank of its maker and a number that the
// maker uses once.
type contextMaker struct {
	rank int    // world rank of the maker
	made uint64 // number of contexts that the maker has made
}

// The method "next" makes a context. If the maker has already made the largest possible number of
// contexts, the method "next" returns 0, which is the context of the World's communicator.
func (m *contextMaker) next() uint64 {
	if m.made+1 >= 1<<countBits {
		return 0
	}
	m.made++
	return uint64(m.rank)<<makerShift | m.made<<countShift
}
