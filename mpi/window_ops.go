package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"gobtl/pml"
)

// Locks and atomic operations such as Accumulate are messages in the window's communicator. A
// request has the tag 0, and the reply to a request has the tag that the request contains. The
// following table gives the offset, the size in bytes and the meaning of each field of a request.
//
//	at  size meaning
//	==  ==== =======
//	0   1    kind
//	1   1    operation, of Accumulate's kind
//	2   2    0
//	4   4    the tag of the reply, 0, none
//	8   8    offset in the memory of the target, in bytes
//	16  rest values, of a compare-and-swap the expected one, then the new one
//
// The reply to a request contains the old values, or is empty.
const (
	windowHeadBytes  = 16
	windowPieceBytes = 4096 // largest size of the values in a request
	windowAnswerTag  = 1 << 20
	windowOpsMax     = 256     // operations of a process in progress with one rank
	windowOpsAll     = 1 << 19 // operations in progress with all ranks together
	windowSendsMax   = 4       // most unsent requests to a rank
)

type windowKind uint8

const (
	windowAccumulate windowKind = iota
	windowFetch
	windowCompareSwap
	windowFlush
	windowLock      // shared
	windowLockAlone // exclusive
	windowUnlock
	windowKinds
)

type windowHead struct {
	kind   windowKind
	op     opCode
	answer uint32
	offset uint64
}

func (h *windowHead) put(b []byte) {
	b[0], b[1], b[2], b[3] = byte(h.kind), byte(h.op), 0, 0
	binary.LittleEndian.PutUint32(b[4:], h.answer)
	binary.LittleEndian.PutUint64(b[8:], h.offset)
}

func parseWindowHead(b []byte) windowHead {
	return windowHead{
		kind: windowKind(b[0]), op: opCode(b[1]), answer: binary.LittleEndian.Uint32(b[4:]),
		offset: binary.LittleEndian.Uint64(b[8:]),
	}
}

// A windowOp is the state of an operation in progress with a rank, or an unused structure that is
// stored for reuse.
type windowOp struct {
	w          *window
	rank       int
	tag        uint32
	send, recv pml.Request
	buf        []byte
	pending    int // how many of send and recv have not ended
	waited     bool
	err        error
	next       *windowOp
}

// Accumulate begins to combine the slice "data" with the values of a rank, from the index "at" on.
// The rank's values are the low operands of op. The argument "op" of Accumulate must be Sum, Prod,
// Min, Max, And, Or, Xor or Replace. For any op except Sum, Prod, Min, Max, And, Or, Xor and
// Replace, Accumulate returns ErrConfig. Accumulate can also return all errors of Put. The caller
// may change the slice "data" when Accumulate has returned.
func (w *Window[T]) Accumulate(ctx context.Context, data []T, to, at int, op Op[T]) error {
	b, _ := bytesOf(data)
	return w.w.accumulate(ctx, b, nil, to, at, op.code)
}

// GetAccumulate works like Accumulate, and stores the previous values of the rank in the slice
// "old". The slice "old" must be as long as the slice "data". If the slices "old" and "data" are
// not identical, they must not overlap (ErrConfig). If the argument "op" is Keep, GetAccumulate is
// an atomic Get, and the slice "data" may be nil.
func (w *Window[T]) GetAccumulate(ctx context.Context, data, old []T, to, at int, op Op[T]) error {
	if op.code == opKeep && data == nil {
		data = old // old has the right length, and its content is unused
	}
	if len(data) != len(old) {
		return fmt.Errorf("%w: %d values, %d old ones", ErrCount, len(data), len(old))
	}
	b, _ := bytesOf(data)
	into, _ := bytesOf(old)
	if err := apart(b, into, into); err != nil {
		return err
	}
	return w.w.accumulate(ctx, b, into, to, at, op.code)
}

// FetchAndOp combines a value with the value at the index "at" of a rank's memory, and returns the
// previous value. The errors of FetchAndOp are those of Accumulate.
func (w *Window[T]) FetchAndOp(ctx context.Context, value T, to, at int, op Op[T],
) (old T, err error) {
	h := windowHead{kind: windowFetch, op: op.code}
	err = w.w.fetch(ctx, h, asBytes(&value), asBytes(&old), to, at)
	return old, err
}

