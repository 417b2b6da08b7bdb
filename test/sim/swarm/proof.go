package swarm

import (
	"fmt"

	"gobtl/fabric/sim"
	"gobtl/frag"
)

// proofs checks the validation of addresses. An address is validated on a channel when it has
// returned a value that was sent only to this address. Before the validation an answer must not be
// longer than the packet from the address. Before the validation only answers, and the Hellos of a
// connecting node, may be sent to the address.
//
//	Retry delivered at X    -- cookie -->   Hello delivered with that cookie, for X     X is proven
//	Hello delivered at X    -- nonce  -->   HelloAck delivered with that nonce          X is proven
//
// If an attacker has overheard the cookies of X, X need not have received the cookies itself. A
// Hello that X itself has sent, with the tag of its peer, is believed when the Hello says on which
// channels X has received answers.
type proofs struct {
	paths   map[pathKey]*pathProof
	cookies map[string]nonce
	nonces  map[uint64][]nonce // the same may be drawn more than once
	said    map[string]pathKey // Hellos with a tag as modules have sent them: none is forged
	hdr     frag.Header
	hello   frag.Hello
}

// pathKey identifies an address together with a channel of a node.
type pathKey struct {
	from, to sim.Port
}

// nonce records the address to which a nonce or a cookie was sent, and whether it arrived there.
type nonce struct {
	pathKey

	told bool
}

type pathProof struct {
	in, out int // bytes that came from there, and that were answered, without proof
	proven  bool
}

func (p *proofs) path(k pathKey) *pathProof {
	if p.paths == nil {
		p.paths, p.cookies = map[pathKey]*pathProof{}, map[string]nonce{}
		p.nonces, p.said = map[uint64][]nonce{}, map[string]pathKey{}
	}
	path := p.paths[k]
	if path == nil {
		path = new(pathProof)
		p.paths[k] = path
	}
	return path
}

// The method sent checks a packet of a module.
func (p *proofs) sent(e *sim.Event) error {
	path := p.path(pathKey{e.From, e.To})
	if len(e.Data) < 2 {
		return nil
	}
	payload, err := frag.Decode(e.Data, &p.hdr)
	if err == nil && p.hdr.Kind == frag.KindHello && p.hdr.Conn != 0 {
		p.said[string(e.Data)] = pathKey{e.From, e.To}
	}
	if path.proven {
		return nil
	}
	if err == nil && p.hdr.Kind == frag.KindHello && frag.DecodeHello(payload, &p.hello) == nil {
		p.asked(pathKey{e.From, e.To}, p.hello.Nonce)
	}
	if err == nil && p.hdr.Kind == frag.KindRetry {
		var r frag.Retry
		if frag.DecodeRetry(payload, &r) == nil && p.cookies[string(r.Cookie)] == (nonce{}) {
			p.cookies[string(r.Cookie)] = nonce{pathKey: pathKey{e.From, e.To}}
		}
	}
	switch kind := frag.Kind(e.Data[1] & 15); kind {
	case frag.KindHello: // of who connects, at his caller's wish
	case frag.KindRetry, frag.KindReject, frag.KindHelloAck:
		path.out += len(e.Data)
		if path.out > path.in {
			return fmt.Errorf("%v answers %v, where nobody has proven to receive, with %d bytes, for %d",
				e.From, e.To, path.out, path.in)
		}
	default:
		return fmt.Errorf("%v sends a %v to %v, where nobody has proven to receive", e.From, kind, e.To)
	}
	return nil
}

// The method asked records the nonce of a sent Hello.
func (p *proofs) asked(way pathKey, value uint64) {
	for _, n := range p.nonces[value] {
		if n.pathKey == way {
			return
		}
	}
	p.nonces[value] = append(p.nonces[value], nonce{pathKey: way})
}

// delivered records the address that a packet validates for its receiver, and the proofs that the
// sender of the packet can make with its content.
func (p *proofs) delivered(e *sim.Event, noSource bool) {
	if len(e.Data) < 2 || e.Data[0] != frag.Magic {
		return
	}
	kind := frag.Kind(e.Data[1] & 15)
	payload, err := frag.Decode(e.Data, &p.hdr)
	if kind == frag.KindHello {
		way := pathKey{e.To, e.From}
		if noSource {
			if way.to = p.claimed(e, payload, err); err != nil {
				way.from.Index = 0 // of another version it is the command channel's address
			}
		}
		p.path(way).in += len(e.Data)
	}
	if err != nil {
		return
	}
	switch kind {
	case frag.KindHello, frag.KindHelloAck:
		if frag.DecodeHello(payload, &p.hello) == nil {
			p.heardHello(e, kind)
		}
	case frag.KindRetry:
		var r frag.Retry
		if frag.DecodeRetry(payload, &r) == nil {
			if c, ok := p.cookies[string(r.Cookie)]; ok && c.to == e.To {
				c.told = true
				p.cookies[string(r.Cookie)] = c
			}
		}
	default:
	}
}

// The method claimed returns the address that a Hello claims, as the receiver must understand it.
func (p *proofs) claimed(e *sim.Event, payload []byte, err error) (port sim.Port) {
	var name []byte
	if err == nil && frag.DecodeHello(payload, &p.hello) == nil {
		if name = p.hello.CommandName; p.hello.Probe == frag.ProbeData {
			name = p.hello.DataName
		}
	} else if f, ok := frag.ForeignHello(e.Data); ok {
		name = f.CommandName
	} else {
		return sim.Port{Node: -1}
	}
	if port, err = sim.ParsePort(name); err != nil {
		return sim.Port{Node: -1}
	}
	return port
}

// heardHello records the nonce of a Hello, and the addresses that the Hello or its answer
// validates.
func (p *proofs) heardHello(e *sim.Event, kind frag.Kind) {
	m := &p.hello
	if kind == frag.KindHelloAck {
		for _, n := range p.nonces[m.Nonce] {
			if n.told && n.from == e.To {
				p.path(n.pathKey).proven = true
			}
		}
		return
	}
	if way, ok := p.said[string(e.Data)]; ok && way.to == e.To {
		for channel := range frag.ProbeCount {
			if m.Proven&frag.Probe(channel).Bit() != 0 {
				from := sim.Port{Node: e.To.Node, Index: channel}
				p.path(pathKey{from, sim.Port{Node: way.from.Node, Index: channel}}).proven = true
			}
		}
	}
	for i := range p.nonces[m.Nonce] {
		if n := &p.nonces[m.Nonce][i]; n.to == e.To {
			n.told = true
		}
	}
	for channel, claim := range [...][2][]byte{
		{m.CommandName, m.CommandCookie}, {m.DataName, m.DataCookie},
	} {
		way, ok := p.cookies[string(claim[1])]
		to, err := sim.ParsePort(claim[0])
		from := sim.Port{Node: e.To.Node, Index: channel}
		if ok && way.told && err == nil && way.to == to && way.from == from {
			p.path(way.pathKey).proven = true
		}
	}
}
