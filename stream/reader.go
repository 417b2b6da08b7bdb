package stream

// Reader returns the populated regions of a ring. A Reader is for a process that reads a mapped
// ring while a receiver in another process fills the ring. Only one goroutine at a time may use a
// Reader.
type Reader struct {
	ring *Ring
	next int
	// If the field "moved" is true, the program has released a region, and the field "behind" is the
	// ordinal after the last message of the latest released region.
	behind uint64
	moved  bool
	held   bool
	// If the field "held" is true, the program reads the region with the ordinals from first to end-1.
	first, end uint64
}

// NewReader returns a Reader that begins with the earliest messages in the ring. The Reader's
// search for populated regions starts at region i.
func (r *Ring) NewReader(i int) *Reader { return &Reader{ring: r, next: i % r.geo.Regions} }

// Next returns the populated region with the earliest messages. If no region is populated, Next
// returns false without waiting. If Next returns false and Over returns false, the caller should
// call Next again after a short time.
func (d *Reader) Next() (Region, bool) {
	r := d.ring
	if !d.moved || !r.Populated(d.next) || r.get(d.next, wordFirst) != d.behind {
		i, ok := d.any()
		if !ok {
			return Region{}, false
		}
		d.next = d.earliest(i)
	}
	region := r.view(d.next)
	d.held, d.first, d.end = true, region.First, region.First+uint64(region.Messages)
	return region, true
}

func (d *Reader) any() (int, bool) {
	for k := range d.ring.geo.Regions {
		if i := (d.next + k) % d.ring.geo.Regions; d.ring.Populated(i) {
			return i, true
		}
	}
	return 0, false
}

// The method "earliest" returns the populated region with the earliest messages. The argument i of
// the method "earliest" is the index of any populated region. All regions with earlier messages
// were populated before region i, so that the states of the earlier regions are already visible.
func (d *Reader) earliest(i int) int {
	for k := range d.ring.geo.Regions {
		if d.ring.Populated(k) && d.ring.get(k, wordFirst) < d.ring.get(i, wordFirst) {
			i = k
		}
	}
	return i
}

// Over reports whether the stream has ended and the Reader has released all regions. After Over has
// returned true, Next always returns false.
func (d *Reader) Over() bool {
	if !d.ring.Over() {
		return false
	}
	_, more := d.any() // searched after the end is visible
	return !more
}

// Release releases the region that the latest call of Next has returned.
func (d *Reader) Release() {
	if !d.held {
		return
	}
	d.held = false
	d.behind, d.moved = d.end, true
	d.ring.release(d.next, d.first)
	d.next = (d.next + 1) % d.ring.geo.Regions
}
