package coll

import (
	"errors"
	"reflect"
	"slices"

	"gobtl/pml"
)

// Port is the interface through which a Schedule exchanges messages with the other ranks. The
// Schedule sets OnDone of each request.
type Port interface {
	// Send begins to send data to a rank, and Recv begins to receive data from a rank. The n-th Send
	// from one rank to a second rank matches the n-th Recv from the first rank at the second rank. If
	// Send or Recv returns an error, nothing is sent or received.
	Send(r *pml.Request, to int, data []byte) error
	Recv(r *pml.Request, from int, data []byte) error
	// Cancel cancels a receive or abandons a send, and reports whether the message could be cancelled
	// or abandoned.
	Cancel(r *pml.Request) bool
	// Skip receives and drops the next message that a rank sends. A Schedule calls Skip instead of
	// Recv when its operation has failed.
	Skip(from int)
}

// Fold combines each value of x with the value of acc at the same index, and stores the result in
// acc. If xFirst is true, the value of x is the left operand.
type Fold func(acc, x []byte, xFirst bool)

type kind uint8

const (
	send  kind = iota // from, to peer
	recv              // into, from peer
	fence             // wait until all earlier steps are done
	move              // into = from
	fold              // into = into with from
	foldX             // into = from with into
)

// step is one step of a schedule.
type step struct {
	kind kind
	peer int
	into []byte
	from []byte
}

// Schedule holds the steps of one rank in a collective operation. A zero Schedule is ready for
// Reset. A Schedule whose operation has ended can be used for a new operation, without new
// allocations of memory.
type Schedule struct {
	rank, size int
	combine    Fold
	steps      []step
	at         int
	group      int // the first step after the latest fence (a step that waits)
	told       bool
	running    bool
	pending    int
	err        error
	failed     *pml.Request
	port       Port
	done       func(error)
	requests   []*pml.Request // requests[:used] were used since the latest fence
	used       int
	scratch    []byte
	lent       int      // bytes of scratch in use
	kept       int      // bytes of all scratch buffers since Reset
	places     [2][]int // offsets of parts, while steps are made
	ended      func(*pml.Request)
}

// Reset removes all steps, and sets the rank, the number of ranks and the combining function.
func (s *Schedule) Reset(rank, size int, combine Fold) {
	clear(s.steps)
	s.rank, s.size, s.combine, s.steps = rank, size, combine, s.steps[:0]
	s.at, s.err, s.failed, s.used, s.lent, s.kept = 0, nil, nil, 0, 0, len(s.scratch)
	s.group, s.told = 0, false
	if s.ended == nil {
		s.ended = s.onDone
	}
}

// Start begins to carry out the steps of the Schedule. When all steps have ended, the Schedule
// calls the function "done" once. The Schedule can call the function "done" during the call of
// Start. If the operation has failed, the argument of "done" is the error of the operation, and
// other ranks might still wait for messages from this rank.
func (s *Schedule) Start(port Port, done func(error)) {
	s.port, s.done = port, done
	s.advance()
}

// Steps returns the number and the total bytes of the messages that this rank sends. Steps is for
// tests.
func (s *Schedule) Steps() (messages, bytes int) {
	for _, t := range s.steps {
		if t.kind == send {
			messages++
			bytes += len(t.from)
		}
	}
	return messages, bytes
}

// Peers returns the number of ranks with which this rank exchanges messages, and the number of
// steps in which this rank waits for messages. Peers is for tests.
func (s *Schedule) Peers() (peers, rounds int) {
	seen, waits := make([]bool, s.size), false
	for _, t := range s.steps {
		switch t.kind {
		case send, recv:
			if waits = true; !seen[t.peer] {
				seen[t.peer] = true
				peers++
			}
		case fence:
			if waits {
				rounds++
			}
			waits = false
		case move, fold, foldX:
		}
	}
	return peers, rounds
}