// CompareAndSwap compares the value at the index "at" of a rank's memory with the argument
// "expected". If the bits of the two compared values are equal, CompareAndSwap writes the argument
// "value" to the index "at" of the rank's memory. Whether the values are equal or not,
// CompareAndSwap returns the previous value at the index "at". The errors of CompareAndSwap are
// those of Put, and ErrType for structs with padding, because the bytes of padding are undefined.
func (w *Window[T]) CompareAndSwap(ctx context.Context, expected, value T, to, at int,
) (old T, err error) {
	if t := reflect.TypeFor[T](); fieldBytes(t) != t.Size() {
		return old, fmt.Errorf("%w: %v has bytes that are no field's", ErrType, t)
	}
	both := [2]T{expected, value}
	err = w.w.fetch(ctx, windowHead{kind: windowCompareSwap}, asBytes(&both), asBytes(&old), to, at)
	return old, err
}

var errWindowOp = fmt.Errorf("%w: an Op that windows do not have", ErrConfig)

// The method "has" reports whether the type of the window's values supports an operation.
func (w *window) has(op opCode) bool {
	return op < opCodes && (w.folds[op] != nil || op == opReplace || op == opKeep)
}

// The method "accumulate" begins to combine the slice "data" with the values of a rank. If the
// slice "into" is not nil, the old values of the rank are stored in "into".
func (w *window) accumulate(ctx context.Context, data, into []byte, rank, at int, op opCode) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if rank == NoRank {
		return w.usable()
	}
	if err := w.check(rank, at, len(data)); err != nil {
		return err
	}
	if !w.has(op) || op == opKeep && into == nil {
		return errWindowOp
	}
	h := windowHead{kind: windowAccumulate, op: op, offset: uint64(at * w.size)}
	if into != nil {
		h.kind = windowFetch
	}
	if into == nil {
		w.targets[rank].begun++ // Counted before the send, because a failed call may have sent a part.
	}
	most := max(windowPieceBytes/w.size, 1) * w.size
	for len(data) > 0 {
		n := min(len(data), most)
		var old []byte
		if into != nil {
			old, into = into[:n], into[n:]
		}
		if _, err := w.begin(ctx, rank, h, data[:n], old, false); err != nil {
			return err
		}
		data, h.offset = data[n:], h.offset+uint64(n)
	}
	e.due()
	return nil
}

// The method "fetch" performs an operation on one value of a rank, and waits for the old value.
func (w *window) fetch(ctx context.Context, h windowHead, data, old []byte, rank, at int) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if rank == NoRank {
		return w.usable()
	}
	if err := w.check(rank, at, w.size); err != nil {
		return err
	}
	if h.kind == windowFetch && !w.has(h.op) {
		return errWindowOp
	}
	h.offset = uint64(at * w.size)
	return w.ask(ctx, rank, h, data, old)
}

// The method "ask" sends a request to a rank, waits for the reply, and copies the reply to the
// slice "old". The caller must hold mu.
func (w *window) ask(ctx context.Context, rank int, h windowHead, data, old []byte) error {
	// The method "ask" receives the reply into a separate buffer, so that a reply that arrives after
	// the end of ctx is not written to the caller's memory.
	var into []byte
	if len(old) > 0 {
		into = make([]byte, len(old))
	}
	op, err := w.begin(ctx, rank, h, data, into, true)
	if err != nil {
		return err
	}
	if err := w.c.e.until(ctx, func() bool { return op.pending == 0 }); err != nil {
		op.waited = false // op frees itself at its end.
		return err
	}
	err = op.err
	w.release(op)
	if errors.Is(err, ErrRevoked) {
		return w.over()
	}
	copy(old, into)
	return err
}

// The method "begin" begins a request to a rank. If the slice "old" is not nil, or if the argument
// "waited" is true, the target rank sends a reply. If the argument "waited" is true, the caller of
// "begin" must wait for the reply, and then free the returned windowOp.
func (w *window) begin(ctx context.Context, rank int, h windowHead, data, old []byte, waited bool,
) (*windowOp, error) {
	e := w.c.e
	p, err := e.peer(w.c.ranks[rank])
	if err != nil {
		return nil, err
	}
	op, err := w.takeOp(ctx, rank, h.kind)
	if err != nil {
		return nil, err
	}
	op.rank, op.waited, op.err, op.pending = rank, waited, nil, 1
	if err := w.usable(); err != nil { // takeOp may have waited
		w.targets[rank].sending--
		w.release(op)
		return nil, err
	}
	if old != nil || waited {
		h.answer = op.tag
		err = e.l.Recv(e.now(), &op.recv, p, w.c.context|uint64(op.tag), ^uint64(0), old)
		if err != nil {
			w.targets[rank].sending--
			w.release(op)
			return nil, w.failure(rank, p, err)
		}
		op.pending++
	}
	if need := windowHeadBytes + len(data); cap(op.buf) < need {
		op.buf = make([]byte, need)
	}
	op.buf = op.buf[:windowHeadBytes+len(data)]
	h.put(op.buf)
	copy(op.buf[windowHeadBytes:], data)
	w.targets[rank].under++
	if err := e.l.Send(e.now(), &op.send, p, w.c.context, op.buf, pml.Standard); err != nil {
		op.waited = true // the rank's next Flush must not report the error again
		if op.pending == 2 {
			e.l.Cancel(&op.recv)
		}
		w.targets[rank].sending--
		op.ended(nil)
		w.release(op)
		return nil, w.failure(rank, p, err)
	}
	return op, nil
}

