package mpi

import (
	"bytes"
	"reflect"
	"slices"

	"gobtl/mpi/coll"
	"gobtl/pml"
)

// A windowServer carries out the requests of other ranks while this rank polls the transport. A
// windowServer carries out requests in the order in which the posted receives have matched the
// requests.
type windowServer struct {
	places  int              // number of receive buffers for requests
	posted  []*servedRequest // posted receives, the oldest first
	holders []lockKind       // by rank
	alone   int              // number of holders of an exclusive lock
	shared  int
	waiting []lockWaiting
	replies *reply // free replies
	replied []int  // unfinished replies, by rank
}

// The method "waits" reports whether a rank waits for the lock of this rank's memory. If a rank
// that waits for the lock sends a second lock request, the second request is ignored, because
// otherwise the lock would be granted twice and released once.
func (s *windowServer) waits(rank int) bool {
	return slices.ContainsFunc(s.waiting, func(l lockWaiting) bool { return l.rank == rank })
}

// A window starts with windowPlaces receive buffers for requests. When fewer than windowReserve
// buffers are free, the window adds buffers. A request that is sent by rendezvous occupies a buffer
// from its announcement until its sender has delivered the data. A rank that follows the protocol
// has at most windowSendsMax announced requests at the same time, in addition to a few Unlocks. If
// a rank occupies more than windowHeldMax receive buffers, the window closes the connection to the
// rank, because this rank could otherwise occupy the buffers that other ranks need. If more than
// windowRepliesMax replies to a rank are not delivered yet, the window closes the connection to the
// rank.
const (
	windowPlaces     = 16
	windowReserve    = 4
	windowHeldMax    = 2 * windowSendsMax
	windowRepliesMax = 2 * windowOpsMax
)

// servedRequest is a receive buffer for one request.
type servedRequest struct {
	w      *window
	recv   pml.Request
	buf    []byte
	answer []byte
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

// The method "serve" begins to receive the requests that other ranks send to this window. The
// caller must hold mu.
func (w *window) serve() error {
	s := &w.server
	s.holders, s.replied = make([]lockKind, w.c.Size()), make([]int, w.c.Size())
	for range windowPlaces {
		w.addPlace()
	}
	w.c.e.windows = append(w.c.e.windows, w)
	return w.c.e.broken
}

// addPlace adds a receive buffer, so that the window can receive one more request at the same time.
func (w *window) addPlace() {
	w.server.places++
	q := &servedRequest{w: w}
	q.buf = make([]byte, windowHeadBytes+max(windowPieceBytes, 2*w.size))
	q.recv.OnDone = func(*pml.Request) { w.arrived() }
	w.post(q)
}

// If fewer than windowReserve receive buffers for requests are free, addPlaces adds receive
// buffers.
func (w *window) addPlaces() {
	s := &w.server
	if w.freed || s.free() >= windowReserve {
		return
	}
	held := make(map[*pml.Peer]int)
	for _, q := range s.posted {
		if p := q.recv.Peer(); p != nil && !q.recv.Done() {
			held[p]++
		}
	}
	for p, count := range held {
		if count > windowHeldMax {
			p.Endpoint().Abort()
		}
	}
	for free := s.free(); free < windowReserve; free++ {
		if s.places >= windowPlaces+windowHeldMax*w.c.Size() {
			return
		}
		w.addPlace()
	}
}

func (s *windowServer) free() (count int) {
	for _, q := range s.posted {
		if q.recv.Peer() == nil {
			count++
		}
	}
	return count
}

// stopServing cancels the receives for requests of other ranks. The caller must hold mu.
func (w *window) stopServing() {
	e := w.c.e
	for _, q := range slices.Clone(w.server.posted) {
		e.l.Cancel(&q.recv)
	}
	if i := slices.Index(e.windows, w); i >= 0 {
		e.windows = slices.Delete(e.windows, i, i+1)
	}
}

// The method "post" posts a receive of another rank's next request into the buffer q.
func (w *window) post(q *servedRequest) {
	if w.freed || !q.recv.Done() {
		return
	}
	w.server.posted = append(w.server.posted, q)
	err := w.c.e.l.Recv(w.c.e.now(), &q.recv, nil, w.c.context, ^uint64(0), q.buf)
	if err != nil {
		w.server.posted = w.server.posted[:len(w.server.posted)-1]
	}
}

// The method "arrived" carries out the received requests. The requests of one rank are carried out
// in the order in which they were sent. As long as the data of a request has not arrived
// completely, the later requests of the same rank wait.
func (w *window) arrived() {
	s := &w.server
	for i := 0; i < len(s.posted); {
		q := s.posted[i]
		if !q.recv.Done() || s.heldUp(i) {
			i++
			continue
		}
		s.posted = slices.Delete(s.posted, i, i+1)
		if q.recv.Err() == nil && q.recv.Len() >= windowHeadBytes {
			w.carryOut(q)
		}
		w.post(q)
	}
}

// heldUp reports whether the data of an earlier request of the same rank has not arrived
// completely.
func (s *windowServer) heldUp(at int) bool {
	for _, q := range s.posted[:at] {
		if !q.recv.Done() && q.recv.Peer() == s.posted[at].recv.Peer() {
			return true
		}
	}
	return false
}

// carryOut carries out a received request. carryOut ignores requests that package mpi would never
// send.
func (w *window) carryOut(q *servedRequest) {
	h, data := parseWindowHead(q.buf), q.buf[windowHeadBytes:q.recv.Len()]
	q.answer = q.answer[:0]
	world, err := w.c.e.rankOf(q.recv.Peer())
	rank, ok := w.c.rankIn(world)
	if err != nil || !ok {
		return
	}
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
// holds.
func (e *engine) peerGone(p *pml.Peer, err error) {
	if err == nil || len(e.windows) == 0 {
		return
	}
	m, ok := p.Context.(*member)
	if !ok {
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
