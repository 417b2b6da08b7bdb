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

// numbers checks packet numbers and Pongs. The following rules apply even to tainted connections:
// an endpoint uses each packet number of a channel once, and each Pong answers one Ping of the
// connection's peer on the same channel, with the Ping's nonce and at most its size, up to
// pongsAtMost in pongsEvery.
type numbers struct {
	used  map[numberKey][]numberSet
	ends  map[numberKey]map[uint64]bool // of a node that have said Hello to a peer's end
	asked map[pingKey][]ping            // that were not answered
	pongs map[numberKey]*pongCount
}

// numberKey identifies a connection together with a channel of a module. Several endpoints may have
// the same peer tag, because a late Hello, or a Hello of an attacker, may open a new endpoint after
// the earlier one was given up. A Hello names its endpoint, and any other number may occur once for
// each endpoint that has existed.
type numberKey struct {
	from  sim.Port
	conn  uint64
	hello uint64 // the tag of who says Hello, else 0
}

// pingKey identifies a Ping that a module has received on a channel.
type pingKey struct {
	at    sim.Port
	nonce uint64
}

type ping struct {
	conn      uint64 // the tag of who was asked
	sizeBytes int
}

// pongCount counts the Pongs of an endpoint on the command channel and the data channel since the
// time of the first Pong.
type pongCount struct {
	since mono.Time
	count int
}

// Two intervals of a module's limit for Pongs may lie within one interval here (docs/protocol.md,
// section 17).
const (
	pongsEvery  = 10 * time.Millisecond
	pongsAtMost = 2 * 32
)

// numberSet is a set of numbers, which are dense from 1 on.
type numberSet struct{ bits []uint64 }

// numbersFar is larger than any number of a run.
const numbersFar = 1 << 24

// add reports whether n is a new number.
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

// The method sent checks a packet that a module sends. peerOf returns the peer's tag of the
// endpoint with the given tag.
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

// helloTag returns the tag of the endpoint that a packet names as its sender, or 0.
func helloTag(kind frag.Kind, b []byte) uint64 {
	if (kind == frag.KindHello || kind == frag.KindHelloAck) && len(b) >= frag.HelloBytesMin {
		return binary.LittleEndian.Uint64(b[frag.FragHeaderBytes+8:])
	}
	return 0
}

// add reports whether a packet to a connection may have the number n.
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

// pong checks a Pong.
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

// answers reports whether a Pong answers a Ping, and marks the Ping as answered.
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

// delivered records a Ping that a module has received.
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
