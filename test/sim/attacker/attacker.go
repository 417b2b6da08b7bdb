package attacker

import (
	"math/rand/v2"
	"slices"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// Mode is the kind of attack.
type Mode uint8

// The modes are described in the package documentation.
const (
	Blind Mode = iota
	Replayer
	AckForger
	HelloFlood
	Insider
	TagThief
	NumModes
)

var modeNames = [NumModes]string{
	Blind: "blind", Replayer: "replayer", AckForger: "ack forger", HelloFlood: "hello flood",
	Insider: "insider", TagThief: "tag thief",
}

// String returns the mode's name in lower case.
func (m Mode) String() string {
	if m < NumModes {
		return modeNames[m]
	}
	return "unknown"
}

// FeignsLife reports whether the attack may hide a peer's death from a module, because replayed or
// forged packets with a valid tag count as signs of life.
func (m Mode) FeignsLife() bool { return m == Replayer || m == TagThief }

// StopsConnecting reports whether new connections of honest modules may fail during the attack
// (btl.ErrUnreachable, btl.ErrRefused), because the bounded tables for unverified peers are full of
// the attacker's entries. New connections of a tainted pair may fail in every mode.
func (m Mode) StopsConnecting() bool { return false }

// Config selects the attacker and its targets.
type Config struct {
	Net  *sim.Network
	Node *sim.Node // the attacker's own: nobody may open it
	Seed uint64
	Mode Mode
	// Targets are the nodes of the attacked modules, at least one.
	Targets []*sim.Node
	// Rate is the mean time between two actions of the attacker, and 0 means 100 us.
	Rate time.Duration
	// Until is the time at which the attack ends.
	Until mono.Time
	// Regions are the memory regions of the targets that an Insider or a TagThief knows. The
	// attacker never writes inside these regions.
	Regions []Region
	// Reliable says that the network is reliable and ordered, so that an Insider may claim a
	// reliable connection.
	Reliable bool
}

// Region is memory that a target has exposed.
type Region struct {
	Node      int
	Handle    uint64
	SizeBytes uint64
}

// Filler is the value of each byte of the attacker's messages, by which they differ from corrupted
// honest messages.
const Filler = 0xA7

// poison is the byte value for messages of an attacker that no module may deliver. A delivered
// message of these bytes does not count as Forged.
const poison = 0x6B

// Forged reports whether a delivered message may come from an attacker.
func Forged(message []byte) bool {
	for _, b := range message {
		if b != Filler {
			return false
		}
	}
	return true
}

// packetBytesMax is the size of the largest packet that the attacker sends or stores.
const packetBytesMax = 1472

// Attacker is an attack in progress.
type Attacker struct {
	cfg  Config
	rng  *rand.Rand
	tick func()
	own  uint16 // number of the own node
	buf  []byte // the packet being made
	sent uint64
	done [numActs]uint64

	heard  heard   // Replayer
	tracks tracks  // AckForger, HelloFlood
	self   session // Insider
	theft  theft   // TagThief
	hdr    frag.Header
	hello  frag.Hello
}

// New starts an attack, whose first action follows soon after.
func New(cfg Config) *Attacker {
	if cfg.Rate <= 0 {
		cfg.Rate = 100 * time.Microsecond
	}
	a := &Attacker{
		cfg: cfg,
		rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Mode)+0xA77AC)),
		own: uint16(cfg.Node.Index()),
		buf: make([]byte, packetBytesMax),
	}
	a.theft.after = 1 + a.rng.IntN(300)
	a.tick = a.act
	a.schedule()
	return a
}

// schedule sets the time of the next action.
func (a *Attacker) schedule() {
	at := a.cfg.Net.Now().Add(1 + time.Duration(a.rng.Int64N(2*int64(a.cfg.Rate))))
	if at < a.cfg.Until {
		a.cfg.Net.At(at, a.tick)
	}
}

// act performs one action of the attack.
func (a *Attacker) act() {
	switch a.cfg.Mode {
	case Replayer:
		a.replay()
	case AckForger:
		a.forgeAck()
	case HelloFlood:
		a.flood()
	case Insider:
		a.intrude()
	case TagThief:
		a.steal()
	default:
		a.blind()
	}
	a.schedule()
}

// See receives an event of the network, which the attacker overhears if its mode allows it.
func (a *Attacker) See(e *sim.Event) {
	if e.Kind != sim.KindSent {
		return
	}
	switch a.cfg.Mode {
	case Replayer:
		a.heard.add(a.rng, e)
	case AckForger, HelloFlood:
		a.tracks.add(e)
	case Insider:
		if e.To.Node == int(a.own) {
			a.answer(e)
		}
	case TagThief:
		a.overhear(e)
	default:
	}
}

// Sent is the number of packets sent.
func (a *Attacker) Sent() uint64 { return a.sent }

// ByKind is the number of sent packets by their intended kind.
func (a *Attacker) ByKind() map[string]uint64 {
	m := make(map[string]uint64)
	for act, n := range a.done {
		if n > 0 {
			m[actNames[act]] = n
		}
	}
	return m
}

