package vnic

import (
	"time"

	"gobtl/internal/mono"
)

// A host finds out which packets the path to another host carries, as RFC 8899 describes. A size
// counts as too large only by evidence from the other host: it answers small probes, and no probe
// of this size. ICMP messages have no effect, because anybody can send them.
//
//	host                                        other host
//	   ======= probe, padded =====================>   each confirmEvery
//	   <====== answer =============================
//	   ======= probes of several sizes, small =====>  again each doubtEvery while the
//	   <====== answers ============================   size in use has no answer
//	   ======= small probe =======================>   only this while the other host is silent

// SizeProbeBytes is the size of an answer to a size probe, and of the smallest size probe.
const SizeProbeBytes = 24

// sizeMagic is the beginning of each size probe. A packet with a frame cannot begin with sizeMagic,
// because the last byte is not that of a 16B head flit. The last byte of sizeMagic is the version.
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
	// doubtRounds is the number of rounds without an answer after which a search waits for
	// confirmEvery, because the other host is possibly absent. An answer ends this wait.
	doubtRounds = 100
	// smallAnswersMax is the number of answered small probes after which the size in use counts as
	// too large, if no probe of this size was answered in the meantime.
	smallAnswersMax = 24
	// silentRounds is the number of rounds in succession without any answer after which the other
	// host counts as silent.
	silentRounds = 5
	// unsentPause is the time until the next round after a round of which no probe could be sent.
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
	// The numbers of probes contain random bits, so that nobody else can answer. The number of the
	// small probes is new for each doubt: late answers to earlier probes do not count.
	secret, smallNumber uint64
}

// turn holds the fields that a round of probes changes.
type turn struct {
	rounds int       // rounds of probes since the latest answered probe of "size"
	missed int       // rounds of probes since the latest answer, at most silentRounds
	last   mono.Time // time of the latest round
	// If the field check is true, the next round is a small probe alone, because of Check. The field
	// checked is true after such a round until the next one.
	check, checked bool
}

// NewPathSearch returns the search for one host. The function "random" must return unpredictable
// numbers.
func NewPathSearch(random func() uint64) *PathSearch {
	return &PathSearch{random: random, secret: random() << 16}
}

// SetMost sets the size of the largest packet for the host, and reports whether it has changed. As
// long as no size was too large, the search supposes that the path carries the largest packet.
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

// Bytes returns the size of the largest packet that the path carries, as far as is known. The
// result "less" is true if packets for the host can be larger.
func (p *PathSearch) Bytes() (bytes int, less bool) { return p.size, p.size < p.most }

// Due returns the time of the next call of Probes.
func (p *PathSearch) Due() mono.Time { return p.due }

// Silent reports whether the other host has answered no probe of the latest silentRounds rounds. A
// new host is thus not silent before its first silentRounds rounds. One answer ends the silence.
func (p *PathSearch) Silent() bool { return p.missed >= silentRounds }

// Doubt makes the search probe the size in use again, because the operating system has refused a
// packet as too large.
func (p *PathSearch) Doubt(now mono.Time) {
	if p.rounds == 0 {
		p.due, p.check, p.checked = now, false, false
	}
}

// Check makes the search look whether the other host is there, by one small probe, because the
// operating system has no room for packets. If the probe has no answer after 100 ms, the search
// probes the size in use. Check has no effect while the size in use has no answer.
func (p *PathSearch) Check(now mono.Time) {
	if p.rounds == 0 && !p.check && !p.checked && now < p.due {
		p.check, p.usual, p.due = true, p.due, now
	}
}

// Heard tells the search that the other host has sent a packet or has new addresses, and is thus
// possibly back. The next round is then due 100 ms after the latest one, or earlier. Heard does not
// end the silence of the other host.
func (p *PathSearch) Heard() {
	if p.rounds > doubtRounds {
		p.due = p.due.Min(p.last.Add(doubtEvery))
	}
}

// Unsent tells the search that no probe of the latest call of Probes was sent, because this host
// has no room for packets. The round does not count, and is due again after 1 ms.
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

// The method "sizes" appends the probes of the size in use and of larger sizes, and if the size in
// use is in doubt, those of smaller sizes.
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