// takeOp returns an unused windowOp. If the number of operations in progress with the rank has
// reached its limit, takeOp waits.
func (w *window) takeOp(ctx context.Context, rank int, kind windowKind) (*windowOp, error) {
	t := &w.targets[rank]
	// An Unlock ignores the limits on operations in progress, because an Unlock that waits for the end
	// of operations could wait for ever for a rank that makes no progress.
	if kind != windowUnlock || w.free == nil && len(w.ops) >= windowOpsAll {
		if err := w.awaitRoom(ctx, t); err != nil {
			return nil, err
		}
	}
	t.ops++
	t.sending++
	op := w.free
	if op != nil {
		w.free = op.next
		return op, nil
	}
	op = &windowOp{w: w, tag: windowAnswerTag | uint32(len(w.ops))}
	op.recv.OnDone = func(r *pml.Request) { op.ended(r.Err()) }
	op.send.OnDone = func(r *pml.Request) {
		w.targets[op.rank].sending--
		op.ended(r.Err())
	}
	w.ops = append(w.ops, op)
	return op, nil
}

// awaitRoom waits until the limits on the number of operations in progress permit one more
// operation with a target rank.
func (w *window) awaitRoom(ctx context.Context, t *target) error {
	if w.roomFor(t) {
		return nil
	}
	return w.c.e.until(ctx, func() bool { return w.roomFor(t) })
}

// roomFor reports whether the limits on the number of operations in progress permit one more
// operation with a target rank.
func (w *window) roomFor(t *target) bool {
	return t.ops < windowOpsMax && t.sending < windowSendsMax &&
		(w.free != nil || len(w.ops) < windowOpsAll)
}

func (w *window) release(op *windowOp) {
	w.targets[op.rank].ops--
	op.next, w.free = w.free, op
}

// The method "ended" records that the request of an operation was sent, or that the reply to the
// request was received.
func (op *windowOp) ended(err error) {
	if err != nil && op.err == nil {
		op.err = err
		if !op.recv.Done() {
			op.w.c.e.l.Cancel(&op.recv)
		}
	}
	if op.pending--; op.pending > 0 {
		return
	}
	w := op.w
	t := &w.targets[op.rank]
	if errors.Is(op.err, pml.ErrPeer) {
		op.err = w.c.e.gone(w.c.ranks[op.rank], op.err)
	}
	if op.waited {
		t.ended(nil) // The waiting call returns the error.
		return
	}
	t.ended(op.err)
	w.release(op)
}

type lockKind uint8

const (
	lockNone lockKind = iota
	lockShared
	lockAlone
)

func (w *window) lock(ctx context.Context, rank int, kind lockKind) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if err := w.check(rank, 0, 0); err != nil {
		return err
	}
	t := &w.targets[rank]
	if t.locked != lockNone {
		return fmt.Errorf("%w: rank %d is locked by this process", ErrBusy, rank)
	}
	h := windowHead{kind: windowLock}
	if kind == lockAlone {
		h.kind = windowLockAlone
	}
	if err := w.awaitRoom(ctx, t); err != nil {
		return err // nothing was sent
	}
	t.locked = kind
	err := w.ask(ctx, rank, h, nil, nil)
	if err == nil {
		return nil
	}
	t.locked = lockNone
	if ctx.Err() != nil { // A lock granted later is released at once.
		h.kind = windowUnlock
		if _, e := w.begin(context.Background(), rank, h, nil, nil, false); e == nil {
			t.begun++
		}
	}
	return err
}

func (w *window) unlock(ctx context.Context, rank int) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if err := w.checkRank(rank); err != nil {
		return err
	}
	t := &w.targets[rank]
	if t.locked == lockNone {
		if err := w.usable(); err != nil {
			return err
		}
		return fmt.Errorf("%w: rank %d is not locked by this process", ErrInactive, rank)
	}
	err := w.flushLocked(ctx, rank)
	if err != nil && ctx.Err() != nil {
		return err
	}
	t.locked = lockNone
	if errors.Is(err, ErrRevoked) {
		return err
	}
	return errors.Join(err, w.ask(ctx, rank, windowHead{kind: windowUnlock}, nil, nil))
}
