package mpi

import (
	"bytes"
	"reflect"
	"slices"

	"gobtl/mpi/coll"
	"gobtl/pml"
)

// A windowServer carries out the requests of other ranks. After each poll of the transport that has
// found packets, a windowServer takes the messages with requests from the Layer. The requests of
// one rank are carried out in the order in which they were sent.
type windowServer struct {
	senders []windowSender // by rank
	landed  []int          // ranks with a request whose data has arrived after the announcement
	places  *servedRequest // free receive buffers
	holders []lockKind     // by rank
	alone   int            // number of holders of an exclusive lock
	shared  int
	waiting []lockWaiting
	replies *reply // free replies
	replied []int  // unfinished replies, by rank
}

// The method "waits" reports whether the given rank waits for the lock of this rank's memory. If a
// rank that waits for the lock sends a second lock request, the second request is ignored, so that
// the lock is not granted twice and released once.
func (s *windowServer) waits(rank int) bool {
	return slices.ContainsFunc(s.waiting, func(l lockWaiting) bool { return l.rank == rank })
}

// If more than windowRepliesMax replies to a rank are undelivered, the window closes the connection
// to the rank.
const windowRepliesMax = 2 * windowOpsMax

// A windowSender is the state of the requests from one rank. A request that is sent by rendezvous
// occupies a receive buffer until its sender has delivered the data. While a rank delivers the data
// of a request, later requests of this rank wait. At most windowSendsMax requests of a rank occupy
// a buffer at the same time, because a rank that follows the protocol never has more unsent
// requests, apart from a few Unlocks. All other waiting requests remain messages of the Layer.
// Because messages of the Layer count towards the limits on unexpected messages from the rank, the
// Layer delays a rank that sends too many requests. The requests of other ranks do not wait.
type windowSender struct {
	first, last *waitingRequest
	landing     int // number of waiting requests that occupy a buffer
}

// A waitingRequest is a request that waits for its data, or for an earlier request of its rank.
type waitingRequest struct {
	message *pml.Message   // nil if the place has the request, or if the request is lost
	place   *servedRequest // nil if no receive of the request has begun
	next    *waitingRequest
}

// servedRequest is a receive buffer for one request.
type servedRequest struct {
	recv   pml.Request
	rank   int
	waits  bool // the request is a waitingRequest without its data
	buf    []byte
	answer []byte
	next   *servedRequest
}

// The type "reply" is the state of a reply to a request while the reply is being sent.
type reply struct {
	send pml.Request
	data []byte
	rank int
	next *reply
}

// A lockWaiting is a rank that waits for the lock of this rank's memory.
type lockWaiting struct {
	rank int
	kind lockKind
	tag  uint32
}

// The method "serve" begins to carry out the requests that other ranks send to this window. The
// caller must hold mu.
func (w *window) serve() error {
	s := &w.server
	s.senders = make([]windowSender, w.c.Size())
	s.holders, s.replied = make([]lockKind, w.c.Size()), make([]int, w.c.Size())
	w.c.e.windows = append(w.c.e.windows, w)
	return w.c.e.broken
}

// stopServing drops the waiting requests of other ranks. The caller must hold mu.
func (w *window) stopServing() {
	e := w.c.e
	for rank := range w.server.senders {
		from := &w.server.senders[rank]
		for r := from.first; r != nil; r = r.next {
			if r.message != nil {
				_ = e.l.Drop(e.now(), r.message) // The Layer may have dropped it.
			}
		}
		*from = windowSender{}
	}
	if i := slices.Index(e.windows, w); i >= 0 {
		e.windows = slices.Delete(e.windows, i, i+1)
	}
}

// requestMost is the size of the longest request of a window.
func (w *window) requestMost() int { return windowHeadBytes + max(windowPieceBytes, 2*w.size) }

// takePlace returns a free receive buffer for a request of a rank.
func (s *windowServer) takePlace(rank, size int) *servedRequest {
	q := s.places
	if q == nil {
		q = &servedRequest{buf: make([]byte, size)}
		q.recv.OnDone = func(*pml.Request) {
			if q.waits {
				s.landed = append(s.landed, q.rank)
			}
		}
	} else {
		s.places = q.next
	}
	q.rank, q.next = rank, nil
	return q
}

// The method "finish" carries out a request that has arrived, and frees its receive buffer.
func (w *window) finish(q *servedRequest) {
	if q.recv.Err() == nil && q.recv.Len() >= windowHeadBytes {
		w.carryOut(q)
	}
	q.waits = false
	q.next, w.server.places = w.server.places, q
}

// The method "arrived" carries out the requests that have arrived.
func (w *window) arrived() {
	s := &w.server
	for !w.freed {
		if last := len(s.landed) - 1; last >= 0 {
			rank := s.landed[last]
			s.landed = s.landed[:last]
			w.proceed(rank)
			continue
		}
		found, ok := w.c.e.l.Probe(nil, w.c.context, ^uint64(0))
		if !ok || !w.accept(found) {
			return
		}
	}
}

