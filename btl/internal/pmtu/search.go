package pmtu

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// Stage is the stage of the search.
type Stage uint8

// The stages.
const (
	Fixed     Stage = iota // the agreed size is the base size, so there is no search
	Searching              // larger sizes are probed
	Complete               // the path carries no larger size, as far as is known
	Doubting               // the size in use may be too large now
)

const (
	// BaseBytes is the datagram size that every path should carry (BASE_PLPMTU of RFC 8899).
	BaseBytes = 1200
	// GrainBytes is the precision of the search, in bytes.
	GrainBytes = 8
	// ProbesMax is the maximum number of probes in a round, without probes of the base size and of
	// the smallest size.
	ProbesMax = 4
)

const (
	smallBytes    = 512 // size of the largest handshake packet, which every connection proves
	triesMax      = 9   // number of counted rounds, after which a doubt probes every 5 s
	roundsMax     = 3   // number of rounds without an answer after which a size is given up
	roundsMaxRuns = 6   // the same in a test of the size in use, while packets arrive coalesced
	lostMax       = 3   // number of packets lost in succession that start a doubt

	// baseProbes is the number of probes of the base size in each round after a round without an
	// answer, because single probes are easily lost.
	baseProbes = 3

	waitMin = 10 * time.Millisecond // minimum wait for an answer, because a process may be late
	waitMax = 500 * time.Millisecond
)

// String returns the name of the stage.
func (s Stage) String() string {
	switch s {
	case Fixed:
		return "fixed"
	case Searching:
		return "searching"
	case Complete:
		return "complete"
	case Doubting:
		return "doubting"
	}
	return "unknown"
}

// raiseAfter lists the times after which datagram sizes above the found size are probed again.
var raiseAfter = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// usualSizes lists common datagram sizes of paths, which are the MTUs of links and tunnels minus
// the IP and UDP headers.
var usualSizes = [...]int{
	1232, 1252, 1352, 1372, 1392, 1402, 1412, 1422, 1432, 1444, 1452, 1464, 1472,
	1972, 4004, 8152, 8902, 8922, 8952, 8972, 16336, 32720,
}

// Search is the path MTU search of one endpoint. Begin initializes a Search.
type Search struct {
	size   int // largest size in use: a probe of it was answered, or it is the base
	base   int
	most   int // largest size that the devices of both sides support
	below  int // smallest size that the path does not carry, as far as is known
	secret uint64
	due    mono.Time // when next must be called

	askedAt mono.Time // the latest round
	since   mono.Time // when the doubt began
	stage   Stage
	tries   uint8 // number of rounds since the latest answer
	tops    uint8 // number of rounds that have probed the devices' size
	raises  uint8
	proven  bool // a probe of the base size was answered since the secret was drawn
	small   bool // a probe of the smallest size was also answered
	holes   uint32
	ran     int // largest packet that left in a run after the doubt began, and has arrived
	// The field lost counts the packets lost in succession, and lostAlone counts only lost
	// packets that were sent by themselves. The arrival of a packet that was coalesced with
	// other packets does not reset lostAlone.
	lost, lostAlone losses
}

// losses counts packets lost in a row.
type losses struct {
	count uint8
	least int // the smallest of them
}

// add counts a lost packet, and reports whether enough packets were lost to test the size in use
// again.
func (l *losses) add(sizeBytes int) bool {
	if l.count == 0 || sizeBytes < l.least {
		l.least = sizeBytes
	}
	l.count++
	return l.count >= lostMax
}

// end records that a packet has arrived.
func (l *losses) end(sizeBytes int) {
	if sizeBytes >= l.least {
		l.count = 0
	}
}

// Begin starts the search between the base size and most, the largest datagram that both devices
// support.
func (p *Search) Begin(now mono.Time, most int, secret uint64) {
	*p = Search{
		size: min(BaseBytes, most), base: min(BaseBytes, most), most: most, below: most + 1,
		secret: secret, due: mono.Never, stage: Fixed,
	}
	if p.size < most {
		p.stage, p.due = Searching, now
	}
}

