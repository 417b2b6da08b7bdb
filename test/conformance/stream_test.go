package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"gobtl/btl"
)

// tagStream is the handler of the streams on every node.
const tagStream btl.Tag = 1

// streamHead is in front of each message of a stream: number of the stream, of the message, size.
const streamHead = 12

// way is a way of sending.
type way uint8

const (
	wayPrepare   way = iota // the caller's memory, used again as soon as it is allowed
	wayAlloc                // the module's memory
	wayImmediate            // SendImmediate, with memory that is overwritten when it returns
)

var allWays = []way{wayPrepare, wayAlloc, wayImmediate}

func (w way) String() string { return [...]string{"prepare", "alloc", "immediate"}[w] }

// stream is a number of messages that go from one node to another as fast as the transport takes
// them. Each is verified byte by byte where it arrives, and must arrive and end exactly once.
type stream struct {
	l        *lab
	id       int
	from, to *node
	born     int // life of from
	life     int // life of to
	ep       *btl.Endpoint

	count  int
	size   func(i int) int
	ways   []way // in turn; an immediate one that is too large is prepared instead
	window int   // most messages that have not ended; 0: what the transport takes
	limit  int   // messages allowed so far; negative: all of them

	next    int // first one not accepted
	out     int // accepted and not ended
	most    int // largest value of out
	refused int // times that the transport had no resources
	failed  int // ended with an error
	lastErr error
	ended   []bool
	acked   []bool // ended well later than its send: it was delivered

	seen   []bool
	got    int
	origin *btl.Endpoint // where they come out
	onGot  func(ep *btl.Endpoint, i int)
	idle   [][]byte // memory of prepared messages that have ended
}

// spec describes a stream.
type spec struct {
	count  int
	size   func(i int) int
	ways   []way
	window int
}

func fixed(sizeBytes int) func(int) int { return func(int) int { return sizeBytes } }

// mixed cycles through sizes.
func mixed(sizes ...int) func(int) int {
	return func(i int) int { return sizes[i%len(sizes)] }
}

// stream starts a stream over an endpoint of from, which leads to to.
func (l *lab) stream(from *node, ep *btl.Endpoint, to *node, sp spec) *stream {
	l.t.Helper()
	if sp.ways == nil {
		sp.ways = allWays
	}
	s := &stream{
		l: l, id: len(l.streams), from: from, to: to, born: from.boots, life: to.boots, ep: ep,
		count: sp.count,
		size:  sp.size, ways: sp.ways, window: sp.window, limit: -1,
		seen: make([]bool, sp.count), ended: make([]bool, sp.count),
		acked: make([]bool, sp.count),
	}
	for i := range sp.count {
		if s.size(i) < streamHead {
			l.t.Fatalf("a message of a stream has at least %d bytes", streamHead)
		}
	}
	l.streams = append(l.streams, s)
	from.out = append(from.out, s)
	return s
}

func (s *stream) done() bool { return s.got == s.count && s.next == s.count && s.out == 0 }

func (s *stream) String() string {
	return fmt.Sprintf("stream %d from node %d to node %d: accepted %d of %d, %d not ended, "+
		"%d failed (%v), %d arrived, refused %d times", s.id, s.from.id, s.to.id, s.next, s.count,
		s.out, s.failed, s.lastErr, s.got, s.refused)
}

// allDone waits for the streams, and lets none of them fail.
func (l *lab) allDone(what string, streams ...*stream) {
	l.t.Helper()
	first := 0 // the first one not known to be done
	l.until(what, func() bool {
		for first < len(streams) && streams[first].done() {
			first++
		}
		return first == len(streams)
	})
	for _, s := range streams {
		if s.failed > 0 {
			l.t.Errorf("%s: %v", what, s)
		}
	}
}

// pump sends what the transport takes.
func (s *stream) pump() {
	for s.next < s.count && (s.window == 0 || s.out < s.window) &&
		(s.limit < 0 || s.next < s.limit) {
		err := s.send(s.next)
		if errors.Is(err, btl.ErrAgain) {
			s.refused++
			return
		}
		if err != nil {
			s.lastErr = err // the endpoint has ended: whoever expects that looks here
			return
		}
		s.next++
	}
}

func (s *stream) send(i int) error {
	size := s.size(i)
	switch w := s.ways[i%len(s.ways)]; {
	case w == wayImmediate && size <= s.ep.MaxTiny():
		mem := s.memory(size)
		s.fill(mem, i)
		err := s.ep.SendImmediate(s.ep.Now(), tagStream, mem)
		s.release(mem)
		if err == nil {
			s.note(i, nil)
		}
		return err
	case w == wayAlloc:
		f, err := s.ep.Alloc(tagStream, size)
		if err != nil {
			return err
		}
		s.fill(f.Bytes(), i)
		return s.post(f, i, nil)
	default:
		mem := s.memory(size)
		f, err := s.ep.Prepare(tagStream, mem)
		if err != nil {
			s.idle = append(s.idle, mem)
			return err
		}
		s.fill(mem, i)
		return s.post(f, i, mem)
	}
}

