package sim

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// Path describes the network between two nodes, in one direction. The zero Path is a perfect
// network without delay. Each probability in a Path applies to each datagram separately.
type Path struct {
	// Delay is the constant part of every datagram's delay. In addition to Delay, each datagram has a
	// random delay with a uniform distribution in [0,Jitter). With Jitter, later datagrams can
	// overtake earlier datagrams.
	Delay, Jitter time.Duration
	// BytesPerSecond is the rate of the line. A BytesPerSecond of 0 means an infinite rate.
	BytesPerSecond int
	// QueueBytes is the largest number of bytes that wait in the queue of the line, which are bytes
	// that the line has accepted and not yet sent. The path drops a datagram that would exceed
	// QueueBytes, unless the line is idle. A QueueBytes of 0 means no limit.
	QueueBytes int
	// All paths with the same Line share this line as their bottleneck. For each datagram, the values
	// BytesPerSecond and QueueBytes of its own Path apply, even if other Paths share the Line. If Line
	// is nil, the path has a separate line.
	Line *Line

	// Loss is the probability that a datagram is lost, independently of the loss of other
	// datagrams.
	Loss float64
	// A path is either in the good state or in the bad state (the model of Gilbert and Elliott).
	// Before each datagram, a path in the good state enters the bad state with the probability
	// BurstStart. Before each datagram, a path in the bad state enters the good state with the
	// probability BurstEnd. In the bad state, a datagram is lost with the probability BurstLoss.
	BurstStart, BurstEnd, BurstLoss float64
	// Duplicate is the probability that the path delivers a second copy of a datagram. Reorder is the
	// probability that the path delays a datagram by an additional random time of up to ReorderDelay.
	Duplicate, Reorder float64
	ReorderDelay       time.Duration
	// BitFlip is the probability that one to three bits of a datagram are inverted. Truncate is the
	// probability that a datagram is truncated. Junk is the probability that the path delivers an
	// additional datagram of random bytes. Replay is the probability that the path delivers one of the
	// 64 most recent datagrams again, up to two seconds later.
	BitFlip, Truncate, Junk, Replay float64
	// If Checksum is true, the receiver drops datagrams that BitFlip has damaged, as with UDP's
	// checksum.
	Checksum bool
	// If Cut is true, the path loses all datagrams.
	Cut bool
	// MTUBytes is the size of the largest datagram that the path carries. The path loses datagrams of
	// more than MTUBytes bytes. An MTUBytes of 0 means no limit.
	MTUBytes int
	// If MTUTold is true, the path reports its MTU to the sender of the first datagram that is too
	// large, as ICMP does. After a path has reported its MTU, Post refuses all larger datagrams for
	// the path, until SetPath is called for the path.
	MTUTold bool
}

const (
	replayRing = 64
	nsPerS     = int(time.Second)
)

// Line is a transmission line, which sends one datagram after the other. The zero Line is an idle
// line. A Line must be used by only one Network.
type Line struct {
	free mono.Time // when the line has sent all accepted datagrams
	rest int       // fraction of a nanosecond to be added to free, in units of 1/BytesPerSecond ns
}

// FreeAt returns the virtual time at which the line will have sent all datagrams that it has
// accepted. If the line is idle, FreeAt returns a time that is not in the future.
func (line *Line) FreeAt() mono.Time { return line.free }

// The type "link" is a Path with its state, which includes the line and the random number
// generator.
type link struct {
	nw   *Network
	path Path
	dice dice

	burst bool // in the bad state
	own   Line

	// In a reliable network, the field "last" holds for each pair of endpoints the arrival time of the
	// datagram that was sent last.
	last map[[2]int]mono.Time

	old     []*packet // the last datagrams, for Replay
	oldNext int

	told int // Path.MTUBytes as told to the sender, or 0
}

func newLink(nw *Network, from, to int) *link {
	return &link{nw: nw, dice: newDice(nw.cfg.Seed, dicePath, from, to)}
}

