package stream

import "unsafe"

// Some fabrics can write received payload directly to its final position (fabric.Lander). The
// receiver gives the fabric the memory of a region from the position of the next expected datagram
// to the end of the region. Datagrams that arrive in the order of sending are copied only once, by
// the kernel. If the fabric has written payload to a wrong position, dataPort.rescue copies this
// payload into the receive buffer, after the datagram's header. rescue runs before any polled
// datagram is processed.

// The method "landing" returns the memory for the payload of the next datagrams, if they arrive in
// order. If the next datagram cannot be predicted, "landing" returns nil. The returned memory
// contains no received data.
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

// isPlace reports whether the payload of a datagram is at its final position, in an open region.
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

// land passes the memory for the next datagrams of the receiver r to the fabric, for direct
// receive.
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
