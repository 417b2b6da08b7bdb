package btl

import (
	"slices"
	"time"
)

// The search for the largest datagram that the path to a peer carries, in the manner of RFC 8899:
// what happened goes in, what is to be asked comes out. Nothing here knows of packets or reads a
// clock; pathmtu_apply.go does as it is told. Pings of several sizes ask, Pongs prove. Data of the
// largest proven size flows meanwhile.
//
//	          the device's size first, then       nothing between what passes
//	          what lies between                   and what does not
//	begin --> searching ----------------------------> found --+
//	           ^  ^  |                                 |  |   | after a while it asks again
//	           |  |  +-- several packets in a row lost-+  |   | for what did not pass
//	           |  |               |                   <---+---+
//	           |  +--- it passes --- doubting
//	           |                      |    |
//	           +-- the base alone ----+    +-- not even the base, but small ones --> narrow
//	               passes                      for PeerTimeout
//
// A failure is believed only after several rounds, a success always: a Pong tells its size, under a
// secret that is drawn anew when what was known before is worth nothing any more.
//
// Only a datagram that crossed alone proves a size. Devices with a smaller MTU in the path (a port
// of a bridge, one end of a veth pair) let a run of datagrams pass that leaves as one message of
// the kernel, and drop a single datagram of the same size. So Pings never join a run (channel.go),
// and a packet counts as a proof only if it left with no other one to the same peer beside it.

// pathStage is what the search is at.
type pathStage uint8

const (
	pathFixed     pathStage = iota // there is nothing to search: the agreed size is the base
	pathSearching                  // larger sizes are being asked for
	pathFound                      // nothing larger passes, as far as is known
	pathDoubting                   // the size in use may not pass any more
)

const (
	pathBaseBytes  = 1200 // what every path should carry (RFC 8899, BASE_PLPMTU)
	pathSmallBytes = 512  // no handshake is larger: a connection shows that these pass
	pathGrainBytes = 8    // how exactly the size is found
	pathTriesMax   = 9    // rounds that are counted: then a doubt asks every 5 s
	pathTries      = 3    // rounds without an answer after which a size does not pass
	pathTriesRuns  = 6    // the same in a doubt, while packets of the size arrive in runs
	pathSizes      = 4    // Pings of a round
	pathLostMax    = 3    // packets lost in a row that raise a doubt

	// pathBaseAgain is how many Pings of the base a round of a doubt has from the third on, if none
	// was answered: on a path that loses much, three are lost easily while small ones pass.
	pathBaseAgain = 3

	pathWaitMin = 10 * time.Millisecond // for an answer: a process may be late
	pathWaitMax = 500 * time.Millisecond
)

// pathRaiseAfter is how long a size that was found stays before larger ones are asked for again. It
// may have been an accident, so not as long at first as RFC 8899 has it.
var pathRaiseAfter = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}

// pathUsual are the sizes that paths mostly have: MTUs of links and tunnels, less the headers of IP
// and UDP.
var pathUsual = [...]int{
	1232, 1252, 1352, 1372, 1392, 1402, 1412, 1422, 1432, 1444, 1452, 1464, 1472,
	1972, 4004, 8152, 8902, 8922, 8952, 8972, 16336, 32720,
}

// pathMTU is the search of one endpoint, for what it sends.
type pathMTU struct {
	size   int // largest datagram that is sent: it has passed, or is the base
	base   int
	most   int // what both sides' devices take
	below  int // sizes from here on do not pass, as far as is known
	secret uint64
	due    Time // when next must be called

	askedAt Time // the latest round
	since   Time // when the doubt began
	stage   pathStage
	tries   uint8 // rounds since something new was heard
	tops    uint8 // rounds that have asked for the devices' size
	raises  uint8
	proven  bool // the base has passed since the secret was drawn
	small   bool // so has a Ping of the smallest size
	holes   uint32
	ran     int // largest packet that left in a run after the doubt began, and has arrived
	// lost are the packets lost in a row, lostAlone those of them that left alone: runs that arrive
	// between these say nothing of them.
	lost, lostAlone losses
}

// losses are packets lost in a row.
type losses struct {
	count uint8
	least int // the smallest of them
}

// add notes another one, and says whether they raise a doubt.
func (l *losses) add(sizeBytes int) bool {
	if l.count == 0 || sizeBytes < l.least {
		l.least = sizeBytes
	}
	l.count++
	return l.count >= pathLostMax
}

// end notes a packet that has arrived: larger ones may still not pass.
func (l *losses) end(sizeBytes int) {
	if sizeBytes >= l.least {
		l.count = 0
	}
}

// begin starts the search between the base and the most that both devices take.
func (p *pathMTU) begin(now Time, most int, secret uint64) {
	*p = pathMTU{
		size: min(pathBaseBytes, most), base: min(pathBaseBytes, most), most: most, below: most + 1,
		secret: secret, due: Never, stage: pathFixed,
	}
	if p.size < most {
		p.stage, p.due = pathSearching, now
	}
}

