package layers

import (
	"encoding/binary"
	"errors"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/internal/mono"
)

// The stream of the raw layer sends datagrams in batches, with at most as many in flight as the
// peer's endpoint can hold. The receiver of a raw stream reports a count after every quarter of the
// endpoint's capacity, and at the end of a phase it answers the sender's flush with its final
// count. If the window of a sender stays full, the sender sends a probe after the data, and the
// datagrams that the answer does not count are lost.
//
// Data datagrams have no header and one common length, and control datagrams have another length.

const (
	rawControlBytes = 40
	rawControlMagic = 0x6c62_7772_6c74_6367
	// rawStall is the time after which a sender with a full window sends a probe, and repeats a
	// probe or a flush.
	rawStall = 5 * time.Millisecond
	// rawFlushTries is the number of repetitions of a flush while datagrams are missing and none
	// arrives.
	rawFlushTries = 4
)

// Kinds of control datagrams.
const (
	rawCount   = 1 // the receiver's count
	rawFlush   = 2 // the sender asks for the final count
	rawFlushed = 3 // the answer
	rawProbe   = 4 // the sender asks for a count, which is the answer
	rawMeet    = 5 // before the rounds: the numbers of a meeting
)

// A control datagram has five words, which are a magic number (rawStream.magic), the kind, the
// received and the sent count of its sender, and in an answer the sent count of the asking side.
const (
	rawKindAt     = 8
	rawReceivedAt = 16
	rawSentAt     = 24
	rawEchoAt     = 32
)

// rawStream is one side of a stream, sending, receiving or both.
type rawStream struct {
	p *rawPort
	r *Round

	dataLen, controlLen int
	window              int64 // datagrams on the way at most
	stopAndWait         bool  // whole windows, each waits for the one before (rate)
	server              bool
	sending             bool
	pace                pace

	sent, peerReceived int64     // Sent, and what the peer reported of it
	lost               int64     // Sent and given up
	movedAt            mono.Time // the peer reported, or was asked to
	heardAt            mono.Time // the peer reported anything

	received   int64
	countEvery int64
	counted    int64 // received, as last reported

	peerSent    int64 // as the peer reported at the latest flush
	flushed     bool
	windowStart int64
}

func (p *rawPort) newStream(r *Round, server bool) *rawStream {
	s := &rawStream{
		p: p, r: r, server: server, dataLen: min(r.SizeBytes, p.mtu),
		controlLen: rawControlBytes, window: dataRoom(p.peerCapacity), movedAt: clock(),
		countEvery: max(1, int64(p.caps.RecvCapacity)/4),
	}
	if s.dataLen == s.controlLen {
		s.controlLen += 8
	}
	if r.Test == plan.TestRate {
		// The window is the requested one, although small datagrams may exceed the capacity, and
		// lost datagrams are counted.
		s.stopAndWait, s.window, s.countEvery = true, int64(r.Window), int64(r.Window)
	}
	if r.Verify && s.dataLen == 1 {
		s.window = min(s.window, 64) // What stamps of one byte can tell apart.
		s.countEvery = min(s.countEvery, 16)
	}
	if s.stopAndWait {
		r.Meter.Window = int(s.window)
	}
	return s
}

// dataRoom is the number of data datagrams in flight for an endpoint of the given capacity, less
// the room for control datagrams.
func dataRoom(capacity int) int64 { return max(1, int64(capacity-min(8, capacity/4))) }

