// Package snapshot publishes numbers that one goroutine counts to other goroutines, without a lock.
//
//	owner:    version 4 --Store: 5, values, 6--> version 6
//	reader:   Load reads the version, the values and the version, until both versions are 6
//
// One goroutine calls Store. Any goroutine may call Load.
package snapshot

import "sync/atomic"

// Values is a published list of numbers. The version is odd while Store writes the values, so that
// a concurrent reader repeats its reading.
type Values struct {
	version atomic.Uint64
	values  []atomic.Uint64
}

// Init makes a list of count zeros. Init must be called before the other methods.
func (v *Values) Init(count int) { v.values = make([]atomic.Uint64, count) }

// Store publishes the numbers of both lists, the first list before the second.
func (v *Values) Store(first, second []uint64) {
	v.version.Add(1)
	v.set(v.values, first)
	v.set(v.values[len(first):], second)
	v.version.Add(1)
}

// set stores the numbers that have changed.
func (*Values) set(to []atomic.Uint64, from []uint64) {
	for i, n := range from {
		if to[i].Load() != n {
			to[i].Store(n)
		}
	}
}

// Load reads the numbers of one call of Store into the two lists.
func (v *Values) Load(first, second []uint64) {
	for {
		before := v.version.Load()
		for i := range first {
			first[i] = v.values[i].Load()
		}
		for i := range second {
			second[i] = v.values[len(first)+i].Load()
		}
		if before%2 == 0 && v.version.Load() == before {
			return
		}
	}
}
