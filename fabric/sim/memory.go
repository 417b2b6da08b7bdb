package sim

import "hash/crc32"

// A packet is a datagram inside the simulated network.
type packet struct {
	data     []byte
	id       uint64
	from, to Port
	ref      uint32 // the packet's number in the network
	crc      uint32 // of data, if hasCRC
	hasCRC   bool
	spoilt   bool // its checksum is wrong
}

func (p *packet) checksum() uint32 {
	if !p.hasCRC {
		p.crc, p.hasCRC = crc32.Checksum(p.data, castagnoli), true
	}
	return p.crc
}

// Memory keeps the memory of closed networks for use by networks that are made later, so that a
// thousand short runs need not allocate a thousand arenas. Several networks may use the same Memory
// only one after the other, on one goroutine. The zero Memory is ready for use.
//
// Before memory is reused, all buffers that were posted for sending or receiving are set to zero.
// Bytes that a caller has written to a buffer without posting the buffer can remain in the reused
// memory.
type Memory struct {
	packets []*packet
	arenas  [][]byte
}

const packetChunk = 32

// newPacket returns an empty packet, which is reused or newly allocated.
func (nw *Network) newPacket() *packet {
	if len(nw.free) == 0 {
		nw.morePackets()
	}
	p := nw.free[len(nw.free)-1]
	nw.free = nw.free[:len(nw.free)-1]
	p.data, p.hasCRC, p.spoilt = p.data[:0], false, false
	return p
}

func (nw *Network) morePackets() {
	if mem := nw.cfg.Memory; mem != nil && len(mem.packets) > 0 {
		p := mem.packets[len(mem.packets)-1]
		mem.packets = mem.packets[:len(mem.packets)-1]
		nw.adopt(p)
		return
	}
	size := nw.cfg.MTUBytes
	block := make([]byte, packetChunk*size)
	packets := make([]packet, packetChunk)
	for i := range packets {
		packets[i].data = block[i*size : i*size : (i+1)*size]
		nw.adopt(&packets[i])
	}
}

func (nw *Network) adopt(p *packet) {
	p.ref = uint32(len(nw.packets))
	nw.packets = append(nw.packets, p)
	nw.free = append(nw.free, p)
}

func (nw *Network) release(p *packet) { nw.free = append(nw.free, p) }

func (nw *Network) clone(p *packet) *packet {
	c := nw.newPacket()
	c.copyOf(p)
	return c
}

func (p *packet) copyOf(o *packet) {
	p.data = append(p.data[:0], o.data...)
	p.id, p.from, p.to = o.id, o.from, o.to
	p.crc, p.hasCRC, p.spoilt = o.crc, o.hasCRC, o.spoilt
}

// arenaMemory returns memory for a domain's arena, if possible from a closed domain whose posted
// buffers the method "recycle" has set to zero.
func (nw *Network) arenaMemory(sizeBytes int) []byte {
	mem := nw.cfg.Memory
	if mem == nil {
		return make([]byte, sizeBytes)
	}
	for i := len(mem.arenas) - 1; i >= 0; i-- {
		if a := mem.arenas[i]; cap(a) >= sizeBytes {
			last := len(mem.arenas) - 1
			mem.arenas[i] = mem.arenas[last]
			mem.arenas = mem.arenas[:last]
			return a[:sizeBytes]
		}
	}
	return make([]byte, sizeBytes)
}

// Close stops all processes and closes all domains of the network, and causes no events. Close
// gives the network's memory to Config.Memory, and therefore the caller must no longer use buffers
// of the network's domains.
func (nw *Network) Close() {
	if nw.closed {
		return
	}
	nw.closed = true
	for _, e := range nw.endpoints {
		if e != nil {
			e.closed = true
		}
	}
	for _, n := range nw.nodes {
		n.Run(nil)
		if d := n.dom; d != nil {
			d.closed, n.dom = true, nil
			nw.recycle(d)
		}
	}
	if mem := nw.cfg.Memory; mem != nil {
		mem.packets = append(mem.packets, nw.packets...)
	}
	nw.endpoints, nw.packets, nw.free, nw.timers = nil, nil, nil, nil
	nw.inFlight, nw.queued = 0, 0
}

func (nw *Network) recycle(d *domain) {
	mem := nw.cfg.Memory
	if mem == nil {
		return
	}
	for b, used := range d.used {
		if used {
			clear(d.memory[b*d.stride : (b+1)*d.stride])
		}
	}
	mem.arenas = append(mem.arenas, d.memory[:cap(d.memory)])
	d.memory = nil
}