func (nw *Network) link(from, to int) *link {
	if from < 0 || to < 0 || from >= len(nw.nodes) || to >= len(nw.nodes) {
		return nw.nowhere
	}
	n := nw.nodes[from]
	if to >= len(n.out) {
		n.out = append(n.out, make([]*link, len(nw.nodes)-len(n.out))...)
	}
	if n.out[to] == nil {
		n.out[to] = newLink(nw, from, to)
	}
	return n.out[to]
}

// SetPath sets the Path from one node to another, for datagrams that leave after the call of
// SetPath. The arguments "from" and "to" may be the same node.
func (nw *Network) SetPath(from, to *Node, p Path) {
	l := nw.link(from.index, to.index)
	l.path, l.told = p, 0
}

// Path returns the Path from one node to another node.
func (nw *Network) Path(from, to *Node) Path { return nw.link(from.index, to.index).path }

// The method "carry" takes a datagram that leaves its node, injects the faults of the path, and
// puts the datagram in transit unless the path loses the datagram.
func (l *link) carry(p *packet, v Verdict) {
	nw, path := l.nw, &l.path
	if nw.cfg.Reliable {
		l.carryReliably(p, v)
		return
	}
	if path.Junk > 0 || path.Replay > 0 {
		l.extras(p)
	}
	if path.Cut {
		nw.drop(KindCut, p)
		return
	}
	if path.MTUBytes > 0 && len(p.data) > path.MTUBytes {
		if path.MTUTold {
			l.told = path.MTUBytes
		}
		nw.drop(KindTooLong, p)
		return
	}
	at, ok := l.line(len(p.data))
	if !ok {
		nw.drop(KindTailDrop, p)
		return
	}
	if kind := l.lost(); kind != KindSent {
		nw.drop(kind, p)
		return
	}
	copies := v.Copies
	if l.dice.chance(path.Duplicate) {
		copies++
	}
	for range copies {
		c := nw.clone(p)
		nw.datagram(KindDuplicated, c)
		l.send(c, at, l.dice.within(path.Jitter)+v.Delay)
	}
	l.damage(p)
	late := l.dice.within(path.Jitter) + v.Delay
	if l.dice.chance(path.Reorder) {
		late += l.dice.within(path.ReorderDelay)
		nw.datagram(KindReordered, p)
	}
	l.send(p, at, late)
}

// carryReliably puts a datagram of a reliable network in transit, with delay but without faults,
// unless the path is cut.
func (l *link) carryReliably(p *packet, v Verdict) {
	if l.path.Cut {
		l.nw.drop(KindCut, p)
		return
	}
	at := l.nw.now
	if l.path.BytesPerSecond > 0 {
		line := l.path.Line
		if line == nil {
			line = &l.own
		}
		line.free = max(line.free, at).Add(
			time.Duration(len(p.data) * nsPerS / l.path.BytesPerSecond))
		at = line.free
	}
	if l.last == nil {
		l.last = map[[2]int]mono.Time{}
	}
	ports := [2]int{p.from.Index, p.to.Index}
	at = max(l.last[ports], at.Add(l.path.Delay).Add(l.dice.within(l.path.Jitter)).Add(v.Delay))
	l.last[ports] = at
	l.nw.inFlight++
	l.nw.timer(at, timerArrive, p.ref)
}

// The method "send" puts a datagram in transit. The argument "at" of the method "send" is the time
// at which the datagram leaves the line.
func (l *link) send(p *packet, at mono.Time, late time.Duration) {
	l.nw.inFlight++
	l.nw.timer(at.Add(l.path.Delay).Add(late), timerArrive, p.ref)
}

// The method "line" puts a datagram on the path's line, and returns the time at which the datagram
// leaves the line. The result "ok" of the method "line" is false if the queue of the line has no
// room for the datagram, and otherwise true.
func (l *link) line(sizeBytes int) (at mono.Time, ok bool) {
	rate := l.path.BytesPerSecond
	if rate <= 0 {
		return l.nw.now, true
	}
	line := l.path.Line
	if line == nil {
		line = &l.own
	}
	if line.free <= l.nw.now {
		line.free, line.rest = l.nw.now, 0
	} else if l.path.QueueBytes > 0 {
		if line.waiting(l.nw.now, rate)+sizeBytes > l.path.QueueBytes {
			return 0, false
		}
	}
	need := sizeBytes*nsPerS + line.rest
	line.free = line.free.Add(time.Duration(need / rate))
	line.rest = need % rate
	return line.free, true
}

