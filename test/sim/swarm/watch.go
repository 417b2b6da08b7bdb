package swarm

import (
	"encoding/binary"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// observe handles every event of the network.
func (w *world) observe(e *sim.Event) {
	switch e.Kind {
	case sim.KindSent:
		w.packets++
		w.wraps.see(e.Data, false)
		w.packs.see(e.Data)
		if err := w.proofs.sent(e); err != nil {
			w.fail("%w", err)
		}
		if err := w.numbers.sent(e, w.peerOf); err != nil {
			w.fail("%w", err)
		}
		if e.To.Node >= len(w.hosts) { // an attacker's, who only listens
			w.proofs.delivered(e, w.plan.Net.NoSource)
		}
	case sim.KindDelivered:
		w.proofs.delivered(e, w.plan.Net.NoSource)
		w.numbers.delivered(e)
		w.hear(e)
		w.wraps.see(e.Data, true)
	case sim.KindProcessError:
		w.fail("node %d: its process ended: %w", e.From.Node, e.Err)
	default:
	}
	for _, a := range w.attackers {
		a.See(e)
	}
	if w.opts.Observe != nil {
		w.opts.Observe(w.net.Network, e)
	}
}

// peerOf returns the peer's tag of the endpoint with the given tag, if it is known.
func (w *world) peerOf(tag uint64) (uint64, bool) {
	if e := w.byTag[tag]; e != nil {
		return e.peerTag, true
	}
	for _, h := range w.hosts { // some have not been looked at since they have a tag
		for _, l := range h.lives {
			for _, e := range l.ends {
				if e.learn(); e.known && e.tag == tag {
					return e.peerTag, true
				}
			}
		}
	}
	return 0, false
}

// hear records when the latest complete packet of a connection was delivered, which the receiver
// must take for a sign of life. A handshake packet counts only for the endpoint that the packet
// names, because several endpoints of a peer may have learnt the same tag.
func (w *world) hear(e *sim.Event) {
	b := e.Data
	if len(b) < frag.FragHeaderBytes || !whole(b) {
		return
	}
	conn := binary.LittleEndian.Uint64(b[4:])
	if conn == 0 {
		return
	}
	switch frag.Kind(b[1] & 15) {
	case frag.KindHello, frag.KindHelloAck:
		if len(b) < frag.HelloBytesMin {
			return
		}
		if int(b[frag.FragHeaderBytes+68]) != e.To.Index {
			return // names another channel than the one it came through: dropped
		}
		conn = helloKey(conn, binary.LittleEndian.Uint64(b[frag.FragHeaderBytes+8:]))
	case frag.KindReject, frag.KindRetry:
		return
	default:
	}
	key := heardKey{e.To.Node, conn}
	w.heard[key] = e.At
	if frag.Flags(b[2])&frag.FlagAck != 0 {
		n := seq.Num(binary.LittleEndian.Uint32(b[20:]))
		switch was, ok := w.acked[key]; {
		case !ok: // it may acknowledge nothing: which number is the first is not known here
			w.acked[key] = ackedAt{ack: n}
		case was.ack.Before(n):
			w.acked[key] = ackedAt{e.At, n}
		}
	}
}

// ackedAt is the latest new acknowledgement that was delivered, and its time.
type ackedAt struct {
	at  mono.Time
	ack seq.Num
}

// heardKey identifies the endpoint to which packets go.
type heardKey struct {
	node int
	conn uint64
}

// helloKey replaces the connection in the key of handshake packets.
func helloKey(to, from uint64) uint64 { return to ^ from*idFactor }

// The function whole reports whether a datagram has the length that follows from its header.
func whole(b []byte) bool {
	kind, flags := frag.Kind(b[1]&15), frag.Flags(b[2])
	n := frag.FragHeaderBytes
	if kind == frag.KindFrag || kind == frag.KindChunk {
		n = frag.HeaderBytes(kind, flags)
	}
	return len(b) == n+int(binary.LittleEndian.Uint16(b[24:]))
}

// wraps counts the connections in which the last sequence number before an overflow was sent and
// the first one after it was delivered.
type wraps struct {
	count [numWraps]uint64
	seen  map[wrapKey]bool // false: sent before the wrap; true: crossed
}

// The constants below say which numbers overflow.
const (
	wrap16 = iota
	wrap31
	wrap32
	wrapFragID
	numWraps
)

// WrapNames name the entries of Result.Wraps.
var WrapNames = [numWraps]string{
	"sequence numbers at 2^16", "sequence numbers at 2^31", "sequence numbers at 2^32",
	"fragment ids at 2^32",
}

type wrapKey struct {
	conn  uint64
	which int
}

func (c *wraps) see(b []byte, delivered bool) {
	if len(b) < frag.FragHeaderBytes {
		return
	}
	kind := frag.Kind(b[1] & 15)
	if !kind.HasSeq() {
		return
	}
	switch behind(binary.LittleEndian.Uint32(b[16:]), delivered) {
	case 1 << 16:
		c.cross(b, wrap16, delivered)
	case 1 << 31:
		c.cross(b, wrap31, delivered)
	case 0:
		c.cross(b, wrap32, delivered)
	}
	message := kind == frag.KindChunk && frag.Flags(b[2])&frag.FlagPut == 0
	if message && len(b) >= frag.ChunkHeaderBytes &&
		behind(binary.LittleEndian.Uint32(b[32:]), delivered) == 0 {
		c.cross(b, wrapFragID, delivered)
	}
}

// The function behind is the highest number after the overflow that counts.
func behind(n uint32, delivered bool) uint32 {
	if !delivered {
		n++
	}
	return n
}

// cross records a number before or after the overflow.
func (c *wraps) cross(b []byte, which int, delivered bool) {
	key := wrapKey{binary.LittleEndian.Uint64(b[4:]), which}
	crossed, sent := c.seen[key]
	switch {
	case !delivered && !sent:
		if c.seen == nil {
			c.seen = map[wrapKey]bool{}
		}
		c.seen[key] = false
	case delivered && sent && !crossed:
		c.seen[key] = true
		c.count[which]++
	}
}
