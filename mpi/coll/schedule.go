package coll

import (
	"errors"
	"reflect"
	"slices"

	"gobtl/pml"
)

// Port is the way to the other ranks. The requests' OnDone is the Schedule's.
type Port interface {
	// Send begins to send data to a rank, Recv to receive from one, in the order of the calls between
	// two ranks. An error means that nothing was begun.
	Send(r *pml.Request, to int, data []byte) error
	Recv(r *pml.Request, from int, data []byte) error
	// Cancel cancels a receive, or gives up a send, if it can be still.
	Cancel(r *pml.Request) bool
	// Skip has the next message of a rank come to nobody: the place of a Recv that is not to be.
	Skip(from int)
}

// Fold combines the values of x with those of acc, one by one, into acc: acc with x, or x with acc
// if xFirst is set.
type Fold func(acc, x []byte, xFirst bool)

type kind uint8

const (
	send  kind = iota // from, to peer
	recv              // into, from peer
	fence             // until all before is done
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

// Schedule is a collective operation of one rank. The zero value is ready for Reset; it can be used
// again after its end, and allocates nothing then.
type Schedule struct {
	rank, size int
	combine    Fold
	steps      []step
	at         int
	group      int // the first step behind the last fence that was passed
	told       bool
	running    bool
	pending    int
	err        error
	failed     *pml.Request
	port       Port
	done       func(error)
	requests   []*pml.Request // of which the first used are in use, or were since the last fence
	used       int
	scratch    []byte
	lent       int      // of scratch
	kept       int      // bytes of what was lent, and scratch
	places     [2][]int // of parts, while steps are made
	ended      func(*pml.Request)
}

// Reset empties a schedule, for a rank of so many.
func (s *Schedule) Reset(rank, size int, combine Fold) {
	clear(s.steps)
	s.rank, s.size, s.combine, s.steps = rank, size, combine, s.steps[:0]
	s.at, s.err, s.failed, s.used, s.lent, s.kept = 0, nil, nil, 0, 0, len(s.scratch)
	s.group, s.told = 0, false
	if s.ended == nil {
		s.ended = s.onDone
	}
}

// Start begins to carry out the steps; done is called once, at their end, perhaps by Start itself.
// With an error the other ranks may wait for this one still.
func (s *Schedule) Start(port Port, done func(error)) {
	s.port, s.done = port, done
	s.advance()
}

// Steps is the number of messages that this rank sends, and of their bytes: for tests.
func (s *Schedule) Steps() (messages, bytes int) {
	for _, t := range s.steps {
		if t.kind == send {
			messages++
			bytes += len(t.from)
		}
	}
	return messages, bytes
}

// Peers is the number of ranks that this one sends to or receives from, and that of the times that
// it waits for them: for tests.
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

// Memory is what the schedule keeps, in bytes, beside what its caller has lent it: steps, requests
// that were needed so far, and values of its own: for tests.
func (s *Schedule) Memory() int {
	return cap(s.steps)*int(reflect.TypeFor[step]().Size()) +
		len(s.requests)*int(reflect.TypeFor[pml.Request]().Size()) +
		(cap(s.places[0])+cap(s.places[1]))*int(reflect.TypeFor[int]().Size()) + s.kept
}

// Fail ends an operation that goes on, with an error if it has none yet, as far as its Port can.
func (s *Schedule) Fail(err error) {
	if s.done == nil {
		return
	}
	if s.err == nil {
		s.err = err
	}
	s.advance()
}

// Failed is the message whose end has ended the operation with an error, nil if it was none.
func (s *Schedule) Failed() *pml.Request { return s.failed }

// advance carries out what can be.
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
			s.used, s.group = 0, s.at+1 // All have ended.
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

// giveUp cancels what can be. Where another rank has called the operation with another size those
// that depend on this one hear of it: what they wait for comes empty, so it has a wrong size there
// as well, and what they send is received by nobody.
func (s *Schedule) giveUp() {
	if s.told || !wrongSize(s.err) {
		for _, r := range s.requests[:s.used] {
			s.port.Cancel(r) // Its end is told at once, while this runs.
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

// wrongSize says whether a message had another size than the steps here have it.
func wrongSize(err error) bool {
	return errors.Is(err, pml.ErrShort) || errors.Is(err, pml.ErrTruncated)
}

// begin begins a message.
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

// onDone is told that a message has ended.
func (s *Schedule) onDone(r *pml.Request) {
	s.pending--
	if err := r.Err(); err != nil && s.err == nil {
		s.err, s.failed = err, r
	}
	if s.pending == 0 || s.err != nil {
		s.advance()
	}
}

// memory lends bytes until the next Reset.
func (s *Schedule) memory(n int) []byte {
	if s.lent+n > len(s.scratch) {
		// What was lent is in the steps. Go aligns what is this large for all values.
		s.scratch, s.lent = make([]byte, max(n, 2*len(s.scratch), 1024)), 0
		s.kept += len(s.scratch)
	}
	b := s.scratch[s.lent : s.lent+n : s.lent+n]
	s.lent += (n + 15) &^ 15 // so that all values lie as they must
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

// fold combines x with acc: before it, if its ranks are the lower ones.
func (s *Schedule) fold(acc, x []byte, xFirst bool) {
	k := fold
	if xFirst {
		k = foldX
	}
	s.steps = append(s.steps, step{kind: k, into: acc, from: x})
}

// fence has the next steps wait for all before.
func (s *Schedule) fence() { s.steps = append(s.steps, step{kind: fence}) }

// ring is the rank that many places after this one.
func (s *Schedule) ring(places int) int { return ((s.rank+places)%s.size + s.size) % s.size }

// Parts are the sizes in bytes of what each rank has; they lie one behind the other.
type Parts []int

// placed is data with the places of its parts.
type placed struct {
	data []byte
	at   []int // where each begins, and the last one ends
}

// place finds the places of parts, of two at the most at the same time: that of whatever is first,
// or second, is lent until the next one.
func (s *Schedule) place(which int, data []byte, parts Parts) placed {
	at, end := append(s.places[which][:0], 0), 0
	for _, n := range parts {
		end += n
		at = append(at, end)
	}
	s.places[which] = at
	return placed{data, at}
}

// of is the part of a rank.
func (p placed) of(rank int) []byte {
	return p.data[p.at[rank]:p.at[rank+1]:p.at[rank+1]]
}

// Of is the part of a rank of data, which is as long as all parts.
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

// most is the size of the largest part.
func (p Parts) most() int { return slices.Max(p) }

// even is data cut into one part for each rank, of whole values of so many bytes.
type even struct {
	data []byte
	per  int // bytes
}

func (s *Schedule) even(data []byte, valueBytes int) even {
	values := len(data) / valueBytes
	return even{data: data, per: (values + s.size - 1) / s.size * valueBytes}
}

// of is part i of even parts, to is the parts from i to j-1.
func (e even) of(i int) []byte { return e.to(i, i+1) }

func (e even) to(i, j int) []byte {
	return e.data[min(i*e.per, len(e.data)):min(j*e.per, len(e.data))]
}
