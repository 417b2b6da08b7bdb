package stream

import (
	"fmt"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// Receiver is the receiving side of a stream. The exported methods of a Receiver are safe for
// concurrent use. The methods that are not exported run on the engine's goroutine only.
type Receiver struct {
	e    *Engine
	ring *Ring
	cfg  Config
	own  uint64 // key of this receiver, by which senders find it
	key  uint64 // key of the stream (the sender's); 0: none yet
	// The field "messages" is the sender's total number of messages, or 0 if the sender has no fixed
	// total.
	messages uint64
	ep       *btl.Endpoint
	state    state
	begun    mono.Time

	candidates []*candidate // possible senders, in order of their hellos
	// The field "sender" is the candidate sender that has begun the stream, and startedBy is its start
	// message. Before the stream begins, the fields "sender" and startedBy are nil.
	sender    *candidate
	startedBy *start
	latest    error // reason of the latest refusal of a sender
	asm       *assembler
	group     *dataEndpoint
	source    dataSource    // of the stream's datagrams
	exposed   []*btl.Region // blocks of the ring, exposed to the sender only
	credit    uint64        // credit that was sent to the sender
	end       *ending
	endAt     mono.Time // time from which the longest wait for late datagrams counts
	heard     mono.Time // time from which the wait without a new datagram counts
	// blockedAt is the time at which a datagram first found no free region, since the reader's latest
	// release of a region. A blockedAt of 0 means that a region is free, or that no datagram needed a
	// region.
	blockedAt mono.Time
	asks      bool      // the receiver is in Engine.stall.turns
	asksAt    mono.Time // time of the latest wish to stop the port
	// The field "stopped" is the result of the latest call of stall.stopped for this receiver.
	stopped time.Duration
	takenAt mono.Time // time of the latest noticeTaken
	fresh   uint64    // number of new datagrams
	doneAt  mono.Time // time when the report was sent
	drops   uint64    // the sockets' drops before the stream began
	dropsAt mono.Time // time of the latest reading of the sockets' drops

	stats  Stats
	showAt mono.Time
	sample sampling

	regions chan Region
	started chan struct{}
	done    chan struct{}

	lock           sync.Mutex // guards the fields below
	shown          Stats
	err            error
	met            bool
	senderMessages uint64
}

// newReceiver creates a receiver that waits for a sender.
func (e *Engine) newReceiver(ring *Ring, cfg Config, own uint64) (*Receiver, error) {
	cfg, err := cfg.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case e.closed:
		return nil, ErrClosed
	case len(e.sending)+len(e.receiving) >= streamsMax:
		return nil, fmt.Errorf("%w: %d streams", ErrConfig, streamsMax)
	case cfg.Mode == Unreliable && e.data == nil:
		return nil, fmt.Errorf("%w: the port has no unreliable mode", ErrConfig)
	}
	r := &Receiver{
		e: e, ring: ring, cfg: cfg, own: own, regions: make(chan Region, ring.geo.Regions),
		started: make(chan struct{}), done: make(chan struct{}),
	}
	r.stats.Capacity = uint64(ring.geo.Regions)
	r.sample.every = cfg.Every
	if !ring.claim() {
		return nil, errRingUsed
	}
	for i := range ring.geo.Regions {
		if !ring.Free(i) && !cfg.Unmonitored {
			ring.unclaim()
			return nil, fmt.Errorf("%w: region %d of the receiver's ring is populated", ErrConfig, i)
		}
		ring.set(i, wordState, regionFree)
	}
	ring.setEnd(endOver, false)
	e.receivers[own] = r
	e.letters.opened++
	e.receiving = append(e.receiving, r)
	return r, nil
}

// The method "ending" handles the end message of the sender.
func (r *Receiver) ending(l *ending) {
	if r.asm == nil || r.end != nil {
		return
	}
	r.end = l
	r.asm.end(min(max(l.Total, r.cfg.First), ordinalsMax))
	r.stats.SenderDropped = l.Dropped
	r.heard, r.endAt = r.e.now, r.e.now
}