// The method "waiting" returns the number of bytes, rounded up, that the line has accepted and not
// sent yet.
func (line *Line) waiting(now mono.Time, bytesPerSecond int) int {
	hi, lo := bits.Mul64(uint64(line.free.Sub(now)), uint64(bytesPerSecond))
	if hi >= uint64(nsPerS) { // more than fits 64 bits
		return math.MaxInt / 2
	}
	n, rest := bits.Div64(hi, lo, uint64(nsPerS))
	if rest > 0 {
		n++
	}
	return int(min(n, math.MaxInt/2))
}

// The method "lost" decides at random whether the path loses a datagram. The result of the method
// "lost" is KindLost or KindBurstLost if the datagram is lost, and otherwise KindSent.
func (l *link) lost() Kind {
	path := &l.path
	if l.burst {
		l.burst = !l.dice.chance(path.BurstEnd)
	} else {
		l.burst = l.dice.chance(path.BurstStart)
	}
	switch {
	case l.burst && l.dice.chance(path.BurstLoss):
		return KindBurstLost
	case l.dice.chance(path.Loss):
		return KindLost
	default:
		return KindSent
	}
}

// The method "damage" truncates a datagram with the probability Path.Truncate, and inverts bits of
// the datagram with the probability Path.BitFlip.
func (l *link) damage(p *packet) {
	path := &l.path
	if l.dice.chance(path.Truncate) && len(p.data) > 0 {
		p.data, p.hasCRC = p.data[:l.dice.below(len(p.data))], false
		l.nw.datagram(KindTruncated, p)
	}
	if l.dice.chance(path.BitFlip) && len(p.data) > 0 {
		l.flip(p)
		l.nw.datagram(KindBitFlip, p)
	}
}

// The method "flip" inverts one to three different bits of a datagram.
func (l *link) flip(p *packet) {
	var done [3]int
	for i := range 1 + l.dice.below(len(done)) {
		bit := l.dice.below(8 * len(p.data))
		for slices.Contains(done[:i], bit) {
			bit = (bit + 1) % (8 * len(p.data))
		}
		done[i] = bit
		p.data[bit/8] ^= 1 << (bit % 8)
	}
	p.hasCRC = false
	p.spoilt = l.path.Checksum
}

// With the probability Junk, the method "extras" puts a datagram of random bytes in transit, with
// the addresses of the datagram "p". With the probability Replay, the method "extras" puts one of
// the latest datagrams in transit again.
func (l *link) extras(p *packet) {
	nw, path := l.nw, &l.path
	if l.dice.chance(path.Junk) {
		j := nw.newPacket()
		j.from, j.to = p.from, p.to
		nw.lastID++
		j.id = nw.lastID
		l.junk(j)
		nw.datagram(KindJunk, j)
		l.send(j, nw.now, l.dice.within(path.Jitter))
	}
	if path.Replay <= 0 {
		return
	}
	if len(l.old) > 0 && l.dice.chance(path.Replay) {
		r := nw.clone(l.old[l.dice.below(len(l.old))])
		nw.datagram(KindReplayed, r)
		l.send(r, nw.now, l.dice.replayDelay())
	}
	if len(l.old) < replayRing {
		l.old = append(l.old, nw.clone(p))
		return
	}
	l.old[l.oldNext].copyOf(p)
	l.oldNext = (l.oldNext + 1) % replayRing
}

// The method "junk" fills a packet with random bytes. Half of the random packets begin with the two
// bytes (magic and kind) of a valid packet header, so that they pass the receiver's first check.
func (l *link) junk(p *packet) {
	const (
		magic    = 0xB7
		kindBase = 0x11
		kinds    = 7
	)
	size := l.dice.below(l.nw.cfg.MTUBytes + 1)
	if cap(p.data) < size {
		p.data = make([]byte, size)
	}
	p.data = p.data[:size]
	l.dice.fill(p.data)
	if size >= 2 && l.dice.chance(0.5) {
		p.data[0], p.data[1] = magic, byte(kindBase+l.dice.below(kinds))
	}
}
