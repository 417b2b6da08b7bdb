package attacker

import (
	"slices"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// session is a connection that an Insider has opened as an honest peer would.
type session struct {
	link

	target          *sim.Node
	incarnation     uint64
	tag             uint64
	peerIncarnation uint64
	asked           int // rounds of Hellos
	left            int // acts until it goes away
	up              bool
	cookies         [frag.ProbeCount][]byte
}

// askedMax is how many rounds of Hellos the Insider sends to a target that does not answer.
const askedMax = 12

// intrude connects to a target as an honest peer does, misuses the connection for a while, and
// mostly leaves without a goodbye.
func (a *Attacker) intrude() {
	s := &a.self
	switch {
	case s.target == nil || s.asked > askedMax || s.left == 0:
		a.beginSession()
	case !s.up:
		s.asked++
		a.connect()
	default:
		s.left--
		a.abuse(&s.link)
	}
}

func (a *Attacker) beginSession() {
	incarnation := a.self.incarnation
	if incarnation == 0 || a.chance(2) {
		incarnation = max(1, a.rng.Uint64())
	}
	first := a.num()
	if a.chance(2) { // near a wrap
		first = []seq.Num{0, 1 << 16, 1 << 31}[a.rng.IntN(3)] - seq.Num(a.rng.IntN(64))
	}
	a.self = session{
		target: a.target(), incarnation: incarnation, tag: max(1, a.rng.Uint64()),
		left: 20 + a.rng.IntN(2000),
		link: link{
			from: int(a.own), base: first, next: first, count: first, fragID: a.rng.Uint32(),
			window: 1, room: packetBytesMax - frag.ChunkHeaderBytes,
		},
	}
	a.self.to = a.self.target.Index()
	if a.cfg.Reliable && !a.chance(4) {
		a.self.counted = true
		a.self.left = 20 + a.rng.IntN(200) // soon one of them ends it
	}
	a.connect()
}

// connect sends Hellos on the command channel and the data channel, with the received cookies, and
// with the target's tag once it is known.
func (a *Attacker) connect() {
	s := &a.self
	a.hello = frag.Hello{
		Incarnation: s.incarnation, Tag: s.tag,
		CommandName: sim.Port{Node: int(a.own)}.Name(),
		DataName:    sim.Port{Node: int(a.own), Index: 1}.Name(),
		WindowPkts:  4096, FragBytesMax: 1 << 30, AckDelayUs: 50,
		MTUBytes: packetBytesMax, CommandBytes: 768, Credit: 1,
		VersionMin: frag.Version, VersionMax: frag.Version,
	}
	if s.counted {
		a.hello.Features = frag.FeatureReliable
	}
	if len(s.cookies[0]) > 0 && len(s.cookies[1]) > 0 {
		a.hello.CommandCookie, a.hello.DataCookie = s.cookies[0], s.cookies[1]
	}
	probes := frag.Probe(frag.ProbeCount)
	if s.conn != 0 {
		probes, a.hello.Proven = 1, frag.ProvenAll
		s.up = true
	}
	for p := range probes {
		a.hello.Probe = p
		h := frag.Header{Kind: frag.KindHello, Conn: s.conn, Seq: s.base}
		port := int(p)
		n := a.hello.Encode(a.buf, &h)
		a.send(actHello, sim.Port{Node: int(a.own), Index: port}, sim.Port{Node: s.to, Index: port}, n)
	}
}

// The method answer handles a packet that the target has sent to this node.
func (a *Attacker) answer(e *sim.Event) {
	s := &a.self
	payload, err := frag.Decode(e.Data, &a.hdr)
	h := &a.hdr
	if err != nil || h.Conn != s.tag {
		return
	}
	if h.Kind == frag.KindHelloAck {
		a.learn(h, payload)
		return
	}
	var r frag.Retry
	if h.Kind == frag.KindRetry && frag.DecodeRetry(payload, &r) == nil {
		s.cookies[r.Probe] = slices.Clone(r.Cookie)
		return
	}
	s.link.hear(h)
}

// learn reads the target's parameters from a packet.
func (a *Attacker) learn(h *frag.Header, payload []byte) {
	s := &a.self
	var hello frag.Hello
	if frag.DecodeHello(payload, &hello) != nil || s.conn != 0 {
		return
	}
	s.conn, s.peerIncarnation = hello.Tag, hello.Incarnation
	s.peerNext, s.acked = h.Seq, h.Seq-1
	s.window = hello.WindowPkts
	s.room = uint32(min(packetBytesMax, int(hello.MTUBytes)) - frag.ChunkHeaderBytes)
}

// hear stores the numbers of a packet that the target has sent.
func (l *link) hear(h *frag.Header) {
	if h.Flags&frag.FlagAck != 0 {
		// A jump of the acknowledged numbers means that the field base was wrong.
		if d := (h.Ack + 1).Sub(l.base); d > 0 || d < -1<<16 {
			l.base = h.Ack + 1
			if l.next = l.next.Max(l.base); d < 0 {
				l.next = l.base
			}
		}
	}
	if h.Kind.HasSeq() {
		l.peerNext = l.peerNext.Max(h.Seq + 1)
	}
}
