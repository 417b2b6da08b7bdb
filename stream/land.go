package stream

import "unsafe"

// Landing: where the fabric can put payload straight into its place (fabric.Lander), it is told
// the place of the datagram that is expected next, and what follows to the end of the region. So
// what comes in order is copied once, by the kernel. What turns out to stand in a wrong place is
// put back behind its header before anything is stored (dataPort.rescue).

// landing is the memory that the next datagrams belong into when they come as expected; nil when
// nothing in particular is expected. Nothing that has arrived stands there.
func (a *assembler) landing() []byte {
	if !a.stored || a.ended || a.lastOrdinal+1 != a.high {
		return nil
	}
	ordinal, datagram := a.lastOrdinal, a.lastDatagram+1
	if datagram == a.track.datagrams {
		ordinal, datagram = ordinal+1, 0
	} else if !a.straight {
		return nil
	}
	if ordinal >= a.track.total {
		return nil
	}
	n := a.regionOf(ordinal)
	if n < a.lo || n >= a.hi && (a.hi-a.lo == uint64(a.ring.geo.Regions) || !a.open(n)) {
		return nil
	}
	at := a.place(ordinal, datagram)
	return a.ring.mem[at : (a.slot(n)+1)*a.ring.geo.RegionBytes()]
}

// isPlace says whether bytes stand where the payload of a datagram belongs, in an open region.
func (a *assembler) isPlace(h header, payload []byte) bool {
	if a.ended || h.ordinal < a.track.first || h.ordinal >= a.track.total ||
		len(payload) == 0 || len(payload) != a.payloadBytes(h.datagram) {
		return false
	}
	if n := a.regionOf(h.ordinal); n < a.lo || n >= a.hi {
		return false
	}
	return unsafe.SliceData(a.ring.mem[a.place(h.ordinal, h.datagram):]) == unsafe.SliceData(payload)
}

// land tells the fabric where the next datagrams of the latest receiver belong.
func (de *dataEndpoint) land(r *Receiver) {
	if de.lander == nil {
		return
	}
	var mem []byte
	if r != nil && r.state == stateRunning {
		mem = r.asm.landing()
	}
	if de.lander.Land(mem, headerBytes) {
		de.landed = mem
	}
}