// Memory returns the number of bytes that the Schedule has allocated for steps, requests and
// values. The result of Memory does not include memory that the caller has provided. Memory is for
// tests.
func (s *Schedule) Memory() int {
	return cap(s.steps)*int(reflect.TypeFor[step]().Size()) +
		len(s.requests)*int(reflect.TypeFor[pml.Request]().Size()) +
		(cap(s.places[0])+cap(s.places[1]))*int(reflect.TypeFor[int]().Size()) + s.kept
}

// Fail cancels those messages of the operation in progress that the Port can cancel, so that the
// operation ends with an error. The error of the operation is the argument "err", unless the
// operation has failed before the call of Fail.
func (s *Schedule) Fail(err error) {
	if s.done == nil {
		return
	}
	if s.err == nil {
		s.err = err
	}
	s.advance()
}

// Failed returns the request of the message whose failure ended the operation, or nil if no message
// failed.
func (s *Schedule) Failed() *pml.Request { return s.failed }

// The method "advance" carries out steps in order. The method "advance" stops at a fence (a step
// that waits for all earlier steps) if a message of an earlier step is not complete.
func (s *Schedule) advance() {
	if s.running {
		return
	}
	s.running = true
	for ; s.at < len(s.steps) && s.err == nil; s.at++ {
		switch t := &s.steps[s.at]; t.kind {
		case fence:
			if s.pending > 0 {
				s.running = false
				return
			}
			s.used, s.group = 0, s.at+1 // All earlier messages have ended.
		case send, recv:
			s.begin(t)
		case move:
			copy(t.into, t.from)
		case fold, foldX:
			s.combine(t.into, t.from, t.kind == foldX)
		}
	}
	if s.err != nil {
		s.giveUp()
	}
	s.running = false
	if done := s.done; s.pending == 0 && done != nil {
		s.done = nil
		done(s.err)
	}
}

// giveUp cancels all messages that can be cancelled. If the operation failed because a message had
// a wrong size, giveUp sends empty messages to the ranks that wait for messages from this rank, so
// that the operation fails at these ranks. After giveUp, this rank drops the messages that arrive
// for the failed operation.
func (s *Schedule) giveUp() {
	if s.told || !wrongSize(s.err) {
		for _, r := range s.requests[:s.used] {
			s.port.Cancel(r) // Cancel calls OnDone of the message at once.
		}
		return
	}
	s.told = true
	begun, err := s.used, s.err
	for _, t := range s.steps[s.group:] {
		if t.kind != send && t.kind != recv {
			continue
		}
		if begun > 0 {
			begun--
			if cancelled := s.port.Cancel(s.requests[s.used-begun-1]); !cancelled || t.kind == send {
				continue
			}
		}
		if t.kind == recv {
			s.port.Skip(t.peer)
			continue
		}
		s.begin(&step{kind: send, peer: t.peer})
	}
	s.err = err
}

// wrongSize reports whether err means that the size of a message was not the size that this rank
// expected.
func wrongSize(err error) bool {
	return errors.Is(err, pml.ErrShort) || errors.Is(err, pml.ErrTruncated)
}

// begin begins the send or the receive of a step.
func (s *Schedule) begin(t *step) {
	if s.used == len(s.requests) {
		s.requests = append(s.requests, new(pml.Request))
	}
	r := s.requests[s.used]
	r.OnDone = s.ended
	s.used++
	s.pending++
	var err error
	if t.kind == send {
		err = s.port.Send(r, t.peer, t.from)
	} else {
		err = s.port.Recv(r, t.peer, t.into)
	}
	if err != nil {
		s.pending--
		s.err = err
	}
}

// onDone handles the end of a send or a receive.
func (s *Schedule) onDone(r *pml.Request) {
	s.pending--
	if err := r.Err(); err != nil && s.err == nil {
		s.err, s.failed = err, r
	}
	if s.pending == 0 || s.err != nil {
		s.advance()
	}
}