// Kinds lists the kinds of ByKind for all modes.
func Kinds() []string { return slices.Clone(actNames[:]) }

// Mode returns the attack's mode.
func (a *Attacker) Mode() Mode { return a.cfg.Mode }

// Victim returns the two nodes whose connections the attack may harm: the attacker's node and its
// present target, or the pair whose tags the attacker knows. The result ok of Victim is false if
// there is no such pair.
func (a *Attacker) Victim() (from, to int, ok bool) {
	switch {
	case a.cfg.Mode == Insider && a.self.target != nil:
		return int(a.own), a.self.target.Index(), true
	case a.cfg.Mode == TagThief && a.theft.chosen:
		return a.theft.nodes[0], a.theft.nodes[1], true
	}
	return 0, 0, false
}

// Tainted reports whether the attack may ever have harmed connections between the nodes x and y.
func (a *Attacker) Tainted(x, y int) bool {
	if a.cfg.Mode == TagThief && a.theft.chosen {
		n := a.theft.nodes
		return x == n[0] && y == n[1] || x == n[1] && y == n[0]
	}
	return a.cfg.Mode == Insider && (x == int(a.own) || y == int(a.own))
}

// act is the intended kind of a packet.
type act uint8

const (
	actJunk act = iota
	actStranger
	actReplay
	actMisdirected
	actAck
	actNack
	actHello
	actHelloAck
	actReject
	actForeign
	actMalformed
	actFrag
	actChunk
	actBadChunk
	actOverlap
	actUnfinished
	actOversize
	actPut
	actWindow
	actCredit
	actMark
	actPack
	actBadPack
	actUnhandledPack
	actNackRecord
	actPing
	actPart
	numActs
)

var actNames = [numActs]string{
	actJunk: "junk", actStranger: "unknown connection", actReplay: "replay",
	actMisdirected: "misdirected replay", actAck: "ack", actNack: "nack", actHello: "hello",
	actHelloAck: "hello-ack", actReject: "reject", actForeign: "foreign version",
	actMalformed: "malformed hello", actFrag: "frag", actChunk: "chunk",
	actBadChunk: "chunk off the grid", actOverlap: "overlapping chunk",
	actUnfinished: "unfinished fragment", actOversize: "oversize fragment", actPut: "bad put",
	actWindow: "beyond the window", actCredit: "without credit", actMark: "mark",
	actPack: "pack", actBadPack: "bad pack", actUnhandledPack: "pack without handler",
	actNackRecord: "nack of a record", actPing: "ping",
	actPart: "part",
}

// send sends n bytes of the buffer.
func (a *Attacker) send(what act, from, to sim.Port, n int) {
	a.sent++
	a.done[what]++
	a.cfg.Net.Inject(from, to, a.buf[:n])
}

// The method packet sends a packet with header h and n bytes of filler.
func (a *Attacker) packet(what act, from, to sim.Port, h frag.Header, n int) {
	head := frag.HeaderBytes(h.Kind, h.Flags)
	n = max(0, min(n, packetBytesMax-head))
	h.PayloadLen = uint16(n)
	if h.Kind == frag.KindChunk && h.ChunkBytes == 0 {
		a.grid(&h)
	}
	h.Encode(a.buf)
	fill(a.buf[head:][:n], Filler)
	a.send(what, from, to, head+n)
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// anyTarget draws a target's port.
func (a *Attacker) anyTarget() sim.Port {
	return sim.Port{Node: a.target().Index(), Index: a.rng.IntN(2)}
}

func (a *Attacker) target() *sim.Node { return a.cfg.Targets[a.rng.IntN(len(a.cfg.Targets))] }

// anySource draws the claimed source of a packet, which is the attacker's node or another one.
func (a *Attacker) anySource() sim.Port {
	if a.rng.IntN(4) == 0 {
		return sim.Port{Node: int(a.own), Index: a.rng.IntN(2)}
	}
	return a.anyTarget()
}

// chance returns true with probability 1/n.
func (a *Attacker) chance(n int) bool { return a.rng.IntN(n) == 0 }

func (a *Attacker) num() seq.Num { return seq.Num(a.rng.Uint32()) }

// The method near draws a number that is slightly smaller or larger than n.
func (a *Attacker) near(n seq.Num) seq.Num { return n + seq.Num(a.rng.IntN(64)) - 32 }

// The method grid gives a chunk a valid grid, if there is one for its offset and length.
func (a *Attacker) grid(h *frag.Header) {
	n := uint32(max(h.PayloadLen, frag.ChunkBytesMin))
	h.ChunkBytes = uint16(n)
	first := n
	if rest := h.OffsetBytes % n; h.OffsetBytes > 0 && rest > 0 {
		first = rest
	} else if h.OffsetBytes == 0 {
		first = uint32(h.PayloadLen)
	}
	h.FirstBytes = uint16(min(first, h.SizeBytes))
}
