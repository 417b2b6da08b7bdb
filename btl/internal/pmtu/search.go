package pmtu

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// Stage is the stage of a path MTU search.
type Stage uint8

// The stages.
const (
	Fixed     Stage = iota // the agreed size is the base size, so there is no search
	Searching              // larger sizes are probed
	Complete               // the path carries no larger size, as far as is known
	Doubting               // the size in use is possibly too large now
)

const (
	// BaseBytes is the datagram size that every path should carry (BASE_PLPMTU of RFC 8899).
	BaseBytes = 1200
	// GrainBytes is the precision, in bytes, with which the search finds the path MTU.
	GrainBytes = 8
	// ProbesMax is the maximum number of probes in a round, not counting probes of the base size and
	// of the smallest size.
	ProbesMax = 4
)

const (
	smallBytes    = 512 // size of the largest handshake packet, which every connection proves
	triesMax      = 9   // maximum of "tries"; a long test of the size in use then probes every 5 s
	roundsMax     = 3   // number of rounds without an answer after which a size is given up
	roundsMaxRuns = 6   // roundsMax in a test of the size in use, while packets arrive coalesced
	lostMax       = 3   // number of packets lost in succession that start a test of the size in use

	// In a test of the size in use, each round except the first has baseProbes probes of the base
	// size. After the first round, a test sends several probes of the base size, because a single
	// probe is easily lost.
	baseProbes = 3

	waitMin = 10 * time.Millisecond // minimum wait for an answer, because a process can be late
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

// raiseAfter lists the times after the end of a search at which datagram sizes above the found size
// are probed again.
var raiseAfter = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// usualSizes lists common maximum datagram sizes of paths, which are the MTUs of links and tunnels
// minus the IP and UDP headers.
var usualSizes = [...]int{
	1232, 1252, 1352, 1372, 1392, 1402, 1412, 1422, 1432, 1444, 1452, 1464, 1472,
	1972, 4004, 8152, 8902, 8922, 8952, 8972, 16336, 32720,
}

// Search is the path MTU search of one endpoint. Begin initializes a Search.
type Search struct {
	Size   int // largest size in use: of an answered probe, or the base size
	Base   int
	Most   int // largest size that the devices of both sides support
	below  int // smallest size that the path does not carry, as far as is known
	secret uint64
	Due    mono.Time // when Probes must be called next

	askedAt    mono.Time // the latest round
	DoubtSince mono.Time // when the test of the size in use began
	Stage      Stage
	tries      uint8 // number of rounds since the latest answer
	tops       uint8 // number of rounds that have probed the devices' size
	raises     uint8
	proven     bool // a probe of the base size was answered since the secret was drawn
	small      bool // a probe of the smallest size was answered
	holes      uint32
	ran        int32 // largest coalesced packet that was sent since DoubtSince and has arrived
	// The field "lost" of a Search counts the packets lost in succession, and the field
	// "lostUncoalesced" counts only the lost packets that were sent without coalescing. The arrival of
	// a packet that was coalesced with more packets does not reset the field "lostUncoalesced".
	lost, lostUncoalesced losses
}

// The type "losses" counts packets lost in a row.
type losses struct {
	least int32 // bytes of the smallest lost packet
	count uint8
}

// add counts a lost packet, and reports whether so many packets were lost in succession that the
// size in use must be tested again.
func (l *losses) add(sizeBytes int) bool {
	if l.count == 0 || sizeBytes < int(l.least) {
		l.least = int32(sizeBytes)
	}
	l.count++
	return l.count >= lostMax
}

// end records that a packet has arrived. The series of losses ends if the arrived packet is at
// least as large as the smallest lost packet.
func (l *losses) end(sizeBytes int) {
	if sizeBytes >= int(l.least) {
		l.count = 0
	}
}

// Begin starts the search for a datagram size from the base size to "most", which is the largest
// datagram size that the devices of both sides support.
func (p *Search) Begin(now mono.Time, most int, secret uint64) {
	*p = Search{
		Size: min(BaseBytes, most), Base: min(BaseBytes, most), Most: most, below: most + 1,
		secret: secret, Due: mono.Never, Stage: Fixed,
	}
	if p.Size < most {
		p.Stage, p.Due = Searching, now
	}
}

// Resume makes p a search for which Over returns true, because the path carries datagrams of the
// size "most". Resume is for a search whose memory was freed.
func (p *Search) Resume(most int, secret uint64) {
	p.Begin(mono.Never, most, secret)
	if p.Size < most {
		p.Size, p.Stage, p.tops, p.proven, p.small = most, Complete, 1, true, true
	}
}

// Over reports whether the search has no next step, and an equal search can be made by Resume. Over
// returns true if there was no search, or if the first probe had the largest size that the devices
// of both sides support and was answered. Over returns false after a test of the size in use, and
// while packets count as lost.
func (p *Search) Over() bool {
	return p.Size == p.Most && p.Due == mono.Never && p.tops <= 1 && p.DoubtSince == 0 &&
		!p.WantsDelivered()
}

// nonceOf returns the nonce of a probe of the given size. The answer to a probe contains the same
// nonce as the probe.
func nonceOf(secret uint64, sizeBytes int) uint64 { return secret<<16 | uint64(sizeBytes) }

// Probes must be called when a step of the search is due. Probes appends the sizes of the probes
// that must be sent immediately to the slice "sizes", where the value 0 stands for the smallest
// probe. The argument "wait" of Probes is the time after which a probe without an answer counts as
// lost. The argument "secret" of Probes is a new random number.
func (p *Search) Probes(now mono.Time, wait time.Duration, secret uint64, sizes []int) []int {
	switch p.Stage {
	case Complete:
		p.Stage, p.below, p.tries, p.tops = Searching, p.Most+1, 0, 0
	case Searching:
		if p.tries >= roundsMax || p.below > p.Most && p.tops >= roundsMax {
			p.giveUp(now)
		}
	case Doubting:
		tries := uint8(roundsMax)
		if p.runs() {
			tries = roundsMaxRuns
		}
		if p.tries >= tries && p.proven && p.Size > p.Base {
			p.fallBack(secret)
		}
	case Fixed:
	}
	return p.ask(now, wait, sizes)
}

// ask appends the probe sizes of the next round of probes to the slice "sizes", and sets the time
// at which this round ends.
func (p *Search) ask(now mono.Time, wait time.Duration, sizes []int) []int {
	wait = max(min(max(wait, waitMin)<<min(p.tries, roundsMax), waitMax),
		waitMin<<p.tries)
	switch p.Stage {
	case Searching:
		if p.below-p.Size <= GrainBytes || p.Size == p.Most {
			p.settle(now)
			return sizes
		}
		sizes = p.between(sizes)
		p.tops++
	case Doubting:
		if p.Size > p.Base {
			sizes = append(sizes, p.Size)
			if p.tries > 0 && p.runs() { // possibly the path only loses many packets
				sizes = append(sizes, p.Size)
			}
		}
	case Fixed, Complete:
		p.Due = mono.Never
		return sizes
	}
	if !p.proven && (p.tries > 0 || p.Stage == Doubting) {
		again := 1
		if p.Stage == Doubting && p.tries+1 >= roundsMax {
			again = baseProbes
		}
		for range again {
			sizes = append(sizes, p.Base)
		}
	}
	if !p.small && p.tries > 0 || !p.proven && p.Stage == Doubting {
		sizes = append(sizes, 0)
	}
	slices.Sort(sizes)
	p.askedAt, p.Due = now, now.Add(wait)
	p.tries = min(p.tries+1, triesMax)
	return sizes
}

// The method "between" appends the sizes to probe in the next round to the slice "sizes". The
// search first probes the largest datagram size that the network devices of both sides support (the
// field Most), and then the usual sizes of paths. When no usual size of paths is left, the search
// probes sizes at equal distances in the remaining interval of sizes.
func (p *Search) between(sizes []int) []int {
	from, room := len(sizes), ProbesMax
	if p.below > p.Most {
		sizes = append(sizes, p.Most)
		if p.tops == 0 {
			return sizes
		}
		room--
	}
	lo, hi := p.Size+1, min(p.below, p.Most)
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
			s := p.Size + (hi-p.Size)*(i+1)/(room+1)
			if s > p.Size && s < hi && (len(sizes) == from || sizes[len(sizes)-1] != s) {
				sizes = append(sizes, s)
			}
		}
	}
	return sizes
}

