package vnic

import (
	"time"

	"gobtl/internal/mono"
)

// A host sends probes to find the largest packet size that the path to another host carries (RFC
// 8899). A packet size counts as too large only if the other host answers small probes, but no
// probe of this size. ICMP messages have no effect on the search, because any host can forge them.
//
//	host                                        other host
//	   ======= probe, padded =====================>   each confirmEvery
//	   <====== answer =============================
//	   ======= probes of several sizes, small =====>  again each doubtEvery while the
//	   <====== answers ============================   size in use has no answer
//	   ======= small probe =======================>   only this while the other host is silent

// SizeProbeBytes is the size of an answer to a size probe, and of the smallest size probe.
const SizeProbeBytes = 24

// sizeMagic is the beginning of each size probe. An encapsulated packet never begins with
// sizeMagic, because the last byte of sizeMagic does not occur at this position of a head flit of
// the format 16B. The last byte of sizeMagic is the version.
const sizeMagic = "VNICSIZ\x01"

// The kinds of size probes.
const (
	SizeAsks  = 1
	SizeTells = 2
)

// PutSizeProbe writes a size probe to b, whose length is the size of the probe and must be at least
// SizeProbeBytes.
func PutSizeProbe(b []byte, kind uint8, number uint64) {
	clear(b)
	copy(b, sizeMagic)
	b[8] = kind
	be.PutUint64(b[16:], number)
}

// ParseSizeProbe decodes a size probe. The result "ok" of ParseSizeProbe is true if b is a size
// probe, and otherwise false.
func ParseSizeProbe(b []byte) (kind uint8, number uint64, ok bool) {
	if len(b) < SizeProbeBytes || string(b[:len(sizeMagic)]) != sizeMagic {
		return 0, 0, false
	}
	return b[8], be.Uint64(b[16:]), true
}

const (
	confirmEvery = 10 * time.Second
	doubtEvery   = 100 * time.Millisecond
	// After doubtRounds rounds without an answer to a probe of the size in use, a search waits for the
	// time confirmEvery between rounds, because the other host is possibly absent. Any answer ends
	// this wait.
	doubtRounds = 100
	// The size in use counts as too large if smallAnswersMax small probes were answered after the
	// latest answer to a probe of this size.
	smallAnswersMax = 24
	// The other host counts as silent after silentRounds consecutive rounds without an answer to any
	// probe.
	silentRounds = 5
	// If no probe of a round could be sent, the round is repeated after the time unsentPause.
	unsentPause = time.Millisecond
)

// usualSizes are the usual datagram sizes of network paths, which are usual MTUs minus the headers
// of UDP and IPv6.
var usualSizes = [...]int{
	528, 1232, 1352, 1444, 1452, 1952, 4304, 8118, 8952, 16336, 31952, 65487,
}

// SizeProbe is a probe that the caller must send: a datagram of Bytes bytes with a number.
type SizeProbe struct {
	Bytes  int
	Number uint64
}

// PathSearch searches for the largest packet that the path to one host carries. A PathSearch sends
// no probes itself and reads no clock. Only one goroutine may use a PathSearch.
type PathSearch struct {
	random func() uint64
	most   int       // largest packet for this host
	size   int       // largest packet that the path carries, as far as is known
	due    mono.Time // of the next round of probes
	small  int       // answered small probes since the latest answered probe of "size"
	proven int       // largest answered size below "size" since the same time
	turn
	before turn      // before the latest round
	usual  mono.Time // time of the round that Check has preceded
	// The numbers of probes contain random bits, so that a host can answer a probe only if it has
	// received the probe. Whenever the size in use becomes doubtful, the small probes get a new
	// number, so that late answers to earlier small probes do not count.
	secret, smallNumber uint64
}

// The type "turn" holds those fields of a search that each round of probes changes.
type turn struct {
	rounds int       // rounds of probes since the latest answered probe of "size"
	missed int       // rounds of probes since the latest answer, at most silentRounds
	last   mono.Time // time of the latest round
	// If the field "check" is true, the next round consists of one small probe, which the method Check
	// has requested. The field "checked" is true if the latest round consists of the small probe that
	// Check has requested.
	check, checked bool
}

// NewPathSearch returns the search for one host. The function "random" must return unpredictable
// numbers.
func NewPathSearch(random func() uint64) *PathSearch {
	return &PathSearch{random: random, secret: random() << 16}
}

// SetMost sets the size of the largest packet for the host, and reports whether it has changed.
// Until a size has turned out to be too large, the search assumes that the path carries packets of
// the largest size.
func (p *PathSearch) SetMost(now mono.Time, mostBytes int) bool {
	if p.most == mostBytes {
		return false
	}
	if p.size == p.most || p.size > mostBytes {
		p.use(mostBytes)
	}
	p.most, p.due, p.check, p.checked = mostBytes, now, false, false
	return true
}

