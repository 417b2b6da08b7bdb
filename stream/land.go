package stream

import "unsafe"

// Landing: some fabrics can receive payload directly into its final place (fabric.Lander). Such a
// fabric is given the memory from the next expected datagram to the end of the region. Datagrams
// that arrive in order are then copied only once, by the kernel. Payload that has landed in a wrong
// place is moved back behind its header before any payload is stored (dataPort.rescue).

// landing is the final memory of the next datagrams if they arrive in order, or nil if no
// particular datagram is expected. It contains no received data.
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
	return a.place(ordinal, datagram)
}

// isPlace reports whether bytes are in the final place of a datagram's payload, in an open region.
func (a *assembler) isPlace(h header, payload []byte) bool {
	if a.ended || h.ordinal < a.track.first || h.ordinal >= a.track.total ||
		len(payload) == 0 || len(payload) != a.payloadBytes(h.datagram) {
		return false
	}
	if n := a.regionOf(h.ordinal); n < a.lo || n >= a.hi {
		return false
	}
	return unsafe.SliceData(a.place(h.ordinal, h.datagram)) == unsafe.SliceData(payload)
}

// land gives the fabric the landing memory of the latest receiver.
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