// pathNonce is what a Ping of a size says, and its Pong repeats.
func pathNonce(secret uint64, sizeBytes int) uint64 { return secret<<16 | uint64(sizeBytes) }

// next is called when it is due; wait is how long an answer takes at most, as far as is known, and
// secret is a new random number. It appends the sizes of the Pings that are to be sent now; 0 is
// the smallest Ping.
func (p *pathMTU) next(now Time, wait time.Duration, secret uint64, sizes []int) []int {
	switch p.stage {
	case pathFound:
		p.stage, p.below, p.tries, p.tops = pathSearching, p.most+1, 0, 0
	case pathSearching:
		if p.tries >= pathTries || p.below > p.most && p.tops >= pathTries {
			p.giveUp(now)
		}
	case pathDoubting:
		tries := uint8(pathTries)
		if p.runs() {
			tries = pathTriesRuns
		}
		if p.tries >= tries && p.proven && p.size > p.base {
			p.fallBack(secret)
		}
	case pathFixed:
	}
	return p.ask(now, wait, sizes)
}

// ask appends the sizes of a round, and says when it is over.
func (p *pathMTU) ask(now Time, wait time.Duration, sizes []int) []int {
	wait = max(min(max(wait, pathWaitMin)<<min(p.tries, pathTries), pathWaitMax),
		pathWaitMin<<p.tries)
	switch p.stage {
	case pathSearching:
		if p.below-p.size <= pathGrainBytes || p.size == p.most {
			p.settle(now)
			return sizes
		}
		sizes = p.between(sizes)
		p.tops++
	case pathDoubting:
		if p.size > p.base {
			sizes = append(sizes, p.size)
			if p.tries > 0 && p.runs() { // perhaps it is only a path that loses much
				sizes = append(sizes, p.size)
			}
		}
	case pathFixed, pathFound:
		p.due = Never
		return sizes
	}
	if !p.proven && (p.tries > 0 || p.stage == pathDoubting) {
		again := 1
		if p.stage == pathDoubting && p.tries+1 >= pathTries {
			again = pathBaseAgain
		}
		for range again {
			sizes = append(sizes, p.base)
		}
	}
	if !p.small && p.tries > 0 || !p.proven && p.stage == pathDoubting {
		sizes = append(sizes, 0)
	}
	// Ascending: what leaves behind a larger one may, until it is cut up, share its fate.
	slices.Sort(sizes)
	p.askedAt, p.due = now, now.Add(wait)
	p.tries = min(p.tries+1, pathTriesMax)
	return sizes
}