// nonceOf returns the nonce of a probe of the given size. The answer to the probe repeats the
// nonce.
func nonceOf(secret uint64, sizeBytes int) uint64 { return secret<<16 | uint64(sizeBytes) }

// Probes is called when a step of the search is due. Probes appends the sizes of the probes to send
// now, where size 0 stands for the smallest probe. The argument wait of Probes is the expected
// longest time until an answer, and secret is a new random number.
func (p *Search) Probes(now mono.Time, wait time.Duration, secret uint64, sizes []int) []int {
	switch p.stage {
	case Complete:
		p.stage, p.below, p.tries, p.tops = Searching, p.most+1, 0, 0
	case Searching:
		if p.tries >= roundsMax || p.below > p.most && p.tops >= roundsMax {
			p.giveUp(now)
		}
	case Doubting:
		tries := uint8(roundsMax)
		if p.runs() {
			tries = roundsMaxRuns
		}
		if p.tries >= tries && p.proven && p.size > p.base {
			p.fallBack(secret)
		}
	case Fixed:
	}
	return p.ask(now, wait, sizes)
}

// ask appends the probe sizes of a round to sizes, and sets the end time of the round.
func (p *Search) ask(now mono.Time, wait time.Duration, sizes []int) []int {
	wait = max(min(max(wait, waitMin)<<min(p.tries, roundsMax), waitMax),
		waitMin<<p.tries)
	switch p.stage {
	case Searching:
		if p.below-p.size <= GrainBytes || p.size == p.most {
			p.settle(now)
			return sizes
		}
		sizes = p.between(sizes)
		p.tops++
	case Doubting:
		if p.size > p.base {
			sizes = append(sizes, p.size)
			if p.tries > 0 && p.runs() { // perhaps it is only a path that loses much
				sizes = append(sizes, p.size)
			}
		}
	case Fixed, Complete:
		p.due = mono.Never
		return sizes
	}
	if !p.proven && (p.tries > 0 || p.stage == Doubting) {
		again := 1
		if p.stage == Doubting && p.tries+1 >= roundsMax {
			again = baseProbes
		}
		for range again {
			sizes = append(sizes, p.base)
		}
	}
	if !p.small && p.tries > 0 || !p.proven && p.stage == Doubting {
		sizes = append(sizes, 0)
	}
	slices.Sort(sizes)
	p.askedAt, p.due = now, now.Add(wait)
	p.tries = min(p.tries+1, triesMax)
	return sizes
}

// between appends the sizes to probe. The probed sizes begin with the largest size of the
// devices, continue with the usual sizes of paths, and end with sizes at equal distances in the
// remaining interval.
func (p *Search) between(sizes []int) []int {
	from, room := len(sizes), ProbesMax
	if p.below > p.most {
		sizes = append(sizes, p.most)
		if p.tops == 0 {
			return sizes
		}
		room--
	}
	lo, hi := p.size+1, min(p.below, p.most)
	first, count := 0, 0
	for i, s := range usualSizes {
		if s < lo {
			first = i + 1
		} else if s < hi {
			count++
		}
	}
	switch {
	case count > room: // spread over them
		for i := range room {
			sizes = append(sizes, usualSizes[first+(2*i+1)*count/(2*room)])
		}
	case count > 0:
		sizes = append(sizes, usualSizes[first:first+count]...)
	default:
		for i := range room {
			s := p.size + (hi-p.size)*(i+1)/(room+1)
			if s > p.size && s < hi && (len(sizes) == from || sizes[len(sizes)-1] != s) {
				sizes = append(sizes, s)
			}
		}
	}
	return sizes
}

