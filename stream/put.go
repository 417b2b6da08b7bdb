package stream

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// In the reliable mode, the sender puts contiguous messages into the receiver's ring, up to the
// receiver's credit. When a put and all puts before it are acknowledged, the sender sends the
// receiver a control message (noticePlaced) with the ordinal after the last message of the put. The
// receiver gives credit only for regions that its reader has released.

const (
	// putBytesMax is the largest size of a put with several messages, in bytes. A put has at most
	// 1/putsPerRing of the size of the receiver's ring, so that the sender can start the next put
	// before the receiver's reader has released the region of the previous put.
	putBytesMax = 1 << 20
	putsPerRing = 2
	// putsMax is the largest number of unacknowledged puts to one receiver. putsBytesMax is the
	// largest total size of the unacknowledged puts to one receiver, in bytes.
	putsMax      = 64
	putsBytesMax = 16 << 20
)

// put is a put (remote write) that the receiver has not acknowledged yet.
type put struct {
	end  uint64 // ordinal after the last message of the put
	size int
	done bool
}

// The lower linkShift bits of the Context of a put's fragment are the index of the put in
// link.puts. The upper bits of the Context are the index of the link in Engine.links.
const linkShift = 32

// addLink stores an open link in the first free element of Engine.links, and sets the link's field
// "number" to the index of this element.
func (e *Engine) addLink(k *link) {
	e.letters.join(k, e.now)
	e.linked[peerStream{k.ep, k.s.key}] = k
	for i, other := range e.links {
		if other == nil {
			e.links[i], k.number = k, uint32(i)
			return
		}
	}
	k.number = uint32(len(e.links))
	e.links = append(e.links, k)
}

// dropLink removes a link from Engine.links if the link has ended and has no unacknowledged put.
func (e *Engine) dropLink(k *link) {
	if k.state == linkDone && k.putLo == k.putHi && e.links[k.number] == k {
		e.links[k.number] = nil
	}
}

// putDone handles the completion of a put.
func (e *Engine) putDone(f *btl.Fragment, err error) {
	k := e.links[f.Context>>linkShift]
	k.s.underWay--
	k.puts[f.Context%putsMax].done = true
	k.movedAt = e.now
	for k.putLo < k.putHi && k.puts[k.putLo%putsMax].done {
		if err == nil && k.state == linkReady {
			k.placed = k.puts[k.putLo%putsMax].end
		}
		k.putLo++
	}
	if err != nil {
		k.fail(lostError(err))
	}
	e.dropLink(k)
}

// putAll starts puts to all receivers, within the credit, the rate and the other limits of each
// receiver. putAll releases each region of the sender's ring whose messages all receivers have
// acknowledged.
func (s *Sender) putAll(now mono.Time) (n int) {
	done := s.next
	for _, k := range s.links {
		if k.state != linkReady {
			continue
		}
		n += k.putSome(now)
		if k.state != linkReady {
			continue
		}
		k.tell()
		k.watch(now)
		done = min(done, k.placed)
	}
	s.stats.Sent = done - s.cfg.First - min(s.drops, done-s.cfg.First)
	s.stats.Bytes = s.stats.Sent * uint64(s.ring.geo.MessageBytes)
	if before := s.seqLo; s.seqLo < s.seqHi {
		if s.release(done); s.seqLo > before {
			s.stats.LastNs = int64(now)
		}
	}
	return n
}

