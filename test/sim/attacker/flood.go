package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// flood sends Hellos of many unknown senders.
func (a *Attacker) flood() {
	for range 1 + a.rng.IntN(4) {
		from, to := a.anySource(), a.anyTarget()
		switch a.rng.IntN(16) {
		case 0:
			a.reject(from, to, a.guess())
		case 1: // an answer that nobody asked for
			a.fillHello()
			a.send(actHelloAck, from, to, a.encodeHello(frag.KindHelloAck, a.guess()))
		default:
			a.helloOf(from, to)
		}
	}
}

// helloOf sends a Hello of another node or of a node that does not exist. Most Hellos of helloOf
// are well formed, some have another version, and some have an invalid field.
func (a *Attacker) helloOf(from, to sim.Port) {
	a.fillHello()
	if !a.chance(8) {
		a.hello.Probe = frag.Probe(to.Index)
	}
	conn := uint64(0)
	if a.chance(8) {
		conn = a.guess()
	}
	if conn == 0 && !a.chance(3) {
		a.showCookies()
	}
	n := a.encodeHello(frag.KindHello, conn)
	switch a.rng.IntN(10) {
	case 0:
		a.buf[1] = byte(3+a.rng.IntN(13))<<4 | byte(frag.KindHello)
		a.send(actForeign, from, to, n)
	case 1:
		a.buf[a.rng.IntN(n)] ^= 1 << a.rng.IntN(8)
		a.send(actMalformed, from, to, n)
	case 2:
		a.send(actMalformed, from, to, a.rng.IntN(n))
	case 3:
		a.helloV1(from, to)
	default:
		a.send(actHello, from, to, n)
	}
}

// helloV1 sends a Hello of version 1.
func (a *Attacker) helloV1(from, to sim.Port) {
	const bytesV1 = 208
	b := a.buf[:bytesV1]
	for i := range b {
		b[i] = byte(a.rng.Uint32())
	}
	b[0], b[1] = frag.Magic, 1<<4|byte(frag.KindHello)
	name := a.hello.CommandName
	b[74] = byte(len(name))
	copy(b[80:144], name)
	a.send(actForeign, from, to, bytesV1)
}

// showCookies puts forged or overheard cookies into the Hello. Overheard cookies are sent in the
// name of their owners, with the addresses of the owners or with other addresses.
func (a *Attacker) showCookies() {
	for _, to := range []*[]byte{&a.hello.CommandCookie, &a.hello.DataCookie} {
		*to = make([]byte, 20)
		for i := range *to {
			(*to)[i] = byte(a.rng.Uint32())
		}
	}
	for range 2 {
		c, ok := a.tracks.cookie(a.rng)
		if !ok {
			return
		}
		if a.chance(2) || a.hello.Incarnation == 0 {
			a.hello.Incarnation, a.hello.Tag = max(1, c.incarnation), c.tag
		}
		name, cookie := &a.hello.CommandName, &a.hello.CommandCookie
		if c.probe == frag.ProbeData {
			name, cookie = &a.hello.DataName, &a.hello.DataCookie
		}
		if *cookie = c.value; !a.chance(3) {
			*name = c.addr
		}
	}
}

// fillHello draws the content of a Hello.
func (a *Attacker) fillHello() {
	cmd, data := a.namesOf()
	a.hello = frag.Hello{
		Incarnation: a.tracks.incarnation(a.rng), Tag: max(1, a.rng.Uint64()),
		CommandName: cmd, DataName: data,
		WindowPkts: 1 + a.rng.Uint32N(frag.WindowMax), FragBytesMax: max(1, a.rng.Uint32()),
		AckDelayUs: a.rng.Uint32N(frag.AckDelayUsMax + 1),
		MTUBytes:   uint16(frag.MTUBytesMin + a.rng.IntN(1<<16-frag.MTUBytesMin)),
		CommandBytes: uint16(
			frag.MTUBytesMin + a.rng.IntN(1<<16-frag.MTUBytesMin)),
		Credit:     uint16(a.rng.Uint32()),
		VersionMin: frag.Version, VersionMax: frag.Version + uint8(a.rng.IntN(3)),
		Probe: frag.Probe(a.rng.IntN(frag.ProbeCount)),
	}
	if a.chance(3) {
		a.hello.Proven = uint8(a.rng.IntN(int(frag.ProvenAll) + 1))
	}
	switch a.rng.IntN(8) {
	case 0:
		a.hello.Expected = a.rng.Uint64()
	case 1:
		a.hello.Expected = a.tracks.incarnation(a.rng)
	case 2:
		a.hello.Features = a.rng.Uint64()
		a.hello.Required = a.hello.Features & a.rng.Uint64() & a.rng.Uint64()
	}
}

// namesOf draws the addresses that a Hello claims, where each channel may have the attacker's
// address, an honest node's address, an unused address, or none.
func (a *Attacker) namesOf() (cmd, data []byte) {
	port := sim.Port{Node: int(a.own)}
	switch a.rng.IntN(8) {
	case 0, 1:
		port.Node = a.target().Index()
	case 2:
		port.Node, port.Index = a.rng.IntN(1<<16), a.rng.IntN(1<<16)
	case 3:
		name := make([]byte, a.rng.IntN(frag.AddrBytesMax+1))
		for i := range name {
			name[i] = byte(a.rng.Uint32())
		}
		return name, name
	case 4, 5:
		mine, other := sim.Port{Node: int(a.own)}, sim.Port{Node: a.target().Index()}
		if a.chance(2) {
			mine, other = other, mine
		}
		other.Index = 1
		return mine.Name(), other.Name()
	}
	cmd = port.Name()
	if port.Index < 1<<16-1 {
		port.Index++
	}
	return cmd, port.Name()
}

// encodeHello encodes the packet, and returns its length.
func (a *Attacker) encodeHello(kind frag.Kind, conn uint64) int {
	h := frag.Header{Kind: kind, Conn: conn, Seq: a.num()}
	return a.hello.Encode(a.buf, &h)
}