// giveUp records that the smallest probed size is too large for the path, and ends the round of
// probes.
func (p *Search) giveUp(now mono.Time) {
	if !p.proven && p.size == p.base {
		p.doubt(now) // perhaps the path carries no packets at all
		return
	}
	if p.below > p.most {
		p.below = p.most
	} else {
		var asked [ProbesMax]int
		for _, s := range p.between(asked[:0]) {
			p.below = min(p.below, s)
		}
	}
	p.tries = 0
}

// settle ends the search, and sets the time when larger datagram sizes are probed again.
func (p *Search) settle(now mono.Time) {
	p.stage, p.tries, p.due = Complete, 0, mono.Never
	if p.size < p.most {
		p.due = now.Add(raiseAfter[p.raises])
		p.raises = min(p.raises+1, uint8(len(raiseAfter)-1))
	}
}

// ProbeAcked records that a probe was answered. ProbeAcked returns false if the nonce belongs to no
// probe of this search. An answer shows that the path carries the size of the probe, even if the
// search had given up this size before.
func (p *Search) ProbeAcked(now mono.Time, nonce uint64) bool {
	sizeBytes := int(nonce & 0xFFFF)
	if nonce != nonceOf(p.secret, sizeBytes) || sizeBytes > p.most {
		return false
	}
	p.small = true
	p.proven = p.proven || sizeBytes >= p.base
	switch {
	case p.stage == Doubting:
		if sizeBytes >= p.size {
			p.trust(now)
		}
	case sizeBytes > p.size:
		p.raise(now, sizeBytes)
	}
	return true
}

// raise records that a probe with a larger size than the size in use was answered.
func (p *Search) raise(now mono.Time, sizeBytes int) {
	const settleShare = 4
	due := min(p.due, now.Add(max(now.Sub(p.askedAt)/settleShare, time.Millisecond)))
	p.size, p.tries, p.raises = sizeBytes, 0, 0
	if sizeBytes >= p.below {
		p.below, p.tops = p.most+1, 1
	}
	p.stage, p.due = Searching, due
	if sizeBytes == p.most {
		p.stage, p.due = Complete, mono.Never
	}
}

// trust ends the test of the size in use, because a probe of this size was answered again.
func (p *Search) trust(now mono.Time) {
	p.lost, p.lostAlone, p.tries = losses{}, losses{}, 0
	switch {
	case p.most == p.base:
		p.stage, p.due = Fixed, mono.Never
	case p.size == p.most:
		p.stage, p.due = Complete, mono.Never
	default:
		p.stage, p.due = Searching, now
	}
}

// PacketLost records that a packet, or its ACK, was lost and that the packet is retransmitted. The
// argument alone of PacketLost is true if the lost packet was sent by itself. PacketLost returns
// true if the loss starts a test whether the path carries the size in use.
func (p *Search) PacketLost(now mono.Time, sizeBytes int, alone bool, secret uint64) bool {
	if sizeBytes <= p.floor() || sizeBytes > p.size || p.stage == Doubting {
		return false
	}
	doubtful := p.lost.add(sizeBytes)
	if alone && p.lostAlone.add(sizeBytes) {
		doubtful = true
	}
	if !doubtful {
		return false
	}
	p.secret = secret // older answers do not show the present state of the path
	p.doubt(now)
	return true
}

// TooLarge records that the local system has refused a packet because of its size. The refusal
// only starts a test of the size in use, because an attacker can cause a refusal by forged ICMP
// messages.
func (p *Search) TooLarge(now mono.Time, sizeBytes int, secret uint64) bool {
	if sizeBytes <= p.floor() || p.stage == Doubting || !p.Begun() {
		return false
	}
	p.secret = secret
	p.doubt(now)
	return true
}

// floor returns the size in bytes up to which a lost packet is no evidence about the path MTU.
func (p *Search) floor() int {
	if p.size > p.base {
		return p.base
	}
	return smallBytes
}

func (p *Search) doubt(now mono.Time) {
	p.stage, p.tries, p.since, p.due = Doubting, 0, now, now
	p.lost, p.lostAlone, p.ran = losses{}, losses{}, 0
	p.proven, p.small = false, false
}

