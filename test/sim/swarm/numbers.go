package swarm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// numbers is the judge of packet numbers and Pongs. Both rules hold for whatever a module is sent,
// so nothing is tainted here:
//
//   - no number stands in two packets that an end sends on a channel;
//   - a Pong answers a Ping that came to that end, one Pong for one Ping, with its nonce, by its
//     channel, to that connection's peer; it is not larger; and there are not more than
//     pongsAtMost in pongsEvery.
type numbers struct {
	used  map[numberKey][]numberSet
	ends  map[numberKey]map[uint64]bool // of a node that have said Hello to a peer's end
	asked map[pingKey][]ping            // that were not answered
	pongs map[numberKey]*pongCount
}

// numberKey is a way from a module's channel to a connection. A peer's tag may stand in several:
// an end that was given up is followed by another when a Hello comes late, also one that an
// attacker had brought as far as to be connected. Hellos name the end that sends them; of all else
// a number may stand in as many packets as there have been ends.
type numberKey struct {
	from  sim.Port
	conn  uint64
	hello uint64 // the tag of who says Hello, else 0
}

// pingKey is a question that came to a module by a channel.
type pingKey struct {
	at    sim.Port
	nonce uint64
}

type ping struct {
	conn      uint64 // the tag of who was asked
	sizeBytes int
}

// pongCount counts the Pongs of an end by both channels since one of them.
type pongCount struct {
	since mono.Time
	count int
}

// What an end answers: docs/protocol.md, section 17. Two spans in which the module counts may lie
// within one here.
const (
	pongsEvery  = 10 * time.Millisecond
	pongsAtMost = 2 * 32
)

// numberSet is a set of numbers, which are dense from 1 on.
type numberSet struct{ bits []uint64 }

// numbersFar is further than a run gets.
const numbersFar = 1 << 24

// add says whether n is new.
func (s *numberSet) add(n uint32) bool {
	word, bit := int(n/64), uint64(1)<<(n%64)
	if word >= len(s.bits) {
		s.bits = append(s.bits, make([]uint64, word+1-len(s.bits)+len(s.bits)/2)...)
	}
	if s.bits[word]&bit != 0 {
		return false
	}
	s.bits[word] |= bit
	return true
}

// sent judges a packet of a module. peerOf is the peer's tag of the end with a tag.
func (c *numbers) sent(e *sim.Event, peerOf func(tag uint64) (uint64, bool)) error {
	b := e.Data
	if len(b) < frag.FragHeaderBytes {
		return nil // a Reject of version 1
	}
	kind, conn := frag.Kind(b[1]&15), binary.LittleEndian.Uint64(b[4:])
	n := binary.LittleEndian.Uint32(b[12:])
	if conn == 0 || kind == frag.KindReject || kind == frag.KindRetry {
		if n != 0 {
			return fmt.Errorf("%v sends a %v with number %d, which counts nowhere", e.From, kind, n)
		}
		return nil
	}
	if n == 0 || n >= numbersFar || !c.add(e.From, conn, helloTag(kind, b), n) {
		return fmt.Errorf("%v sends a %v to %x with number %d, which is none or was used", e.From, kind,
			conn, n)
	}
	if kind == frag.KindPong {
		return c.pong(e, conn, peerOf)
	}
	return nil
}

// helloTag is the end that a packet names as its sender's, 0 if it names none.
func helloTag(kind frag.Kind, b []byte) uint64 {
	if (kind == frag.KindHello || kind == frag.KindHelloAck) && len(b) >= frag.HelloBytesMin {
		return binary.LittleEndian.Uint64(b[frag.FragHeaderBytes+8:])
	}
	return 0
}

// add says whether a packet to a connection may have the number n.
func (c *numbers) add(from sim.Port, conn, hello uint64, n uint32) bool {
	if c.used == nil {
		c.used, c.ends = map[numberKey][]numberSet{}, map[numberKey]map[uint64]bool{}
	}
	node := numberKey{from: sim.Port{Node: from.Node}, conn: conn}
	most := 1
	if hello == 0 {
		most = max(most, len(c.ends[node]))
	} else {
		if c.ends[node] == nil {
			c.ends[node] = map[uint64]bool{}
		}
		c.ends[node][hello] = true
	}
	key := numberKey{from: from, conn: conn, hello: hello}
	sets := c.used[key]
	for i := range sets {
		if sets[i].add(n) {
			return true
		}
	}
	if len(sets) == most {
		return false
	}
	c.used[key] = append(sets, numberSet{})
	return c.used[key][len(sets)].add(n)
}

// pong judges a Pong.
func (c *numbers) pong(e *sim.Event, conn uint64, peerOf func(uint64) (uint64, bool)) error {
	if len(e.Data) < frag.PongBytes {
		return fmt.Errorf("%v sends a Pong of %d bytes", e.From, len(e.Data))
	}
	nonce := frag.NonceOf(e.Data[frag.FragHeaderBytes:])
	if !c.answers(e, conn, nonce, peerOf) {
		return fmt.Errorf("%v sends a Pong of %d bytes to %x, which has not sent such a Ping", e.From,
			len(e.Data), conn)
	}
	key := numberKey{from: sim.Port{Node: e.From.Node}, conn: conn}
	if c.pongs == nil {
		c.pongs = map[numberKey]*pongCount{}
	}
	p := c.pongs[key]
	if p == nil || e.At.Sub(p.since) >= pongsEvery {
		p = &pongCount{since: e.At}
		c.pongs[key] = p
	}
	if p.count++; p.count > pongsAtMost {
		return fmt.Errorf("%v sends %d Pongs to %x within %v", e.From, p.count, conn, e.At.Sub(p.since))
	}
	return nil
}

// answers says whether a Pong answers a Ping, which is answered by that.
func (c *numbers) answers(
	e *sim.Event, conn, nonce uint64, peerOf func(uint64) (uint64, bool),
) bool {
	key := pingKey{e.From, nonce}
	for i, p := range c.asked[key] {
		if peer, ok := peerOf(p.conn); ok && peer == conn && len(e.Data) <= p.sizeBytes {
			c.asked[key] = slices.Delete(c.asked[key], i, i+1)
			return true
		}
	}
	return false
}

// delivered notes a Ping that a module has got.
func (c *numbers) delivered(e *sim.Event) {
	b := e.Data
	if len(b) < frag.PingBytesMin || frag.Kind(b[1]&15) != frag.KindPing {
		return
	}
	if c.asked == nil {
		c.asked = map[pingKey][]ping{}
	}
	key := pingKey{e.To, frag.NonceOf(b[frag.FragHeaderBytes:])}
	c.asked[key] = append(c.asked[key], ping{binary.LittleEndian.Uint64(b[4:]), len(b)})
}