// streamClient measures a stream from its first datagram until the receiver's final count.
func (p *rawPort) streamClient(r *Round) error {
	s := p.newStream(r, false)
	if err := s.phase(newLimit(s.datagrams(r.WarmupMessages), r.WarmupNs, clock())); err != nil {
		return err
	}
	sent, arrived, received := s.sent, s.peerReceived, s.genuine()
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, s.arrivedTotal)
	err := s.phase(newLimit(s.datagrams(r.Messages), r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	r.Sent = uint64(s.sent)
	sent, arrived, received = s.sent-sent, s.peerReceived-arrived, s.genuine()-received
	r.Meter.Lost = max(0, sent-arrived)
	if r.Test == plan.TestBiBW {
		r.Meter.Lost += max(0, s.peerSent-s.received)
	} else {
		received = 0
	}
	r.Meter.Messages, r.Meter.Bytes = s.messages(arrived + received)
	return err
}

// genuine is the number of received datagrams at the latest flush, but at most what the peer has
// sent. More can be received, because networks make copies.
func (s *rawStream) genuine() int64 { return min(s.received, s.peerSent) }

// The method messages is the number of messages and bytes in the given number of datagrams.
func (s *rawStream) messages(datagrams int64) (messages, bytes int64) {
	bytes = datagrams * int64(s.dataLen)
	if s.r.SizeBytes <= s.dataLen {
		return datagrams, bytes
	}
	return bytes / int64(s.r.SizeBytes), bytes
}

// arrivedTotal is the number of datagrams that are known to have arrived.
func (s *rawStream) arrivedTotal() (c Counts) {
	c.Messages, c.Bytes = s.messages(s.peerReceived + s.received)
	return c
}

// datagrams is the number of datagrams that carry a number of messages.
func (s *rawStream) datagrams(messages int64) int64 {
	if s.r.SizeBytes <= s.dataLen {
		return messages
	}
	return (messages*int64(s.r.SizeBytes) + int64(s.dataLen) - 1) / int64(s.dataLen)
}

// streamServer receives, and in bibw also sends, until the client stops the round or is silent.
func (p *rawPort) streamServer(r *Round) error {
	s := p.newStream(r, true)
	watch := startWatch(&p.waiter)
	defer func() {
		r.Usage = watch.read()
		r.Sent = uint64(s.sent)
		r.Tally.Messages = s.genuine()
		r.Tally.Bytes = s.genuine() * int64(s.dataLen)
	}()
	for !r.over() {
		if err := s.pass(); err != nil {
			return err
		}
	}
	return nil
}

// phase sends until the limit, and then flushes.
func (s *rawStream) phase(l limit) error {
	s.sending, s.flushed = true, false
	end := s.sent + l.messages
	if end < 0 {
		end = l.messages
	}
	now := clock()
	s.pace.start(s.r.BytesPerNs, now)
	for s.heardAt = now; s.sent < end && now < l.until && !s.r.over(); now = clock() {
		if now >= s.r.deadlineFrom(s.heardAt) {
			return errSilent
		}
		if err := s.pass(); err != nil {
			return err
		}
		if err := s.push(now, end-s.sent); err != nil {
			return err
		}
		if s.r.reportDue(now) {
			s.r.report(now)
		}
	}
	s.sending = false
	return s.flush()
}

// pass handles received datagrams, reports a count when it is due, and as the server of bibw also
// sends.
func (s *rawStream) pass() error {
	p := s.p
	n, err := p.poll(p.out)
	if err != nil {
		return err
	}
	if n == 0 {
		p.lookAround()
		if (s.server || s.room() <= 0) && p.waiter.idle() && s.server {
			if err := p.checkClient(clock()); err != nil {
				return err
			}
		}
	} else {
		p.waiter.busy()
	}
	for i := range p.out[:n] {
		if err := s.arrived(&p.out[i]); err != nil {
			return err
		}
		p.repost = append(p.repost, p.out[i].Buf)
	}
	if err := p.returnReceives(); err != nil {
		return err
	}
	if s.received-s.counted >= s.countEvery {
		if err := s.control(rawCount, 0); err != nil {
			return err
		}
	}
	if s.sending && s.server {
		return s.push(clock(), s.window)
	}
	return nil
}

// arrived counts a data datagram or processes a control datagram.
func (s *rawStream) arrived(c *fabric.Completion) error {
	if c.Errno != 0 {
		return nil
	}
	if int(c.Len) == s.dataLen {
		s.received++
		s.p.heard++
		if s.r.Verify {
			s.r.Tally.check(s.p.arena.Bytes(c.Buf)[:c.Len], s.dataLen)
		}
		// The client of the test bibw has begun a phase, so this side also sends.
		if !s.sending && s.server && s.r.Test == plan.TestBiBW {
			s.sending = true
			s.pace.start(s.r.BytesPerNs, clock())
		}
		return nil
	}
	if int(c.Len) != s.controlLen {
		return nil
	}
	b := s.p.arena.Bytes(c.Buf)
	if binary.LittleEndian.Uint64(b) != s.magic() {
		return nil
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
	peerSent := word(rawSentAt)
	// No count of the peer is larger than what was sent. A larger one is no proof of a lie: the peer
	// also counts copies that the network makes, and the datagram may be damaged.
	s.peerReceived = max(s.peerReceived, min(word(rawReceivedAt), s.sent))
	if echo := min(word(rawEchoAt), s.sent); echo > 0 {
		s.lost = max(s.lost, echo-s.peerReceived)
	}
	s.p.heard++
	s.movedAt = clock()
	s.heardAt = s.movedAt
	switch binary.LittleEndian.Uint64(b[rawKindAt:]) {
	case rawProbe:
		return s.control(rawCount, peerSent)
	case rawFlush:
		s.sending, s.peerSent = false, max(0, peerSent)
		return s.control(rawFlushed, peerSent)
	case rawFlushed:
		s.flushed, s.peerSent = true, max(0, peerSent)
	}
	return nil
}

// The method magic is the magic number of the control datagrams of a round. Only the two sides know
// it, and it differs from that of an earlier round, whose datagrams may be late.
func (s *rawStream) magic() uint64 { return rawControlMagic ^ s.p.key ^ s.r.Number }

// control sends a control datagram.
func (s *rawStream) control(kind uint64, echo int64) error {
	buf, err := s.p.takeFree()
	if err != nil {
		return err
	}
	b := s.p.arena.Bytes(buf)
	clear(b[:s.controlLen])
	binary.LittleEndian.PutUint64(b, s.magic())
	binary.LittleEndian.PutUint64(b[rawKindAt:], kind)
	binary.LittleEndian.PutUint64(b[rawReceivedAt:], uint64(s.received))
	binary.LittleEndian.PutUint64(b[rawSentAt:], uint64(s.sent))
	binary.LittleEndian.PutUint64(b[rawEchoAt:], uint64(echo))
	s.counted = s.received
	return s.p.send(buf, s.controlLen)
}

// The method room returns how many datagrams may be sent now.
func (s *rawStream) room() int64 {
	onTheWay := s.sent - s.lost - s.peerReceived
	if onTheWay < 0 { // What was given up has arrived after all.
		s.lost += onTheWay
		onTheWay = 0
	}
	if !s.stopAndWait {
		return s.window - onTheWay
	}
	if onTheWay == 0 {
		s.windowStart = s.sent
	}
	return s.window - (s.sent - s.windowStart)
}

// push sends a batch of at most most datagrams.
func (s *rawStream) push(now mono.Time, most int64) error {
	p := s.p
	room := s.room()
	if room <= 0 && now.Sub(s.movedAt) > rawStall {
		s.movedAt = now
		return s.control(rawProbe, 0)
	}
	fit := max(1, rawBatchBytes/max(1, s.dataLen))
	n := int(min(room, most, s.pace.due(now, s.dataLen), int64(min(rawBatch, fit, len(p.free)))))
	if n <= 0 {
		return nil
	}
	batch := p.sends[:n]
	for i := range batch {
		buf := p.free[len(p.free)-1-i]
		if s.r.Verify {
			fillPattern(p.arena.Bytes(buf)[:s.dataLen], uint64(s.sent)+uint64(i))
		}
		batch[i] = fabric.Send{To: p.peer, Buf: buf, Len: uint32(s.dataLen)}
	}
	posted, err := p.ep.Post(batch)
	if s.dataLen > p.caps.InjectBytes {
		p.free = p.free[:len(p.free)-posted]
	}
	if posted > 0 && s.sent == s.lost+s.peerReceived {
		s.movedAt = now
	}
	s.sent += int64(posted)
	s.pace.offered += float64(posted * s.dataLen)
	if err != nil && !errors.Is(err, fabric.ErrAgain) {
		return err
	}
	return nil
}

// The method flush requests the receiver's final count until the count arrives, and repeats the
// request while datagrams are missing and some still arrive. In bibw, flush also waits for the
// datagrams of the peer.
func (s *rawStream) flush() error {
	begin := clock()
	for tries, moved := 0, int64(-1); ; tries++ {
		s.flushed = false
		if err := s.control(rawFlush, 0); err != nil {
			return err
		}
		now := clock()
		for until := now.Add(rawStall); !s.flushed && now < until; now = clock() {
			if s.r.Halted.Load() {
				return ErrHalted
			}
			if err := s.pass(); err != nil {
				return err
			}
		}
		if arrived := s.peerReceived + s.received; arrived != moved {
			moved, tries = arrived, 0
		}
		complete := s.peerReceived >= s.sent &&
			(s.r.Test != plan.TestBiBW || s.received >= s.peerSent)
		if s.flushed && (complete || tries >= rawFlushTries) {
			return nil
		}
		if now >= s.r.deadlineFrom(begin) {
			return errSilent
		}
	}
}