// WantsDelivered reports whether the search needs calls of Delivered now.
func (p *Search) WantsDelivered() bool {
	return p.lost.count > 0 || p.lostAlone.count > 0 || p.stage == Doubting
}

// Delivered records that a packet that was sent at the time sentAt has arrived, which ends
// a series of losses. If a packet was sent by itself after a test of its size began, the
// arrival of the packet proves as much as the answer to a probe. The arrival of a packet
// that was coalesced with others shows that the path is not interrupted, but proves no
// size.
func (p *Search) Delivered(now, sentAt mono.Time, sizeBytes int, alone bool) {
	if p.stage != Doubting {
		p.lost.end(sizeBytes)
		if alone {
			p.lostAlone.end(sizeBytes)
		}
		return
	}
	switch {
	case sentAt <= p.since:
	case !alone:
		p.ran = max(p.ran, sizeBytes)
	case sizeBytes >= p.base:
		p.proven = true
		if sizeBytes >= p.size {
			p.trust(now)
		}
	}
}

func (p *Search) runs() bool { return p.ran >= p.size }

// fallBack gives up the size in use, and returns to the base size.
func (p *Search) fallBack(secret uint64) {
	p.holes++
	p.below, p.size, p.secret = p.size, p.base, secret
	p.stage, p.tries, p.tops, p.raises = Searching, 0, roundsMax, 0
}

// Begun reports whether Begin was called.
func (p *Search) Begun() bool { return p.most != 0 }

// FirstProbePending reports whether the first probe of a connection is not sent yet, or may still
// be answered.
func (p *Search) FirstProbePending() bool {
	return !p.Begun() || p.stage == Searching && p.tops == 1 && p.tries == 1 && p.size == p.base
}

// Narrow reports whether the path has carried only packets below the base size for longer than the
// duration after.
func (p *Search) Narrow(now mono.Time, after time.Duration) bool {
	return p.stage == Doubting && p.small && !p.proven && p.ran < p.base && p.tries >= roundsMax &&
		now.Sub(p.since) >= after
}

// Reason returns a text with the reason for the size in use.
func (p *Search) Reason() string {
	switch {
	case p.stage == Doubting:
		return "in doubt: packets of that size were lost"
	case p.size == p.most:
		return "all that both devices take"
	case p.stage == Searching && p.size == p.base:
		return "to begin with: larger ones are being tried"
	case p.stage == Searching:
		return "so far: larger ones are being tried"
	case p.holes > 0:
		return "larger ones stopped passing"
	}
	return "larger ones do not pass"
}

// Size is the largest size of datagrams that are sent now, in bytes.
func (p *Search) Size() int { return p.size }

// Base is the base size of the search in bytes, which is BaseBytes, or less if a device supports
// less.
func (p *Search) Base() int { return p.base }

// Most is the largest datagram in bytes that the devices of both sides support.
func (p *Search) Most() int { return p.most }

// Due is the time when Probes must be called next, or mono.Never if no probe is planned.
func (p *Search) Due() mono.Time { return p.due }

// DoubtSince is the time when the latest test of the size in use began.
func (p *Search) DoubtSince() mono.Time { return p.since }

// Stage is the stage of the search.
func (p *Search) Stage() Stage { return p.stage }

// Holes is the number of times that the search had to give up the size in use (black holes).
func (p *Search) Holes() int { return int(p.holes) }

// Nonce returns the number that identifies the answer to a probe of the given size.
func (p *Search) Nonce(sizeBytes int) uint64 { return nonceOf(p.secret, sizeBytes) }

// Check verifies that the size in use lies between the base size and the devices' largest size.
func (p *Search) Check() error {
	if p.size > p.most || p.size < p.base {
		return fmt.Errorf("pmtu: datagrams of %d bytes, at least %d and at most %d", p.size, p.base,
			p.most)
	}
	return nil
}