// giveUp ends a round of probes, and records that the path does not carry the smallest size among
// the unanswered probes.
func (p *Search) giveUp(now mono.Time) {
	if !p.proven && p.Size == p.Base {
		p.doubt(now) // possibly the path carries no packets at all
		return
	}
	if p.below > p.Most {
		p.below = p.Most
	} else {
		var asked [ProbesMax]int
		for _, s := range p.between(asked[:0]) {
			p.below = min(p.below, s)
		}
	}
	p.tries = 0
}

// settle ends the search, and sets the time at which larger datagram sizes are probed again.
func (p *Search) settle(now mono.Time) {
	p.Stage, p.tries, p.Due = Complete, 0, mono.Never
	if p.Size < p.Most {
		p.Due = now.Add(raiseAfter[p.raises])
		p.raises = min(p.raises+1, uint8(len(raiseAfter)-1))
	}
}

// ProbeAcked records that a probe was answered, and reports whether the nonce is that of a probe of
// this search. An answer shows that the path carries the size of the probe, even if the search had
// given up this size before.
func (p *Search) ProbeAcked(now mono.Time, nonce uint64) bool {
	sizeBytes := int(nonce & 0xFFFF)
	if nonce != nonceOf(p.secret, sizeBytes) || sizeBytes > p.Most {
		return false
	}
	p.small = true
	p.proven = p.proven || sizeBytes >= p.Base
	switch {
	case p.Stage == Doubting:
		if sizeBytes >= p.Size {
			p.trust(now)
		}
	case sizeBytes > p.Size:
		p.raise(now, sizeBytes)
	}
	return true
}