// post hands a fragment over; mem is the memory that it comes from, if that is not the module's.
func (s *stream) post(f *btl.Fragment, i int, mem []byte) error {
	f.Signal = i%3 == 0
	f.OnDone = func(_ *btl.Fragment, err error) {
		s.out--
		s.release(mem)
		s.note(i, err)
		s.acked[i] = err == nil
	}
	st, err := s.ep.Send(s.ep.Now(), f)
	switch {
	case err != nil:
		s.release(mem)
		return errors.Join(err, s.ep.Free(f))
	case st == btl.Done:
		s.release(mem)
		s.note(i, nil)
	default:
		s.out++
		s.most = max(s.most, s.out)
	}
	return nil
}

// note books the end of a message.
func (s *stream) note(i int, err error) {
	if s.ended[i] {
		s.l.t.Errorf("%v: message %d ended twice", s, i)
	}
	s.ended[i] = true
	if err != nil {
		s.failed++
		s.lastErr = err
	}
}

// memory returns memory for a message.
func (s *stream) memory(size int) []byte {
	if n := len(s.idle); n > 0 && cap(s.idle[n-1]) >= size {
		mem := s.idle[n-1][:size]
		s.idle = s.idle[:n-1]
		return mem
	}
	return make([]byte, size)
}

// release takes memory back and spoils what stands there: nobody may read it any more.
func (s *stream) release(mem []byte) {
	if mem == nil {
		return
	}
	for i := range mem {
		mem[i] = 0xEE
	}
	s.idle = append(s.idle, mem)
}

func (s *stream) fill(b []byte, i int) {
	binary.LittleEndian.PutUint32(b, uint32(s.id))
	binary.LittleEndian.PutUint32(b[4:], uint32(i))
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	pattern(b[streamHead:], uint64(s.id)<<32|uint64(i))
}

// receive is every node's handler of tagStream.
func (n *node) receive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	l := n.l
	if len(data) < streamHead {
		l.t.Errorf("node %d: a message of %d bytes", n.id, len(data))
		return
	}
	id, i := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:]))
	if id >= len(l.streams) || i >= l.streams[id].count {
		l.t.Errorf("node %d: message %d of stream %d was never sent", n.id, i, id)
		return
	}
	s := l.streams[id]
	switch size := int(binary.LittleEndian.Uint32(data[8:])); {
	case s.to != n || s.life != n.boots:
		l.t.Errorf("node %d, life %d: message %d of %v", n.id, n.boots, i, s)
	case i > s.next: // the one being sent may arrive before its Send returns: to the sender itself
		l.t.Errorf("message %d arrived before it was sent: %v", i, s)
	case s.origin != nil && s.origin != ep:
		l.t.Errorf("message %d came out at another endpoint: %v", i, s)
	case s.seen[i]:
		l.t.Errorf("message %d arrived twice: %v", i, s)
	case len(data) != size || size != s.size(i):
		l.t.Errorf("message %d of %d bytes arrived as %d bytes: %v", i, s.size(i), len(data), s)
	case !intact(data[streamHead:], uint64(id)<<32|uint64(i)):
		l.t.Errorf("message %d (%d bytes) was altered: %v", i, len(data), s)
	default:
		s.seen[i], s.origin = true, ep
		s.got++
		if s.onGot != nil {
			s.onGot(ep, i)
		}
	}
}

// atRest proves that every accepted message has ended, if its sender has lived to see it.
func (s *stream) atRest() {
	if s.born != s.from.boots || s.from.crashed {
		return
	}
	if s.out != 0 {
		s.l.t.Errorf("at rest: %v", s)
	}
	for i := range s.next {
		if !s.ended[i] {
			s.l.t.Errorf("at rest: message %d has not ended: %v", i, s)
			return
		}
	}
}

// patternBytes is a block that no shift by less than its length maps to itself.
var patternBytes = func() []byte {
	b := make([]byte, 8209) // a prime: no size of a packet divides it
	x := uint64(1)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}()

// pattern fills b with bytes that belong to key: the block, from a place that key says.
func pattern(b []byte, key uint64) {
	for at := start(key); len(b) > 0; at = 0 {
		b = b[copy(b, patternBytes[at:]):]
	}
}

// intact says whether b is what pattern writes.
func intact(b []byte, key uint64) bool {
	for at := start(key); len(b) > 0; at = 0 {
		n := min(len(b), len(patternBytes)-at)
		if !bytes.Equal(b[:n], patternBytes[at:][:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

func start(key uint64) int { return int(key * 0x9E3779B97F4A7C15 % uint64(len(patternBytes))) }