// start begins the stream with the parameters of a sender's start message. If the method "start"
// returns an error, the receiver is unchanged.
func (r *Receiver) start(s *candidate, st *start) error {
	size := r.ring.geo.MessageBytes
	n, perMsg := 1, size
	if r.cfg.Mode == Unreliable {
		perMsg = st.DatagramBytes - headerBytes
		if perMsg < 1 || perMsg > size {
			return fmt.Errorf("%w: datagrams of %d bytes", ErrMismatch, st.DatagramBytes)
		}
		if n = (size + perMsg - 1) / perMsg; n > datagramsMax {
			return fmt.Errorf("%w: messages in %d datagrams", ErrMismatch, n)
		}
		room := r.e.data.floor() - headerBytes
		if most := (size + room - 1) / room; n > most {
			return fmt.Errorf("%w: datagrams of %d bytes, this receiver takes none below %d", ErrMismatch,
				st.DatagramBytes, r.e.data.floor())
		}
	}
	if err := s.prepare(st); err != nil {
		return err
	}
	if r.cfg.Mode == Unreliable {
		r.drops = r.e.data.dropped()
		r.asm = newAssembler(r.ring, r.cfg.First, uint32(n), perMsg)
		r.e.bySource[r.source] = r
	} else {
		r.asm = newFiller(r.ring, r.cfg.First)
	}
	r.ep, r.key, r.messages = s.ep, s.key, s.hello.Messages
	r.e.addBegun(r)
	r.lock.Lock()
	r.senderMessages = s.hello.RingMessages
	r.lock.Unlock()
	r.asm.overwrite = r.cfg.Unmonitored
	r.asm.done = r.handOver
	r.asm.gap = r.cfg.Gap
	if r.messages > 0 {
		r.asm.track.total = r.cfg.First + r.messages
	}
	r.sent(st.Sent)
	r.credit = r.cfg.First
	r.state = stateRunning
	r.heard, r.asm.paidAt = r.e.now, r.e.now
	if r.cfg.Begin != nil {
		r.cfg.Begin()
	}
	close(r.started)
	return nil
}

// leapPerSecond is an upper limit for the number of messages that a sender sends per second.
const leapPerSecond = 1 << 26

// The method "sent" records that the sender has sent all messages with ordinals lower than the
// argument "below". A sender reports its progress at the interval noticeEvery. A sender that has
// reported nothing for Config.Timeout is considered lost. A datagram counts as foreign if its
// ordinal is further ahead of the sender's latest progress report than any sender can get within
// Config.Timeout.
func (r *Receiver) sent(below uint64) {
	below = min(below, ordinalsMax)
	r.asm.track.extend(below)
	leap := leapPerSecond * (uint64(r.cfg.Timeout/time.Second) + 2)
	r.asm.limit = max(below, r.cfg.First) + leap
}

// handOver sends a completed region to the program's channel (Completed), unless the channel is
// full.
func (r *Receiver) handOver(region Region) {
	r.stats.Regions++
	select {
	case r.regions <- region:
	default: // a program that does not read the channel looks at the states of regions
	}
}

// The method "datagram" processes a datagram and returns true, or returns false if the datagram
// must wait for a free region.
func (r *Receiver) datagram(h header, payload []byte, landed bool) bool {
	if r.state != stateRunning {
		return true
	}
	now := r.e.now
	t := &r.asm.track
	old, opened := t.duplicates+t.stale+t.foreign, r.asm.opened
	blocked := resultBlocked ==
		r.asm.take(h.ordinal, h.datagram, payload, r.cfg.Overrun == Block, landed)
	if r.asm.opened != opened { // a region was free
		r.blockedAt = 0
	}
	if blocked {
		if r.blockedAt == 0 {
			r.blockedAt = now
		}
		if r.e.soleStream() || r.e.stall.may(r, now) {
			return false
		}
		r.asm.take(h.ordinal, h.datagram, payload, false, landed)
	} else {
		r.e.stall.end(r, now)
	}
	news := old == t.duplicates+t.stale+t.foreign
	if news {
		r.fresh++
		r.heard = now
	}
	r.count(now)
	if r.cfg.Arrival != nil {
		r.cfg.Arrival(Arrival{
			Key: r.key, Ordinal: h.ordinal, Messages: 1, Datagram: h.datagram, Bytes: len(payload),
			New: news,
		})
	}
	return true
}

