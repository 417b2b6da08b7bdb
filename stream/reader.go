package stream

// Reader walks through the regions of a ring as they are populated: for a process that reads a
// mapped ring which the receiver in another one fills. One goroutine at a time may use it.
type Reader struct {
	ring *Ring
	next int
}

// NewReader returns a reader that begins with region i.
func (r *Ring) NewReader(i int) *Reader { return &Reader{ring: r, next: i % r.geo.Regions} }

// Next returns the region in turn if it is populated. It does not wait: a process that has nothing
// else to do looks again after a moment (the receiver itself looks every millisecond).
func (d *Reader) Next() (Region, bool) {
	// Regions of which nothing came are left out, so the one in turn need not be the next.
	for k := range d.ring.geo.Regions {
		i := (d.next + k) % d.ring.geo.Regions
		if d.ring.Populated(i) && (k == 0 || d.oldest(i)) {
			d.next = i
			return d.ring.view(i), true
		}
	}
	return Region{}, false
}

// oldest says whether no populated region holds earlier messages than region i.
func (d *Reader) oldest(i int) bool {
	for k := range d.ring.geo.Regions {
		if d.ring.Populated(k) && d.ring.get(k, wordFirst) < d.ring.get(i, wordFirst) {
			return false
		}
	}
	return true
}

// Release gives the region of the latest Next back.
func (d *Reader) Release() {
	d.ring.SetPopulated(d.next, false)
	d.next = (d.next + 1) % d.ring.geo.Regions
}