// The method "notice" handles a notice (binary control message) from the receiver. A noticeCredit
// permits puts of all messages with ordinals below the number in the notice. A noticeTaken, which a
// receiver of the unreliable mode sends after the sender's end message and in answer to probes,
// contains the number of datagrams without duplicates that the receiver has received since the
// start of the stream. The numbers in noticeCredit and in noticeTaken only increase, and the method
// "notice" ignores a notice whose number is not higher than the number in an earlier notice of the
// same kind. The method "notice" also ignores a notice that has no meaning in the stream's mode,
// and credit after the last message. Such a notice shows no progress. Credit for messages that the
// sender has dropped permits no put, and does not count as progress of the receiver.
func (k *link) notice(n notice) {
	switch {
	case n.kind == noticeTaken && k.s.cast != nil && n.ordinal > k.taken:
		k.taken, k.heard = n.ordinal, k.s.e.now
	case n.kind == noticeCredit && k.s.cast == nil && k.s.state < stateEnding &&
		n.ordinal > k.credit && n.ordinal-k.s.cfg.First <= ordinalsMax:
		if k.credit = n.ordinal; n.ordinal > k.next {
			k.heard = k.s.e.now
		}
	}
}

// find moves the link's position in the stream (the fields "seq" and "message") to the next message
// that is not put yet, and returns true. If the regions from seqLo to seqHi-1 contain no further
// message, find returns false.
func (k *link) find() bool {
	s := k.s
	if k.seq < s.seqLo {
		k.seq, k.message = s.seqLo, 0
	}
	for k.seq < s.seqHi {
		slot := int(k.seq % uint64(s.ring.geo.Regions))
		if k.message < s.ring.counts[slot].messages {
			return true
		}
		k.seq, k.message = k.seq+1, 0
	}
	return false
}

func (k *link) ordinal() uint64 {
	return k.s.ring.counts[k.seq%uint64(k.s.ring.geo.Regions)].first + k.message
}

// mayPut reports whether the receiver's credit and the limits of unacknowledged puts permit a put
// at present. mayPut ignores the rate limit.
func (k *link) mayPut() bool {
	if k.state != linkReady || k.putHi-k.putLo == putsMax || !k.find() {
		return false
	}
	n := k.ordinal()
	return n < k.credit && n == k.next && min(k.room(), k.putBytes()) > 0
}

// The method "room" returns putsBytesMax minus the total size of the unacknowledged puts to the
// receiver. If there is no unacknowledged put, "room" returns at least MessageBytesMax, so that a
// message of any size can be put.
func (k *link) room() int {
	left := putsBytesMax - k.unacknowledged()
	if k.putLo == k.putHi {
		return max(left, MessageBytesMax)
	}
	return left
}

// unacknowledged returns the total size of the unacknowledged puts to the receiver, in bytes.
func (k *link) unacknowledged() (bytes int) {
	for i := k.putLo; i < k.putHi; i++ {
		bytes += k.puts[i%putsMax].size
	}
	return bytes
}

// putSome starts puts to one receiver, until no message is left, or until the receiver's credit,
// the rate limit or a limit of unacknowledged puts (putsMax, putsBytesMax) is reached.
func (k *link) putSome(now mono.Time) (n int) {
	s := k.s
	for k.find() {
		from := k.ordinal()
		if from != k.next && !k.skipTo(from) {
			return n
		}
		budget := k.pace.budget(now)
		if from >= k.credit || k.putHi-k.putLo == putsMax || budget == 0 {
			return n
		}
		messages, mem := k.run(from, min(budget, k.putBytes(), k.room()))
		if messages == 0 {
			return n
		}
		if !k.put(from, messages, mem) {
			return n
		}
		if n++; s.stats.FirstNs == 0 {
			s.stats.FirstNs = int64(now)
		}
		k.pace.sent(now, len(mem))
		if k.pace.active() {
			s.stats.BurstBytes = max(s.stats.BurstBytes, uint64(len(mem)))
		}
	}
	return n
}

// putBytes returns the largest size in bytes of a put with several messages. A put of a single
// message may be larger.
func (k *link) putBytes() int {
	messages := max(k.ringMessages/putsPerRing, 1)
	return int(min(putBytesMax, messages*uint64(k.s.ring.geo.MessageBytes)))
}