// Bytes returns the largest packet size that the path carries, according to the probes so far. The
// result "less" of Bytes is true if the result "bytes" is below the size that was passed to
// SetMost.
func (p *PathSearch) Bytes() (bytes int, less bool) { return p.size, p.size < p.most }

// Due returns the time of the next call of Probes.
func (p *PathSearch) Due() mono.Time { return p.due }

// Silent reports whether the other host has answered no probe of the latest silentRounds rounds.
// Silent returns false in the first silentRounds rounds of a search. One answer ends the silence.
func (p *PathSearch) Silent() bool { return p.missed >= silentRounds }

// Doubt makes the search probe the size in use again at once. The caller calls Doubt when the
// operating system has refused a packet as too large.
func (p *PathSearch) Doubt(now mono.Time) {
	if p.rounds == 0 {
		p.due, p.check, p.checked = now, false, false
	}
}

// Check makes the search test by one small probe whether the other host is reachable. The caller
// calls Check when the operating system has no buffer space for packets. If the small probe of
// Check has no answer after 100 ms, the search probes the size in use. Check has no effect while a
// probe of the size in use is unanswered.
func (p *PathSearch) Check(now mono.Time) {
	if p.rounds == 0 && !p.check && !p.checked && now < p.due {
		p.check, p.usual, p.due = true, p.due, now
	}
}

// Heard tells the search that the other host has sent a packet or has new addresses. If the search
// waits for the time confirmEvery because the other host has not answered, Heard shortens this wait
// to 100 ms. Heard does not end the silence of the other host.
func (p *PathSearch) Heard() {
	if p.rounds > doubtRounds {
		p.due = p.due.Min(p.last.Add(doubtEvery))
	}
}

// Unsent tells the search that no probe of the latest call of Probes was sent, because the
// operating system has no buffer space for packets. The round of unsent probes does not count, and
// is repeated after 1 ms.
func (p *PathSearch) Unsent(now mono.Time) {
	p.turn, p.due = p.before, now.Add(unsentPause)
}

func (p *PathSearch) use(size int) {
	p.size, p.rounds, p.small, p.proven, p.check, p.checked = size, 0, 0, 0, false, false
}

// Probes appends the probes to be sent now to the slice "out", if a round of probes is due.
func (p *PathSearch) Probes(now mono.Time, out []SizeProbe) []SizeProbe {
	if now < p.due {
		return out
	}
	p.before = p.turn
	silent, doubt := p.Silent(), p.rounds > 0
	p.missed, p.last, p.due = min(p.missed+1, silentRounds), now, now.Add(doubtEvery)
	if p.checked = p.check; p.checked {
		p.check, p.smallNumber = false, p.random()<<16 // the size 0
		return append(out, SizeProbe{SizeProbeBytes, p.smallNumber})
	}
	if p.rounds == 1 {
		p.smallNumber = p.random() << 16
	}
	if !doubt || !silent {
		out = p.sizes(out, doubt)
	}
	if doubt {
		out = append(out, SizeProbe{SizeProbeBytes, p.smallNumber})
	}
	if p.rounds++; p.rounds > doubtRounds {
		p.due = now.Add(confirmEvery)
	}
	return out
}

// The method "sizes" appends a probe of the size in use and probes of larger sizes, and if the
// argument "doubt" is true, also probes of smaller sizes.
func (p *PathSearch) sizes(out []SizeProbe, doubt bool) []SizeProbe {
	add := func(size int) {
		out = append(out, SizeProbe{size, p.secret | uint64(size)})
	}
	for _, size := range usualSizes {
		if size > p.size && size < p.most || size < p.size && doubt {
			add(size)
		}
	}
	if p.size < p.most {
		add(p.most)
	}
	add(p.size)
	return out
}

// Answered records the answer to a probe with the given number, and reports whether the result of
// Bytes has changed.
func (p *PathSearch) Answered(now mono.Time, number uint64) bool {
	size := int(number & 0xffff)
	known := size == 0 && number == p.smallNumber && (p.rounds > 1 || p.checked) ||
		size > 0 && number == p.secret|uint64(size) && size <= p.most
	if !known {
		return false
	}
	p.missed = 0
	switch {
	case size == 0 && p.checked:
		p.checked, p.due = false, p.usual
	case size == 0:
		if p.small++; p.small >= smallAnswersMax {
			was := p.size
			p.use(max(p.proven, min(p.size, usualSizes[0])))
			p.due = now
			return p.size < was
		}
		if p.rounds > doubtRounds { // the other host is back
			p.rounds, p.due = 2, now.Add(doubtEvery)
		}
	case size >= p.size:
		raised := size > p.size
		p.use(size)
		p.due = now.Add(confirmEvery)
		return raised
	default:
		p.proven = max(p.proven, size)
	}
	return false
}