// between appends the sizes to ask for: the device's as long as it may pass, with others when it
// was not answered; then the usual ones, and last what lies between.
func (p *pathMTU) between(sizes []int) []int {
	from, room := len(sizes), pathSizes
	if p.below > p.most {
		sizes = append(sizes, p.most)
		if p.tops == 0 {
			return sizes
		}
		room--
	}
	lo, hi := p.size+1, min(p.below, p.most)
	first, count := 0, 0
	for i, s := range pathUsual {
		if s < lo {
			first = i + 1
		} else if s < hi {
			count++
		}
	}
	switch {
	case count > room: // spread over them
		for i := range room {
			sizes = append(sizes, pathUsual[first+(2*i+1)*count/(2*room)])
		}
	case count > 0:
		sizes = append(sizes, pathUsual[first:first+count]...)
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

// giveUp notes that the smallest of the sizes that were asked for does not pass.
func (p *pathMTU) giveUp(now Time) {
	if !p.proven && p.size == p.base {
		p.doubt(now) // perhaps nothing does
		return
	}
	if p.below > p.most {
		p.below = p.most
	} else {
		var asked [pathSizes]int
		for _, s := range p.between(asked[:0]) {
			p.below = min(p.below, s)
		}
	}
	p.tries = 0
}

// settle ends a search.
func (p *pathMTU) settle(now Time) {
	p.stage, p.tries, p.due = pathFound, 0, Never
	if p.size < p.most {
		p.due = now.Add(pathRaiseAfter[p.raises])
		p.raises = min(p.raises+1, uint8(len(pathRaiseAfter)-1))
	}
}

// pong notes that a Ping was answered; false if it was none of this search. A size that passes
// passes, whatever was thought before.
func (p *pathMTU) pong(now Time, nonce uint64) bool {
	sizeBytes := int(nonce & 0xFFFF)
	if nonce != pathNonce(p.secret, sizeBytes) || sizeBytes > p.most {
		return false
	}
	p.small = true
	p.proven = p.proven || sizeBytes >= p.base
	switch {
	case p.stage == pathDoubting:
		if sizeBytes >= p.size {
			p.trust(now)
		}
	case sizeBytes > p.size:
		p.raise(now, sizeBytes)
	}
	return true
}

// raise notes a larger size that passes.
func (p *pathMTU) raise(now Time, sizeBytes int) {
	// Pongs of larger ones may follow at once.
	const settleShare = 4
	due := min(p.due, now.Add(max(now.Sub(p.askedAt)/settleShare, time.Millisecond)))
	p.size, p.tries, p.raises = sizeBytes, 0, 0
	if sizeBytes >= p.below {
		p.below, p.tops = p.most+1, 1
	}
	p.stage, p.due = pathSearching, due
	if sizeBytes == p.most {
		p.stage, p.due = pathFound, Never
	}
}

// trust ends a doubt: the size in use passes.
func (p *pathMTU) trust(now Time) {
	p.lost, p.lostAlone, p.tries = losses{}, losses{}, 0
	switch {
	case p.most == p.base:
		p.stage, p.due = pathFixed, Never
	case p.size == p.most:
		p.stage, p.due = pathFound, Never
	default:
		p.stage, p.due = pathSearching, now
	}
}

// sentAgain notes that a packet was lost, or its ACK, and leaves again; alone says how the lost
// copy has left. It returns whether that raises a doubt.
func (p *pathMTU) sentAgain(now Time, sizeBytes int, alone bool, secret uint64) bool {
	if sizeBytes <= p.floor() || sizeBytes > p.size || p.stage == pathDoubting {
		return false
	}
	doubtful := p.lost.add(sizeBytes)
	if alone && p.lostAlone.add(sizeBytes) {
		doubtful = true
	}
	if !doubtful {
		return false
	}
	p.secret = secret // older Pongs say nothing of now
	p.doubt(now)
	return true
}

// refused notes that the own system did not take a packet for its size. It is a hint, and may be a
// lie that somebody told the system: what passes is found out.
func (p *pathMTU) refused(now Time, sizeBytes int, secret uint64) bool {
	if sizeBytes <= p.floor() || p.stage == pathDoubting || !p.begun() {
		return false
	}
	p.secret = secret
	p.doubt(now)
	return true
}

// floor is the size up to which the loss of packets says nothing of the path's: above the base that
// falls first, below it only the smallest remain.
func (p *pathMTU) floor() int {
	if p.size > p.base {
		return p.base
	}
	return pathSmallBytes
}

func (p *pathMTU) doubt(now Time) {
	p.stage, p.tries, p.since, p.due = pathDoubting, 0, now, now
	p.lost, p.lostAlone, p.ran = losses{}, losses{}, 0
	p.proven, p.small = false, false
}

// watches says whether carried wants to know what has arrived.
func (p *pathMTU) watches() bool {
	return p.lost.count > 0 || p.lostAlone.count > 0 || p.stage == pathDoubting
}

// carried notes that a packet has arrived which was sent at an instant, alone or perhaps in a run:
// of several lost ones in a row none has. One that left alone after a doubt began says as much as
// the Pong of a Ping. One of a run says only that the path is no black hole.
func (p *pathMTU) carried(now, sentAt Time, sizeBytes int, alone bool) {
	if p.stage != pathDoubting {
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

// runs says whether packets of the size in doubt arrive in runs.
func (p *pathMTU) runs() bool { return p.ran >= p.size }

// fallBack leaves a size that does not pass any more, for the base, which does.
func (p *pathMTU) fallBack(secret uint64) {
	p.holes++
	p.below, p.size, p.secret = p.size, p.base, secret
	p.stage, p.tries, p.tops, p.raises = pathSearching, 0, pathTries, 0
}

// begun says whether the search has.
func (p *pathMTU) begun() bool { return p.most != 0 }

// opening says whether the first Ping of a connection is still to be sent, or may be answered.
func (p *pathMTU) opening() bool {
	return !p.begun() || p.stage == pathSearching && p.tops == 1 && p.tries == 1 && p.size == p.base
}

// narrow says whether the path carries small packets alone, and has for a while.
func (p *pathMTU) narrow(now Time, after time.Duration) bool {
	return p.stage == pathDoubting && p.small && !p.proven && p.ran < p.base && p.tries >= pathTries &&
		now.Sub(p.since) >= after
}

// why tells people where the size in use comes from.
func (p *pathMTU) why() string {
	switch {
	case p.stage == pathDoubting:
		return "in doubt: packets of that size were lost"
	case p.size == p.most:
		return "all that both devices take"
	case p.stage == pathSearching && p.size == p.base:
		return "to begin with: larger ones are being tried"
	case p.stage == pathSearching:
		return "so far: larger ones are being tried"
	case p.holes > 0:
		return "larger ones stopped passing"
	}
	return "larger ones do not pass"
}
