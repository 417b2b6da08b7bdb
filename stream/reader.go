package stream

// Reader returns the regions of a ring as they are populated. It is for a process that reads a
// mapped ring, which a receiver in another process fills. One goroutine at a time may use it.
type Reader struct {
	ring *Ring
	next int
	// behind is the ordinal behind the latest released region, if there was one.
	behind uint64
	moved  bool
	held   bool
	first  uint64 // the held region
}

// NewReader returns a reader that begins with the earliest messages that are in the ring, and looks
// for them from region i on.
func (r *Ring) NewReader(i int) *Reader { return &Reader{ring: r, next: i % r.geo.Regions} }

// Next returns the region with the earliest messages, if one is populated. It does not wait. If it
// finds none and Over returns false, the process should call it again after a short time. The
// receiver itself checks every millisecond.
func (d *Reader) Next() (Region, bool) {
	r := d.ring
	// Regions without any received message are skipped. So the next region in the ring need not
	// have the earliest messages, unless its first ordinal follows directly.
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

// earliest returns the populated region with the earliest messages, given one populated region. All
// earlier regions were populated before the given one, so they are visible by now.
func (d *Reader) earliest(i int) int {
	for k := range d.ring.geo.Regions {
		if d.ring.Populated(k) && d.ring.get(k, wordFirst) < d.ring.get(i, wordFirst) {
			i = k
		}
	}
	return i
}

// Over reports whether the stream has ended and all regions were read, so that Next will find no
// more.
func (d *Reader) Over() bool {
	if !d.ring.Over() {
		return false
	}
	_, more := d.any() // looked for behind the end
	return !more
}

// Release releases the region of the latest Next.
func (d *Reader) Release() {
	if !d.held {
		return
	}
	d.held = false
	d.behind, d.moved = d.first+d.ring.get(d.next, wordMessages), true
	d.ring.release(d.next, d.first)
	d.next = (d.next + 1) % d.ring.geo.Regions
}
