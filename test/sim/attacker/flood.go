package attacker

import (
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// flood sends Hellos of ever new strangers.
func (a *Attacker) flood() {
	for range 1 + a.rng.IntN(4) {
		from, to := a.anySource(), a.anyTarget()
		switch a.rng.IntN(16) {
		case 0:
			a.reject(from, to, a.guess())
		case 1: // an answer that nobody asked for
			a.fillHello()
			a.encodeHello(frag.KindHelloAck, a.guess())
			a.send(actHelloAck, from, to, a.helloSize())
		default:
			a.helloOf(from, to)
		}
	}
}

// helloOf sends a Hello of somebody who does not exist, or is somebody else: most of them well
// formed, some of another version, some with a field that is not.
func (a *Attacker) helloOf(from, to sim.Port) {
	a.fillHello()
	if !a.chance(8) {
		a.hello.Probe = a.hello.Probe&^frag.ProbeData | frag.Probe(to.Index)
	}
	conn := uint64(0)
	if a.chance(8) {
		conn = a.guess()
	}
	a.encodeHello(frag.KindHello, conn)
	n := a.helloSize()
	switch a.rng.IntN(10) {
	case 0:
		a.buf[1] = byte(2+a.rng.IntN(14))<<4 | byte(frag.KindHello)
		a.send(actForeign, from, to, n)
	case 1:
		a.buf[a.rng.IntN(min(n, frag.HelloBytes))] ^= 1 << a.rng.IntN(8)
		a.send(actMalformed, from, to, n)
	case 2:
		a.send(actMalformed, from, to, a.rng.IntN(n))
	default:
		a.send(actHello, from, to, n)
	}
}

// fillHello draws what a Hello says.
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
	}
}

// namesOf draws whose addresses a Hello claims: its own, an honest node's, nobody's, no addresses.
func (a *Attacker) namesOf() (cmd, data []byte) {
	port := sim.Port{Node: int(a.own)}
	switch a.rng.IntN(6) {
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
	}
	cmd = port.Name()
	if port.Index < 1<<16-1 {
		port.Index++
	}
	return cmd, port.Name()
}

func (a *Attacker) encodeHello(kind frag.Kind, conn uint64) {
	h := frag.Header{Kind: kind, Conn: conn, Seq: a.num()}
	a.hello.Encode(a.buf, &h, a.helloSize())
}

// helloSize is the size that the probe in the Hello stands for.
func (a *Attacker) helloSize() int {
	switch {
	case a.hello.Probe&frag.ProbeFull == 0:
		return frag.HelloBytes
	case a.hello.Probe&frag.ProbeData == 0:
		return max(frag.HelloBytes, min(int(a.hello.CommandBytes), 768))
	}
	return max(frag.HelloBytes, min(int(a.hello.MTUBytes), packetBytesMax))
}