// The method "memory" returns n bytes of scratch memory, which are valid until the next Reset.
func (s *Schedule) memory(n int) []byte {
	if s.lent+n > len(s.scratch) {
		s.scratch, s.lent = make([]byte, max(n, 2*len(s.scratch), 1024)), 0
		s.kept += len(s.scratch)
	}
	b := s.scratch[s.lent : s.lent+n : s.lent+n]
	s.lent += (n + 15) &^ 15 // multiples of 16 align all values
	s.lent = min(s.lent, len(s.scratch))
	return b
}

func (s *Schedule) send(to int, data []byte) {
	s.steps = append(s.steps, step{kind: send, peer: to, from: data})
}

func (s *Schedule) recv(from int, data []byte) {
	s.steps = append(s.steps, step{kind: recv, peer: from, into: data})
}

func (s *Schedule) move(into, from []byte) {
	s.steps = append(s.steps, step{kind: move, into: into, from: from})
}

// The method "fold" adds a step that combines the values of x with the values of acc. If the values
// of x come from lower ranks than the values of acc, xFirst must be true, so that the values of x
// are the left operands.
func (s *Schedule) fold(acc, x []byte, xFirst bool) {
	k := fold
	if xFirst {
		k = foldX
	}
	s.steps = append(s.steps, step{kind: k, into: acc, from: x})
}

// fence adds a step that waits for all earlier steps.
func (s *Schedule) fence() { s.steps = append(s.steps, step{kind: fence}) }

// The method "ring" returns the rank that follows this rank at the distance "places" on a ring of
// all ranks.
func (s *Schedule) ring(places int) int { return ((s.rank+places)%s.size + s.size) % s.size }

// Parts holds the size in bytes of each rank's part of a slice. The parts are adjacent in the
// slice, in the order of the ranks.
type Parts []int

// The type "placed" is a slice together with the offsets of its parts.
type placed struct {
	data []byte
	at   []int // offsets of the parts, and the end of the last part
}

// The method "place" computes the offsets of the parts of the slice "data". A Schedule can store
// the offsets of two slices at the same time, and the argument "which" (0 or 1) selects one of the
// two. The offsets that the method "place" returns are valid until the next call of the method
// "place" with the same argument "which".
func (s *Schedule) place(which int, data []byte, parts Parts) placed {
	at, end := append(s.places[which][:0], 0), 0
	for _, n := range parts {
		end += n
		at = append(at, end)
	}
	s.places[which] = at
	return placed{data, at}
}

// The method named "of" returns the part of the slice that belongs to a rank.
func (p placed) of(rank int) []byte {
	return p.data[p.at[rank]:p.at[rank+1]:p.at[rank+1]]
}

// Of returns the part of the slice "data" that belongs to a rank. The length of the slice "data"
// must be the sum of the sizes in p.
func (p Parts) Of(rank int, data []byte) []byte {
	first := p[:rank].Sum()
	return data[first : first+p[rank]]
}

// Sum is the size of all parts.
func (p Parts) Sum() (sum int) {
	for _, n := range p {
		sum += n
	}
	return sum
}

// The method "most" returns the size of the largest part.
func (p Parts) most() int { return slices.Max(p) }

// The type "even" is a slice that is divided evenly into one part for each rank. Each part of an
// evenly divided slice is a whole number of values, and all parts have the same size, except that
// the last parts can be shorter or empty.
type even struct {
	data []byte
	per  int // bytes of a full part
}

func (s *Schedule) even(data []byte, valueBytes int) even {
	values := len(data) / valueBytes
	return even{data: data, per: (values + s.size - 1) / s.size * valueBytes}
}

// The method named "of" returns part i of the slice, and the method named "to" returns the parts
// from i to j-1.
func (e even) of(i int) []byte { return e.to(i, i+1) }

func (e even) to(i, j int) []byte {
	return e.data[min(i*e.per, len(e.data)):min(j*e.per, len(e.data))]
}
