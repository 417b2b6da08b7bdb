package mpi

import "fmt"

// For each rank that makes contexts, this rank remembers which of the newest usedWindow contexts of
// that rank were used. This rank refuses a context that is older than the newest usedWindow
// contexts. The window is large enough, because communicators whose contexts come from the same
// rank are created nearly in the order in which the contexts were made.
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
// argument "maker" is the world rank that has made the context. Without the check, two
// communicators with the same context could receive each other's messages. The caller must hold mu.
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
