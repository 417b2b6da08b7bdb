package impair

import "sync/atomic"

// Counts are the numbers of faults that a Domain has injected into arriving datagrams. A datagram
// with several faults is counted once for each fault. If a datagram is duplicated, the faults of
// its two copies are counted separately.
type Counts struct {
	Arrived    uint64 // taken from the inner domain
	Passed     uint64 // of these, datagrams without any fault
	Lost       uint64
	Duplicated uint64 // additional copies
	Reordered  uint64 // overtaken by at least one later datagram
	Delayed    uint64
	Corrupted  uint64
	Truncated  uint64
}

type counters struct {
	arrived, passed, lost, duplicated, reordered, delayed, corrupted, truncated atomic.Uint64
}

// Counts returns the fault counters of the Domain, which are sums over all open and closed
// endpoints of the Domain. Counts is safe for concurrent use.
func (d *Domain) Counts() Counts {
	c := &d.counters
	return Counts{
		Arrived:    c.arrived.Load(),
		Passed:     c.passed.Load(),
		Lost:       c.lost.Load(),
		Duplicated: c.duplicated.Load(),
		Reordered:  c.reordered.Load(),
		Delayed:    c.delayed.Load(),
		Corrupted:  c.corrupted.Load(),
		Truncated:  c.truncated.Load(),
	}
}
