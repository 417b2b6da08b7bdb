package attacker

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/seq"
)

var le = binary.LittleEndian

// heardMax is the maximum number of packets that a Replayer stores.
const heardMax = 256

// The type heard holds the packets that a Replayer has overheard.
type heard struct {
	packets []overheard
	total   uint64
}

type overheard struct {
	from, to sim.Port
	data     []byte
}

// add stores a packet, which replaces a random one when the store is full, so that some packets
// stay for very long.
func (h *heard) add(rng *rand.Rand, e *sim.Event) {
	if len(e.Data) > packetBytesMax {
		return
	}
	h.total++
	if len(h.packets) < heardMax {
		h.packets = append(h.packets, overheard{e.From, e.To, append([]byte(nil), e.Data...)})
		return
	}
	if h.total%4 != 0 { // one of four is enough, and cheaper
		return
	}
	p := &h.packets[rng.IntN(heardMax)]
	p.from, p.to = e.From, e.To
	p.data = append(p.data[:0], e.Data...)
}

// replay sends any stored packet again, mostly to its original destination.
func (a *Attacker) replay() {
	if len(a.heard.packets) == 0 {
		return
	}
	for range 1 + a.rng.IntN(3) {
		p := &a.heard.packets[a.rng.IntN(len(a.heard.packets))]
		n := copy(a.buf, p.data)
		switch a.rng.IntN(8) {
		case 0:
			a.send(actMisdirected, p.from, sim.Port{Node: p.to.Node, Index: a.rng.IntN(2)}, n)
		case 1:
			a.send(actMisdirected, p.from, a.anyTarget(), n)
		case 2:
			a.send(actMisdirected, p.to, p.from, n)
		default:
			a.send(actReplay, p.from, p.to, n)
		}
	}
}

// tracksMax is the maximum number of packets that are stored to guess tags.
const tracksMax = 32

// tracks holds the latest packets for an AckForger or a HelloFlood.
type tracks struct {
	latest       [tracksMax]track
	count        int
	incarnations [8]uint64
	hellos       int
	asked        map[uint64]uint64 // incarnations of those who said Hello, by their tags
	cookies      [tracksMax]overheardCookie
	baked        int
}

// overheardCookie is a cookie from a target, with the node whose Hello the target answered.
type overheardCookie struct {
	incarnation, tag uint64
	target           int
	probe            frag.Probe
	addr, value      []byte
}

// addCookie stores the cookie of a Retry packet. The preceding Hello tells for which node the
// cookie was made.
func (t *tracks) addCookie(e *sim.Event, payload []byte, tag uint64) {
	var r frag.Retry
	if frag.DecodeRetry(payload, &r) != nil {
		return
	}
	t.cookies[t.baked%tracksMax] = overheardCookie{
		tag: tag, incarnation: t.asked[tag], target: e.From.Node, probe: r.Probe,
		addr: slices.Clone(r.Addr), value: slices.Clone(r.Cookie),
	}
	t.baked++
}

// cookie draws an overheard cookie.
func (t *tracks) cookie(rng *rand.Rand) (overheardCookie, bool) {
	if t.baked == 0 {
		return overheardCookie{}, false
	}
	return t.cookies[rng.IntN(min(t.baked, tracksMax))], true
}

type track struct {
	to       sim.Port
	conn     uint64
	seq, ack seq.Num
}

func (t *tracks) add(e *sim.Event) {
	if len(e.Data) < frag.FragHeaderBytes || e.Data[0] != frag.Magic {
		return
	}
	if frag.Kind(e.Data[1]&0x0F) == frag.KindHello && len(e.Data) >= frag.HelloBytesMin {
		body := e.Data[frag.FragHeaderBytes:]
		t.incarnations[t.hellos%len(t.incarnations)] = le.Uint64(body)
		t.hellos++
		if t.asked == nil || len(t.asked) > askedMax*tracksMax {
			t.asked = make(map[uint64]uint64)
		}
		t.asked[le.Uint64(body[8:])] = le.Uint64(body)
	}
	if frag.Kind(e.Data[1]&0x0F) == frag.KindRetry {
		var h frag.Header
		if payload, err := frag.Decode(e.Data, &h); err == nil {
			t.addCookie(e, payload, h.Conn)
		}
	}
	if conn := le.Uint64(e.Data[4:]); conn != 0 {
		t.latest[t.count%tracksMax] = track{
			to: e.To, conn: conn,
			seq: seq.Num(le.Uint32(e.Data[16:])), ack: seq.Num(le.Uint32(e.Data[20:])),
		}
		t.count++
	}
}

func (t *tracks) any(rng *rand.Rand) (track, bool) {
	if t.count == 0 {
		return track{}, false
	}
	return t.latest[rng.IntN(min(t.count, tracksMax))], true
}

// incarnation draws an overheard incarnation number, or makes one up.
func (t *tracks) incarnation(rng *rand.Rand) uint64 {
	if t.hellos > 0 && rng.IntN(2) == 0 {
		return max(1, t.incarnations[rng.IntN(min(t.hellos, len(t.incarnations)))])
	}
	return max(1, rng.Uint64())
}