// The method "count" counts an arrived datagram, or an arrived notice of messages that were put.
func (r *Receiver) count(now mono.Time) {
	r.stats.Datagrams++
	if r.stats.FirstNs == 0 {
		r.stats.FirstNs = int64(now)
	}
	r.stats.LastNs = int64(now)
}

// The method "notice" handles a notice (binary control message) from the sender. The number in a
// notice is an ordinal, below which all messages have been sent (noticeSent), are in the ring
// (noticePlaced), or were dropped unless they are in the ring (noticeSkip).
func (r *Receiver) notice(n notice) {
	if r.asm == nil || r.state != stateRunning {
		return
	}
	reliable := r.cfg.Mode == Reliable
	switch {
	case n.kind == noticeSent && !reliable:
		r.sent(n.ordinal)
	case n.kind == noticePlaced && reliable && n.ordinal <= r.credit:
		now := r.e.now
		from := r.asm.track.edge
		if r.asm.fill(n.ordinal) {
			r.count(now)
			if r.cfg.Arrival != nil {
				r.cfg.Arrival(Arrival{
					Key: r.key, Ordinal: from, Messages: n.ordinal - from, New: true,
					Bytes: int(n.ordinal-from) * r.ring.geo.MessageBytes,
				})
			}
		}
	case n.kind == noticeSkip && reliable:
		r.asm.skip(min(n.ordinal, ordinalsMax))
	}
}

// The method "progress" does the receiver's work that is due, such as sending credit and checking
// time limits.
func (r *Receiver) progress(now mono.Time) {
	if r.begun == 0 {
		r.begun = now
	}
	switch r.state {
	case stateMeeting:
		if now.Sub(r.begun) > r.cfg.Meet {
			r.fail(withLatest(fmt.Errorf("%w: no sender within %v", ErrTimeout, r.cfg.Meet), r.latest))
		}
	case stateRunning:
		r.running(now)
	case stateEnding:
		// After sending its final counters (report), a receiver waits until the report is acknowledged,
		// until the connection to the sender has failed, or for at most Config.Timeout.
		packets, waiting := r.ep.Outstanding()
		if packets+waiting == 0 && r.e.outboxes[r.ep] == nil || r.ep.Err() != nil ||
			now.Sub(r.doneAt) > r.cfg.Timeout {
			r.over(nil)
		}
	case stateDone:
	}
	r.publish(now)
}

// The method "running" sends credit for the regions that the reader has released, and checks the
// time limits of the stream.
func (r *Receiver) running(now mono.Time) {
	if r.cfg.Mode == Reliable {
		r.grant()
	} else {
		r.allowForStops(now)
		if r.blockedAt != 0 && r.asm.free() {
			r.blockedAt = 0
		}
		if r.blockedAt != 0 && now.Sub(r.blockedAt) > r.cfg.Timeout {
			r.fail(fmt.Errorf("%w: no free region for %v", ErrStalled, r.cfg.Timeout))
			return
		}
		r.tellTaken(now)
	}
	if r.end == nil {
		return
	}
	if r.asm.complete() || now.Sub(r.heard) > r.cfg.Grace ||
		now.Sub(r.endAt) > r.cfg.Grace+r.cfg.Timeout {
		r.report(now)
	}
}

// tellTaken sends noticeTaken to a sender that waits for this receiver's final report. The number
// in a noticeTaken counts all datagrams without duplicates since the start, and its growth shows
// the sender that the receiver makes progress.
func (r *Receiver) tellTaken(now mono.Time) {
	if r.end != nil && now.Sub(r.takenAt) >= noticeEvery {
		r.takenAt = now
		r.e.sendNotice(r.ep, notice{noticeTaken, r.key, r.fresh})
	}
}

// grant opens the regions that the reader has released, within the budget of the sender's puts, and
// sends the credit to the sender.
func (r *Receiver) grant() {
	if r.asm.poor() {
		r.asm.pay(r.e.now, r.written())
	}
	if credit := r.asm.grant(); credit > r.credit {
		r.credit = credit
		r.e.sendNotice(r.ep, notice{noticeCredit, r.key, credit})
	}
}

// The method "written" returns the number of bytes that the sender has put into the ring.
func (r *Receiver) written() (sum uint64) {
	for _, block := range r.exposed {
		sum += block.Written()
	}
	return sum
}

