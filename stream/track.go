package stream

import "math/bits"

// tracker counts the messages of a stream by their outcome (received, late, overrun, missing). The
// messages with ordinals from first to edge-1 are known to have been sent. For the latest sent
// messages (the history), the tracker records which datagrams have arrived. A tracker does not
// access payload, clocks or the ring.
//
//	first                          edge-len(state)                 edge
//	  |=============================|=============================|===========================
//	  |  not in the history           |  history                     |  not known to have been sent
//
// Every sent message is in exactly one of the counts received, late, overrun and missing.
//
//	count      meaning
//	=====      =======
//	received   all datagrams arrived and were stored
//	late       all datagrams arrived, one after its region was handed over
//	overrun    all datagrams arrived, one without a free region
//	missing    not all datagrams arrived
type tracker struct {
	first, edge uint64
	total       uint64 // first ordinal that is never sent, or unknownTotal
	datagrams   uint32 // number of datagrams of each message
	mask        uint64 // len(state)-1
	state       []messageState
	words       int      // words of bits per message; 0 for one datagram
	bits        []uint64 // bitmap of the datagrams that have arrived

	received, late, overrun uint64
	came                    uint64 // datagrams without duplicates
	duplicates, stale       uint64 // number of datagrams
	foreign                 uint64 // datagrams with invalid ordinals or numbers
}

// messageState is the history entry of a message. The field "mark" identifies the message to which
// the history entry belongs. A history entry is initialized when the first datagram of its message
// arrives. A message of which no datagram arrives costs no time, because its history entry is not
// initialized.
type messageState struct {
	mark   uint64 // ordinal + 1 of the message; 0: unused
	left   uint32 // datagrams that have not arrived yet
	spoilt spoil
}

// spoil is the reason why a message is not in the ring, although all its datagrams have arrived.
type spoil uint32

const (
	spoiltNot spoil = iota
	spoiltOverrun
	spoiltLate
)

// arrival is the classification of a received datagram.
type arrival uint8

const (
	arrivalNew       arrival = iota
	arrivalDuplicate         // the datagram has arrived before
	arrivalStale             // older than the history
	arrivalForeign           // not a datagram of this stream
)

// unknownTotal is the value of the field "total" for a stream whose end is not known yet.
const unknownTotal = ^uint64(0)

const (
	historyMessages  = 1 << 16 // maximum size of the history beyond the ring
	historyDatagrams = 1 << 24 // maximum number of datagrams in the history
)

// newCounter returns a tracker without a history, for messages that arrive exactly once and in the
// order of their ordinals.
func newCounter(first uint64) tracker {
	return tracker{first: first, edge: first, total: unknownTotal, datagrams: 1}
}

// newTracker returns a tracker for messages that consist of the given number of datagrams. The
// tracker's history has at least 2*window messages.
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

// extend records that all messages with ordinals lower than the argument "to" have been sent.
func (t *tracker) extend(to uint64) {
	to = min(to, t.total)
	t.edge = max(t.edge, to)
}

// The method named "of" returns the history entry of a message, which must be one of the latest
// messages (the history).
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

// end records the end of the stream. The argument "total" of the method "end" is the first ordinal
// that is never sent. If the sender is known to have sent messages with ordinals of "total" or
// higher, the method "end" uses the field "edge" instead of the argument "total".
func (t *tracker) end(total uint64) {
	t.total = max(total, t.edge)
	t.extend(t.total)
}

func (t *tracker) remembers(ordinal uint64) bool {
	return t.edge-ordinal <= min(uint64(len(t.state)), t.edge-t.first) && ordinal < t.edge
}

// arrive records a received datagram. After arrivalNew, the caller must call the method "settle",
// which records whether the caller has stored the payload.
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

// settle records whether the payload of a new datagram was stored. The argument "why" is spoiltNot
// if the payload was stored, and otherwise the reason why the payload was not stored. If all
// datagrams of the message have now arrived, the method "settle" counts the message as received,
// late or overrun. settle reports whether the datagram has completed its message and the whole
// message is in the ring.
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

// The method "sent" returns the number of messages that are known to have been sent.
func (t *tracker) sent() uint64 { return t.edge - t.first }

func (t *tracker) missing() uint64 { return t.sent() - t.received - t.late - t.overrun }

func (t *tracker) missingDatagrams() uint64 { return t.sent()*uint64(t.datagrams) - t.came }
