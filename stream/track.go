package stream

import "math/bits"

// tracker counts the outcome of each message of a stream. It knows that the ordinals [first, edge)
// have been sent. For the latest of them, its history, it remembers which datagrams have arrived.
// It uses no payload, no time and no memory of messages.
//
//	first                          edge-len(state)                 edge
//	  |  settled: an arrival is stale |  known datagram by datagram  |  not sent yet, as far as known
//
// Every message is in exactly one of the counts received, late, overrun and missing:
//
//	received   all its datagrams came, and all were stored
//	late       all came, one of them after the region was handed over
//	overrun    all came, one of them found no free region
//	missing    the rest: what was sent, less the three
type tracker struct {
	first, edge uint64
	total       uint64 // the first ordinal that is never sent; unknown is all ones
	datagrams   uint32 // of each message
	mask        uint64 // len(state)-1
	state       []messageState
	words       int      // of bits, for each message; none for messages of one datagram
	bits        []uint64 // datagrams that came

	received, late, overrun uint64
	came                    uint64 // datagrams that came for the first time
	duplicates, stale       uint64 // datagrams
	foreign                 uint64 // datagrams with an ordinal that the stream does not have
}

// messageState is the history entry of a message. An entry belongs to the message in its mark. It
// is initialized only when a datagram of that message arrives, so the cost of a datagram does not
// depend on how far it is ahead.
type messageState struct {
	mark   uint64 // its ordinal and one; 0: no message's yet
	left   uint32 // datagrams that did not come yet
	spoilt spoil
}

// spoil is the reason why a received message is not in the data.
type spoil uint32

const (
	spoiltNot spoil = iota
	spoiltOverrun
	spoiltLate
)

// arrival is the classification of a datagram.
type arrival uint8

const (
	arrivalNew       arrival = iota
	arrivalDuplicate         // it came before
	arrivalStale             // too old to tell
	arrivalForeign           // no datagram of this stream
)

// unknownTotal is the total of a stream whose end is not known yet.
const unknownTotal = ^uint64(0)

const (
	historyMessages  = 1 << 16 // remembered beside what the ring holds
	historyDatagrams = 1 << 24 // and in all
)

// newCounter returns a tracker without a history, for messages that arrive once and in order.
func newCounter(first uint64) tracker {
	return tracker{first: first, edge: first, total: unknownTotal, datagrams: 1}
}

// newTracker tracks messages of so many datagrams each, and at least the latest window of them.
func newTracker(first uint64, datagrams uint32, window int) tracker {
	n := max(2*window, min(historyMessages, historyDatagrams/int(datagrams)))
	n = 1 << bits.Len(uint(n-1))
	t := tracker{
		first: first, edge: first, total: unknownTotal, datagrams: datagrams, mask: uint64(n - 1),
		state: make([]messageState, n),
	}
	if datagrams > 1 {
		t.words = int(datagrams+63) / 64
		t.bits = make([]uint64, n*t.words)
	}
	return t
}

// extend records that all ordinals below to have been sent.
func (t *tracker) extend(to uint64) {
	to = min(to, t.total)
	t.edge = max(t.edge, to)
}

// of returns the place of a message that is remembered.
func (t *tracker) of(ordinal uint64) *messageState {
	i := ordinal & t.mask
	s := &t.state[i]
	if s.mark != ordinal+1 {
		*s = messageState{mark: ordinal + 1, left: t.datagrams}
		if t.words > 0 {
			clear(t.bits[int(i)*t.words:][:t.words])
		}
	}
	return s
}

// end records the end of the stream. The end is never below the ordinals that are known to be sent.
func (t *tracker) end(total uint64) {
	t.total = max(total, t.edge)
	t.extend(t.total)
}

// remembers says whether the message is in the history.
func (t *tracker) remembers(ordinal uint64) bool {
	return t.edge-ordinal <= min(uint64(len(t.state)), t.edge-t.first) && ordinal < t.edge
}

// arrive records a datagram. For a new datagram the caller must then record whether it stored the
// payload, or with spoil that it did not.
func (t *tracker) arrive(ordinal uint64, datagram uint32) arrival {
	if ordinal < t.first || ordinal >= t.total || datagram >= t.datagrams {
		t.foreign++
		return arrivalForeign
	}
	if ordinal >= t.edge {
		t.extend(ordinal + 1)
	} else if !t.remembers(ordinal) {
		t.stale++
		return arrivalStale
	}
	i := ordinal & t.mask
	s := t.of(ordinal)
	if t.words == 0 {
		if s.left == 0 {
			t.duplicates++
			return arrivalDuplicate
		}
	} else {
		w := &t.bits[int(i)*t.words+int(datagram/64)]
		bit := uint64(1) << (datagram % 64)
		if *w&bit != 0 {
			t.duplicates++
			return arrivalDuplicate
		}
		*w |= bit
	}
	s.left--
	t.came++
	return arrivalNew
}

// settle counts the message of a new datagram if it is now complete, and reports whether the
// message is in the data. why spoils the message.
func (t *tracker) settle(ordinal uint64, why spoil) (received bool) {
	s := t.of(ordinal)
	s.spoilt = max(s.spoilt, why)
	if s.left > 0 {
		return false
	}
	switch s.spoilt {
	case spoiltNot:
		t.received++
		return true
	case spoiltLate:
		t.late++
	case spoiltOverrun:
		t.overrun++
	}
	return false
}

// sent is the number of messages that are known to have been sent.
func (t *tracker) sent() uint64 { return t.edge - t.first }

// missing is how many of them did not come whole.
func (t *tracker) missing() uint64 { return t.sent() - t.received - t.late - t.overrun }

// missingDatagrams is how many of their datagrams did not come.
func (t *tracker) missingDatagrams() uint64 { return t.sent()*uint64(t.datagrams) - t.came }