// The method "accept" takes the oldest request of all ranks from the Layer, and carries it out or
// lets it wait. Requests of ranks outside the window, and requests that are too long, are dropped.
// The result of "accept" is false if the receive of the request returns an error.
func (w *window) accept(found pml.Info) bool {
	e, s := w.c.e, &w.server
	rank, ok := 0, false
	if world, err := e.rankOf(found.Peer); err == nil {
		rank, ok = w.c.rankIn(world)
	}
	if !ok || found.Size > uint64(w.requestMost()) {
		return e.l.Drop(e.lately(), e.l.MProbe(nil, w.c.context, ^uint64(0))) == nil
	}
	from := &s.senders[rank]
	if from.first != nil {
		r := &waitingRequest{message: e.l.MProbe(nil, w.c.context, ^uint64(0))}
		from.add(r)
		if r.message.Announced() && from.landing < windowSendsMax {
			w.land(rank, r)
		}
		return true
	}
	q := s.takePlace(rank, w.requestMost())
	if e.l.Recv(e.lately(), &q.recv, nil, w.c.context, ^uint64(0), q.buf) != nil {
		return false
	}
	if q.recv.Done() {
		w.finish(q)
		return true
	}
	q.waits = true
	from.add(&waitingRequest{place: q})
	from.landing++
	return true
}

func (from *windowSender) add(r *waitingRequest) {
	if from.first == nil {
		from.first = r
	} else {
		from.last.next = r
	}
	from.last = r
}

// The method "land" begins to receive a waiting request into a buffer.
func (w *window) land(rank int, r *waitingRequest) {
	e, m := w.c.e, r.message
	r.message = nil
	q := w.server.takePlace(rank, w.requestMost())
	if err := e.l.RecvMessage(e.lately(), &q.recv, m, q.buf); err != nil { // The request is lost.
		q.next, w.server.places = w.server.places, q
		return
	}
	r.place, q.waits = q, !q.recv.Done()
	w.server.senders[rank].landing++
}

// The method "proceed" carries out the waiting requests of a rank, up to the first request whose
// data has not arrived completely.
func (w *window) proceed(rank int) {
	from := &w.server.senders[rank]
	for r := from.first; r != nil; r = from.first {
		if r.message != nil {
			w.land(rank, r)
		}
		if r.place != nil && !r.place.recv.Done() {
			return
		}
		from.first = r.next
		if r.place != nil {
			from.landing--
			w.finish(r.place)
		}
	}
}

// carryOut carries out a received request. carryOut ignores requests that package mpi would never
// send.
func (w *window) carryOut(q *servedRequest) {
	h, data := parseWindowHead(q.buf), q.buf[windowHeadBytes:q.recv.Len()]
	rank := q.rank
	q.answer = q.answer[:0]
	switch h.kind {
	case windowAccumulate, windowFetch:
		if there := w.at(h.offset, len(data)); there != nil {
			w.combine(q, h, there, data)
		}
	case windowCompareSwap:
		there := w.at(h.offset, w.size)
		if there == nil || len(data) != 2*w.size {
			return
		}
		q.answer = append(q.answer, there...)
		if bytes.Equal(there, data[:w.size]) {
			copy(there, data[w.size:])
		}
	case windowLock, windowLockAlone:
		if s := &w.server; s.holders[rank] == lockNone && !s.waits(rank) {
			kind := lockShared + lockKind(h.kind-windowLock)
			s.waiting = append(s.waiting, lockWaiting{rank, kind, h.answer})
			w.grant()
		}
		return // grant sends the reply with the lock
	case windowUnlock:
		w.dropLock(rank, q.recv.Peer())
	case windowFlush, windowKinds:
	}
	if h.answer != 0 {
		q.answer = w.reply(rank, q.recv.Peer(), h.answer, q.answer)
	}
}

func (w *window) at(offset uint64, n int) []byte {
	if offset > uint64(len(w.mem)) || uint64(n) > uint64(len(w.mem))-offset || n%w.size != 0 ||
		offset%uint64(w.size) != 0 {
		return nil
	}
	return w.mem[offset : offset+uint64(n)]
}

// The method "combine" performs an atomic operation on this rank's memory in the window.
func (w *window) combine(q *servedRequest, h windowHead, there, data []byte) {
	if h.kind == windowFetch {
		q.answer = append(q.answer, there...)
	}
	switch {
	case h.op >= opCodes:
	case h.op == opReplace:
		copy(there, data)
	case w.folds[h.op] != nil:
		w.folds[h.op](there, data, false)
	}
}

