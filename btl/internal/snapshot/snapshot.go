// Package snapshot publishes numbers of one goroutine, so that any goroutine can read these numbers
// without a lock.
//
//	owner     version 4 --Store 5, values, 6--> version 6
//	          ========= ======================= =========
//	reader    Load reads the version, the values and the version, until both versions are 6
//
// One goroutine calls Store. Any goroutine may call Load.
package snapshot

import "sync/atomic"

// Values is a published list of numbers. While Store writes the values, the version is odd. A
// reader reads the values again if the version number was odd, or has changed while the values were
// read.
type Values struct {
	version atomic.Uint64
	values  []atomic.Uint64
}

// Init makes a list of "count" zeros. The caller must call Init before Store and Load.
func (v *Values) Init(count int) { v.values = make([]atomic.Uint64, count) }

// Store publishes the numbers of the slices "first" and "second" as one list, which begins with the
// numbers of the slice "first".
func (v *Values) Store(first, second []uint64) {
	v.version.Add(1)
	to := v.values
	for _, from := range [...][]uint64{first, second} {
		for i, n := range from {
			if to[i].Load() != n { // a store is more expensive
				to[i].Store(n)
			}
		}
		to = to[len(from):]
	}
	v.version.Add(1)
}

// Load copies the published numbers to the slices "first" and "second". All copied numbers come
// from the same call of Store.
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