// raise records that a probe that is larger than the size in use was answered.
func (p *Search) raise(now mono.Time, sizeBytes int) {
	const settleShare = 4
	due := min(p.Due, now.Add(max(now.Sub(p.askedAt)/settleShare, time.Millisecond)))
	p.Size, p.tries, p.raises = sizeBytes, 0, 0
	if sizeBytes >= p.below {
		p.below, p.tops = p.Most+1, 1
	}
	p.Stage, p.Due = Searching, due
	if sizeBytes == p.Most {
		p.Stage, p.Due = Complete, mono.Never
	}
}

// The method "trust" ends a test of the size in use, because the path has carried a datagram of
// this size during the test.
func (p *Search) trust(now mono.Time) {
	p.lost, p.lostUncoalesced, p.tries = losses{}, losses{}, 0
	switch {
	case p.Most == p.Base:
		p.Stage, p.Due = Fixed, mono.Never
	case p.Size == p.Most:
		p.Stage, p.Due = Complete, mono.Never
	default:
		p.Stage, p.Due = Searching, now
	}
}

// PacketLost is called when a packet is retransmitted, because the packet or its ACK was lost. The
// argument "uncoalesced" of PacketLost says whether the lost packet was sent without coalescing.
// PacketLost returns true if the loss starts a test of the datagram size in use.
func (p *Search) PacketLost(now mono.Time, sizeBytes int, uncoalesced bool, secret uint64) bool {
	if !Tells(sizeBytes, p.Size) || p.Stage == Doubting {
		return false
	}
	doubtful := p.lost.add(sizeBytes)
	if uncoalesced && p.lostUncoalesced.add(sizeBytes) {
		doubtful = true
	}
	if !doubtful {
		return false
	}
	p.secret = secret // older answers do not show the present state of the path
	p.doubt(now)
	return true
}

// TooLarge records that the local system has refused a packet because of its size. After a refusal,
// the size in use is only tested and not lowered, because an attacker can cause refusals by forged
// ICMP messages.
func (p *Search) TooLarge(now mono.Time, sizeBytes int, secret uint64) bool {
	if sizeBytes <= floorOf(p.Size) || p.Stage == Doubting || p.Most == 0 {
		return false
	}
	p.secret = secret
	p.doubt(now)
	return true
}

