package stream

// Reader walks through the regions of a ring as they are populated: for a process that reads a
// mapped ring which the receiver in another one fills. One goroutine at a time may use it.
type Reader struct {
	ring *Ring
	next int
	// behind is the ordinal behind the latest region that was given back, if there was one.
	behind uint64
	moved  bool
	held   bool
	first  uint64 // of the region that is held
}

// NewReader returns a reader that begins with the earliest messages that are in the ring, and looks
// for them from region i on.
func (r *Ring) NewReader(i int) *Reader { return &Reader{ring: r, next: i % r.geo.Regions} }

// Next returns the region with the earliest messages, if one is populated. It does not wait: a
// process that has nothing else to do looks again after a moment (the receiver itself looks every
// millisecond), unless Over.
func (d *Reader) Next() (Region, bool) {
	r := d.ring
	// Regions of which nothing came are left out, so the one in turn need not be the earliest, but
	// where no ordinal lies between.
	if !d.moved || !r.Populated(d.next) || r.get(d.next, wordFirst) != d.behind {
		i, ok := d.any()
		if !ok {
			return Region{}, false
		}
		d.next = d.earliest(i)
	}
	d.held, d.first = true, r.get(d.next, wordFirst)
	return r.view(d.next), true
}

// any finds a populated region.
func (d *Reader) any() (int, bool) {
	for k := range d.ring.geo.Regions {
		if i := (d.next + k) % d.ring.geo.Regions; d.ring.Populated(i) {
			return i, true
		}
	}
	return 0, false
}

// earliest finds the populated region with the earliest messages, given one that is populated: all
// that are earlier were populated before it, so they are seen by now.
func (d *Reader) earliest(i int) int {
	for k := range d.ring.geo.Regions {
		if d.ring.Populated(k) && d.ring.get(k, wordFirst) < d.ring.get(i, wordFirst) {
			i = k
		}
	}
	return i
}

// Over says whether the stream has ended and everything was read: Next finds nothing any more.
func (d *Reader) Over() bool {
	if !d.ring.Over() {
		return false
	}
	_, more := d.any() // looked for behind the end
	return !more
}

// Release gives the region of the latest Next back.
func (d *Reader) Release() {
	if !d.held {
		return
	}
	d.held = false
	d.behind, d.moved = d.first+d.ring.get(d.next, wordMessages), true
	d.ring.release(d.next, d.first)
	d.next = (d.next + 1) % d.ring.geo.Regions
}