// The method "reply" sends a reply to a rank, and returns a buffer in which the caller can make the
// next reply.
func (w *window) reply(rank int, to *pml.Peer, tag uint32, data []byte) []byte {
	s := &w.server
	if s.replied[rank] >= windowRepliesMax {
		to.Endpoint().Abort()
		return data
	}
	a := s.replies
	if a == nil {
		a = &reply{}
		a.send.OnDone = func(*pml.Request) {
			s.replied[a.rank]--
			a.next, s.replies = s.replies, a
		}
	} else {
		s.replies = a.next
	}
	a.data, data = data, a.data
	a.rank = rank
	s.replied[rank]++
	w.c.e.replied = true
	err := w.c.e.l.Send(w.c.e.now(), &a.send, to, w.c.context|uint64(tag), a.data, pml.Standard)
	if err != nil { // The peer is gone.
		a.send.OnDone(&a.send)
	}
	return data[:0]
}

// The method "grant" gives the lock of this rank's memory to the rank that has waited longest. If
// the oldest waiting request is for a shared lock, all requests before the first request for an
// exclusive lock are granted at the same time.
func (w *window) grant() {
	s := &w.server
	for len(s.waiting) > 0 {
		next := s.waiting[0]
		if s.alone > 0 || next.kind == lockAlone && s.shared > 0 {
			return
		}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		p, err := w.c.e.peer(w.c.ranks[next.rank])
		if err != nil || p.Err() != nil {
			continue
		}
		if s.holders[next.rank] = next.kind; next.kind == lockAlone {
			s.alone++
		} else {
			s.shared++
		}
		w.reply(next.rank, p, next.tag, nil)
	}
}

// dropLock releases the lock that a rank holds. If the rank does not hold the lock but waits for
// it, dropLock drops the rank's lock request. If the argument "answer" of dropLock is not nil,
// dropLock sends the reply to the dropped request to the peer "answer".
func (w *window) dropLock(rank int, answer *pml.Peer) {
	s := &w.server
	switch s.holders[rank] {
	case lockAlone:
		s.alone--
	case lockShared:
		s.shared--
	case lockNone:
	}
	s.holders[rank] = lockNone
	s.waiting = slices.DeleteFunc(s.waiting, func(l lockWaiting) bool {
		if l.rank == rank && answer != nil {
			w.reply(rank, answer, l.tag, nil)
		}
		return l.rank == rank
	})
	w.grant()
}

// peerGone handles the end of the connection to a peer, and releases the locks that the peer's rank
// holds. The end of a second connection of a rank releases no locks, because all requests of a rank
// arrive over its first connection.
func (e *engine) peerGone(p *pml.Peer, err error) {
	if err == nil || len(e.windows) == 0 {
		return
	}
	m, ok := p.Context.(*member)
	if !ok || m.second {
		return
	}
	for _, w := range e.windows {
		if rank, ok := w.c.rankIn(m.rank); ok {
			w.dropLock(rank, nil)
		}
	}
}

type opCode uint8

const (
	opNone opCode = iota // an operation of NewOp
	opSum
	opProd
	opMin
	opMax
	opAnd
	opOr
	opXor
	opReplace
	opKeep
	opCodes
)

func foldsOf(kind reflect.Kind) (folds [opCodes]coll.Fold) {
	of := map[reflect.Kind]func(opCode) coll.Fold{
		reflect.Int: integerFold[int], reflect.Int8: integerFold[int8],
		reflect.Int16: integerFold[int16], reflect.Int32: integerFold[int32],
		reflect.Int64: integerFold[int64], reflect.Uint: integerFold[uint],
		reflect.Uint8: integerFold[uint8], reflect.Uint16: integerFold[uint16],
		reflect.Uint32: integerFold[uint32], reflect.Uint64: integerFold[uint64],
		reflect.Float32: orderedFold[float32], reflect.Float64: orderedFold[float64],
		reflect.Complex64: numberFold[complex64], reflect.Complex128: numberFold[complex128],
	}[kind]
	if of == nil {
		return folds
	}
	for op := range folds {
		folds[op] = of(opCode(op))
	}
	return folds
}

func integerFold[T Integer](op opCode) coll.Fold {
	switch op {
	case opAnd:
		return And[T]().fold
	case opOr:
		return Or[T]().fold
	case opXor:
		return Xor[T]().fold
	default:
		return orderedFold[T](op)
	}
}

func orderedFold[T Ordered](op opCode) coll.Fold {
	switch op {
	case opMin:
		return Min[T]().fold
	case opMax:
		return Max[T]().fold
	default:
		return numberFold[T](op)
	}
}

func numberFold[T Number](op opCode) coll.Fold {
	switch op {
	case opSum:
		return Sum[T]().fold
	case opProd:
		return Prod[T]().fold
	default:
		return nil
	}
}