// The method "report" ends the receiving of messages, and sends the receiver's counters to the
// sender.
func (r *Receiver) report(now mono.Time) {
	r.asm.finish()
	r.e.stall.leave(r, now) // the remaining datagrams of the stream are dropped
	r.state, r.doneAt = stateEnding, now
	r.dropsAt = 0
	r.publish(now)
	st := r.stats
	r.e.sendLetter(r.ep, &letter{Kind: letterReport, Key: r.key, Report: &st})
}

// fail ends the stream with an error. Messages that were received before the error are passed to
// the reader.
func (r *Receiver) fail(err error) {
	switch r.state {
	case stateDone:
		return
	case stateEnding: // all data has arrived, and usually the report too
		r.over(nil)
		return
	case stateRunning:
		r.asm.finish()
	case stateMeeting:
	}
	if r.ep != nil {
		r.e.abort(r.ep, r.key, "", err.Error())
	}
	for _, s := range r.candidates {
		delete(r.e.candidates, s.dataKey)
		r.e.abort(s.ep, s.key, "", err.Error())
	}
	r.candidates = nil
	r.over(err)
}

// The method "over" ends the stream and frees its resources.
func (r *Receiver) over(err error) {
	if r.asm == nil {
		close(r.started)
	}
	r.state = stateDone
	r.e.stall.leave(r, r.e.now)
	r.withdraw()
	if r.group != nil {
		r.e.data.leave(r.group)
		_ = r.e.data.dom.Remove(r.source.from)
	}
	r.showAt = 0
	r.publish(r.e.now)
	r.lock.Lock()
	r.err = err
	r.lock.Unlock()
	r.ring.leave()
	close(r.regions)
	close(r.done)
}

// dropsEvery is the interval at which the receiver reads the kernel's counters of dropped
// datagrams.
const dropsEvery = 100 * time.Millisecond

func (r *Receiver) publish(now mono.Time) {
	if r.asm == nil {
		r.lock.Lock()
		r.shown.Refused = r.e.refusals(&r.stats)
		r.lock.Unlock()
		return
	}
	due := r.sample.due(r.asm.track.sent())
	if now < r.showAt && r.state < stateEnding && !due {
		return
	}
	r.showAt = now.Add(publishEvery)
	st, t := &r.stats, &r.asm.track
	st.Sent, st.Received, st.Late, st.Overrun = t.sent(), t.received, t.late, t.overrun
	st.Missing = t.missing()
	if r.cfg.Mode == Unreliable {
		st.MissingDatagrams = t.missingDatagrams()
	}
	st.Duplicates, st.Stale, st.Foreign = t.duplicates, t.stale, t.foreign
	st.Bytes = t.received * uint64(r.ring.geo.MessageBytes)
	st.Peers = 1
	if r.cfg.Mode == Unreliable && (now.Sub(r.dropsAt) > dropsEvery || r.state >= stateEnding) &&
		!r.e.closed {
		r.dropsAt = now
		st.SocketDrops = r.e.data.dropped() - r.drops
	}
	populated := st.Regions // an estimate, because counting the regions of a large ring is slow
	if n := r.ring.geo.Regions; n <= populatedMax {
		populated = 0
		for i := range n {
			if r.ring.Populated(i) {
				populated++
			}
		}
	}
	st.Populated = min(populated, st.Capacity)
	r.lock.Lock()
	r.shown = *st
	r.shown.Refused = r.e.refusals(st)
	r.lock.Unlock()
	if due {
		r.cfg.Sample(*st)
	}
}

// In a ring of at most populatedMax regions, the method "publish" counts the populated regions
// exactly. In a ring of more than populatedMax regions, the number of populated regions is an
// estimate.
const populatedMax = 256

func (r *Receiver) deadline(now mono.Time) mono.Time {
	switch {
	case r.state == stateDone:
		return mono.Never
	case r.end != nil || r.state == stateEnding:
		return now.Add(time.Millisecond)
	case r.state == stateRunning && r.asm.more:
		return r.asm.grantAt(now)
	case r.ring.polled && r.state == stateRunning:
		return now.Add(ringEvery)
	}
	return now.Add(noticeEvery)
}