// Tells reports whether the loss of a packet of sizeBytes can be a sign that the path no longer
// carries datagrams of the size in use, which is the argument "inUse".
func Tells(sizeBytes, inUse int) bool { return sizeBytes > floorOf(inUse) && sizeBytes <= inUse }

// floorOf returns the largest packet size, in bytes, for which the loss of a packet says nothing
// about the path MTU. The argument "inUse" of floorOf is the datagram size in use.
func floorOf(inUse int) int {
	if inUse > BaseBytes {
		return BaseBytes
	}
	return smallBytes
}

func (p *Search) doubt(now mono.Time) {
	p.Stage, p.tries, p.DoubtSince, p.Due = Doubting, 0, now, now
	p.lost, p.lostUncoalesced, p.ran = losses{}, losses{}, 0
	p.proven, p.small = false, false
}

// WantsDelivered reports whether the caller must call Delivered for each packet that the peer
// acknowledges at present.
func (p *Search) WantsDelivered() bool {
	return p.lost.count > 0 || p.lostUncoalesced.count > 0 || p.Stage == Doubting
}

// Delivered records the arrival of a packet that was sent at the time "sentAt". The arrival ends a
// series of losses. If a packet was sent without coalescing after a test of the size in use began,
// its arrival has the same effect as the answer to a probe of this size. The arrival of a packet
// that was coalesced with more packets shows that the path is not interrupted, but proves no size.
func (p *Search) Delivered(now, sentAt mono.Time, sizeBytes int, uncoalesced bool) {
	if p.Stage != Doubting {
		p.lost.end(sizeBytes)
		if uncoalesced {
			p.lostUncoalesced.end(sizeBytes)
		}
		return
	}
	switch {
	case sentAt <= p.DoubtSince:
	case !uncoalesced:
		p.ran = max(p.ran, int32(sizeBytes))
	case sizeBytes >= p.Base:
		p.proven = true
		if sizeBytes >= p.Size {
			p.trust(now)
		}
	}
}

func (p *Search) runs() bool { return int(p.ran) >= p.Size }

// fallBack gives up the datagram size in use, and begins the search again from the base size.
func (p *Search) fallBack(secret uint64) {
	p.holes++
	p.below, p.Size, p.secret = p.Size, p.Base, secret
	p.Stage, p.tries, p.tops, p.raises = Searching, 0, roundsMax, 0
}

// FirstProbePending reports whether the first probe of a connection is still to be sent, or was
// sent and can still be answered.
func (p *Search) FirstProbePending() bool {
	return p.Most == 0 || p.Stage == Searching && p.tops == 1 && p.tries == 1 && p.Size == p.Base
}

// Narrow reports whether, for the time "after" or longer, the path has carried only packets that
// are smaller than the base size.
func (p *Search) Narrow(now mono.Time, after time.Duration) bool {
	return p.Stage == Doubting && p.small && !p.proven && int(p.ran) < p.Base &&
		p.tries >= roundsMax && now.Sub(p.DoubtSince) >= after
}

// Reason returns a text that explains why the search uses the present datagram size.
func (p *Search) Reason() string {
	switch {
	case p.Stage == Doubting:
		return "in doubt: packets of that size were lost"
	case p.Size == p.Most:
		return "all that both devices take"
	case p.Stage == Searching && p.Size == p.Base:
		return "to begin with: larger ones are being tried"
	case p.Stage == Searching:
		return "so far: larger ones are being tried"
	case p.holes > 0:
		return "larger ones stopped passing"
	}
	return "larger ones do not pass"
}

// Holes returns how often the search had to give up the size in use, because the path had stopped
// carrying it (black hole).
func (p *Search) Holes() int { return int(p.holes) }

// Nonce returns the number that identifies the answer to a probe of the given size.
func (p *Search) Nonce(sizeBytes int) uint64 { return nonceOf(p.secret, sizeBytes) }

// Check returns nil if the size in use is between the base size and the largest datagram size that
// the network devices of both sides support (the field Most), and otherwise an error.
func (p *Search) Check() error {
	if p.Size > p.Most || p.Size < p.Base {
		return fmt.Errorf("pmtu: datagrams of %d bytes, at least %d and at most %d", p.Size, p.Base,
			p.Most)
	}
	return nil
}