// run returns the number and the memory of the messages that the next put can contain. The first
// message of the put has the ordinal "from". The messages of one put are contiguous in the rings of
// both sides. If the argument "bytes" is positive, the method "run" returns at least one message.
func (k *link) run(from uint64, bytes int) (messages int, mem []byte) {
	s := k.s
	g := &s.ring.geo
	if bytes <= 0 {
		return 0, nil
	}
	most := uint64(max(bytes/g.MessageBytes, 1))
	at := (from - s.cfg.First) % k.ringMessages
	most = min(most, k.credit-from, k.blockMessages-at%k.blockMessages)
	slot := int(k.seq % uint64(g.Regions))
	block, lo := s.ring.where(slot)
	lo += int(k.message) * g.MessageBytes
	counts := s.ring.counts
	have := counts[slot].messages - k.message
	for seq := k.seq + 1; have < most && seq < s.seqHi && len(s.ring.blocks) == 1; seq++ {
		next := int(seq % uint64(g.Regions))
		if next == 0 || counts[next-1].messages != uint64(g.RegionMessages) ||
			counts[next].first != from+have {
			break
		}
		have += counts[next].messages
	}
	messages = int(min(most, have))
	return messages, s.ring.blocks[block][lo : lo+messages*g.MessageBytes]
}

// put starts a put of the given messages, moves the link's position in the stream behind these
// messages, and returns true. If the transport cannot accept the put yet (btl.ErrAgain), the method
// "put" returns false. After any other error, "put" ends the link and returns false.
func (k *link) put(from uint64, messages int, mem []byte) bool {
	s := k.s
	at := (from - s.cfg.First) % k.ringMessages
	handle, offset := k.handles[at/k.blockMessages], at%k.blockMessages
	f, err := k.ep.PreparePut(mem, handle, offset*uint64(s.ring.geo.MessageBytes))
	if err == nil {
		if k.putLo == k.putHi {
			k.movedAt = s.e.now
		}
		i := k.putHi % putsMax
		f.Signal, f.OnDone = true, s.e.onDone
		f.Context = uint64(k.number)<<linkShift | i
		k.puts[i] = put{end: from + uint64(messages), size: len(mem)}
		k.putHi++
		s.underWay++
		if _, err = k.ep.Send(s.e.now, f); err != nil {
			k.putHi--
			s.underWay--
			err = errors.Join(err, k.ep.Free(f))
		}
	}
	if k.busy = errors.Is(err, btl.ErrAgain); err != nil {
		if !k.busy {
			k.fail(lostError(err))
		}
		return false
	}
	k.next = from + uint64(messages)
	for n := uint64(messages); n > 0; {
		slot := int(k.seq % uint64(s.ring.geo.Regions))
		m := min(n, s.ring.counts[slot].messages-k.message)
		k.message += m
		if n -= m; n > 0 {
			k.seq, k.message = k.seq+1, 0
		}
	}
	k.flushed = false
	s.stats.Datagrams++
	return true
}

// tell sends the receiver a noticePlaced with the ordinal below which all messages are in the
// receiver's ring.
func (k *link) tell() {
	if k.placed > k.told {
		k.told = k.placed
		k.heard = k.s.e.now
		k.flushed = false
		k.s.e.sendNotice(k.ep, notice{noticePlaced, k.s.key, k.placed})
	}
	if k.s.next == k.s.total && k.seqEmpty() && k.placed == k.next && k.next < k.s.total {
		k.skipTo(k.s.total)
	}
}

// seqEmpty reports whether a put of each message in the regions from seqLo to seqHi-1 has begun.
func (k *link) seqEmpty() bool { return !k.find() }

// skipTo tells the receiver (noticeSkip) that the sender drops the messages with the ordinals from
// link.next to ordinal-1, and returns true. A noticeSkip must not overtake a noticePlaced for the
// messages below link.next, because the receiver counts a message below a noticeSkip as dropped if
// no noticePlaced has announced the message. Until the receiver has acknowledged all earlier
// control messages, skipTo sends nothing and returns false.
func (k *link) skipTo(ordinal uint64) bool {
	if k.placed != k.next || k.told != k.next || !k.settled() {
		return false
	}
	k.next, k.placed, k.told = ordinal, ordinal, ordinal
	k.s.e.sendNotice(k.ep, notice{noticeSkip, k.s.key, ordinal})
	k.flushed = false
	return true
}

// watch ends the link to a receiver with ErrStalled if the sender has messages to put, and for
// Config.Timeout no put has completed and no new credit has arrived. The usual reason for
// ErrStalled is that the receiver gives no credit, because its reader has released no region. A
// message that has credit, but is delayed by the rate limit, by the transport or by unacknowledged
// puts, does not count as stalled. The transport itself ends the connection to a receiver that does
// not acknowledge packets, except while the receiver reports a lack of memory for a message of
// another stream. Because a receiver could report a lack of memory for ever, watch also ends the
// link if no put has completed for the time putTime, or if the receiver has not acknowledged
// earlier control messages for the time flushTime.
func (k *link) watch(now mono.Time) {
	inFlight := k.putLo < k.putHi
	if inFlight && now.Sub(k.movedAt) > k.putTime() {
		k.movedAt = k.lastMove() // the transport sends the puts of all streams in order
	}
	if inFlight && now.Sub(k.movedAt) > k.putTime() {
		k.stalled(fmt.Errorf("%w: the receiver acknowledges no message", ErrStalled))
		return
	}
	if k.flushing && now > k.flushBy {
		k.stalled(fmt.Errorf("%w: the receiver acknowledges no control message", ErrStalled))
		return
	}
	if !k.find() || k.ordinal() < k.credit && (inFlight || k.busy || k.pace.budget(now) == 0) {
		k.heard = now
		return
	}
	if now.Sub(k.heard) > k.s.cfg.Timeout {
		k.stalled(fmt.Errorf("%w: no free region for %v", ErrStalled, k.s.cfg.Timeout))
	}
}

// The method "stalled" tells the receiver that the stream to it ends with err, and ends the link.
func (k *link) stalled(err error) {
	k.s.e.abort(k.ep, k.s.key, "", err.Error())
	k.fail(err)
}

// lastMove returns the latest time of a completed put to the endpoint of the link.
func (k *link) lastMove() mono.Time {
	at := k.movedAt
	for _, other := range k.s.e.links {
		if other != nil && other.ep == k.ep {
			at = max(at, other.movedAt)
		}
	}
	return at
}

// putBytesPerSecond is the transfer rate on the slowest supported path, from which putTime and
// flushTime are computed.
const putBytesPerSecond = 8 << 10

// putTime returns the longest time for the completion of the oldest put.
func (k *link) putTime() time.Duration {
	size := time.Duration(k.puts[k.putLo%putsMax].size)
	return endTimeouts*k.s.cfg.Timeout + size*time.Second/putBytesPerSecond
}

// flushTime returns the longest time until the receiver has acknowledged all earlier control
// messages. flushTime includes the time for the unacknowledged puts of all streams to the same
// endpoint, because the transport sends the large messages to an endpoint in order, and control
// messages can wait behind puts. Later puts do not prolong the wait.
func (k *link) flushTime() time.Duration {
	bytes := 0
	for _, other := range k.s.e.links {
		if other != nil && other.ep == k.ep {
			bytes += other.unacknowledged()
		}
	}
	return endTimeouts*k.s.cfg.Timeout + time.Duration(bytes/putBytesPerSecond)*time.Second
}

// register registers the ring with the fabric until the stream ends, so that the fabric can send
// puts directly from the ring's memory. If the fabric does not support registration, the transport
// copies the data of puts into packets.
func (s *Sender) register() {
	for _, block := range s.ring.blocks {
		r, err := s.e.m.RegisterMemory(block)
		if err != nil {
			return
		}
		s.registered = append(s.registered, r)
	}
}
