package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"gobtl/pml"
)

// Operations of Accumulate's kind, and locks, are messages in the window's communicator: requests
// have tag 0, the answer to a request has a tag of its own.
//
//	0   1   kind
//	1   1   operation, of Accumulate's kind
//	2   2   0
//	4   4   the tag of the answer, 0: none
//	8   8   where in the memory, in bytes
//	16  .   values; of a compare-and-swap the expected one, then the new one
//
// The answer is the old values, or nothing.
const (
	windowHeadBytes  = 16
	windowPieceBytes = 4096 // of values in a request
	windowAnswerTag  = 1 << 20
	windowOpsMax     = 256     // that a process has under way with a rank, in a window
	windowOpsAll     = 1 << 19 // with all of them
	windowSendsMax   = 4       // of those with a rank, how many are not sent yet
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

// windowOp is a request to a rank that is under way, or free.
type windowOp struct {
	w          *window
	rank       int
	tag        uint32
	send, recv pml.Request
	buf        []byte
	pending    int // of send and recv
	waited     bool
	err        error
	next       *windowOp
}

// Accumulate begins to combine data with the values of a rank from at on, which are the low ones of
// op; op must be Sum, Prod, Min, Max, And, Or, Xor or Replace. data may be changed when it returns.
// Errors as of Put, and ErrConfig for another op.
func (w *Window[T]) Accumulate(ctx context.Context, data []T, to, at int, op Op[T]) error {
	b, _ := bytesOf(data)
	return w.w.accumulate(ctx, b, nil, to, at, op.code)
}

// GetAccumulate is Accumulate that gets the values of before, too, into old, which is as long as
// data, and may be the same slice, but not overlap it otherwise (ErrConfig). op may be Keep as
// well: an atomic Get, for which data may be nil.
func (w *Window[T]) GetAccumulate(ctx context.Context, data, old []T, to, at int, op Op[T]) error {
	if op.code == opKeep && data == nil {
		data = old // of the right length, and not looked at
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

// FetchAndOp combines value with that of a rank at at, and returns what was there. Errors as of
// Accumulate.
func (w *Window[T]) FetchAndOp(ctx context.Context, value T, to, at int, op Op[T],
) (old T, err error) {
	h := windowHead{kind: windowFetch, op: op.code}
	err = w.w.fetch(ctx, h, asBytes(&value), asBytes(&old), to, at)
	return old, err
}

// CompareAndSwap writes value to a rank at at if expected is there, bit by bit, and returns what
// was there. Errors as of Put, and ErrType for structs with bytes that are no field's, which have
// any value.
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

// has says whether the window's values have an operation.
func (w *window) has(op opCode) bool {
	return op < opCodes && (w.folds[op] != nil || op == opReplace || op == opKeep)
}

// accumulate begins an accumulate, with the old values if into is not nil.
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
		w.targets[rank].begun++ // Before it is sent: some of it may be when there is an error.
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

// fetch does an operation on one value, and waits for the old one.
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

// ask does a request and waits for its answer, which is copied to old. mu is held.
func (w *window) ask(ctx context.Context, rank int, h windowHead, data, old []byte) error {
	// What ctx's end leaves under way must not write to the caller's memory: a copy is made.
	var into []byte
	if len(old) > 0 {
		into = make([]byte, len(old))
	}
	op, err := w.begin(ctx, rank, h, data, into, true)
	if err != nil {
		return err
	}
	if err := w.c.e.until(ctx, func() bool { return op.pending == 0 }); err != nil {
		op.waited = false // It frees itself.
		return err
	}
	err = op.err
	w.release(op)
	copy(old, into)
	return err
}

// begin begins a request; it has an answer if old is not nil or it is waited for, by who releases
// it.
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
		op.waited = true // so that the rank's next Flush does not tell of it, too
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

// takeOp returns an operation that is free, and waits for one if too many are under way: one rank
// that is slow does not hold up what is for others.
func (w *window) takeOp(ctx context.Context, rank int, kind windowKind) (*windowOp, error) {
	t := &w.targets[rank]
	// An Unlock follows a Lock, which found room: whoever gives a lock back does not wait for it, or
	// would wait for a rank that stands still.
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

// awaitRoom waits until one more operation with a rank may begin.
func (w *window) awaitRoom(ctx context.Context, t *target) error {
	if w.roomFor(t) {
		return nil
	}
	return w.c.e.until(ctx, func() bool { return w.roomFor(t) })
}

// roomFor says whether one more operation with a rank may begin.
func (w *window) roomFor(t *target) bool {
	return t.ops < windowOpsMax && t.sending < windowSendsMax &&
		(w.free != nil || len(w.ops) < windowOpsAll)
}

func (w *window) release(op *windowOp) {
	w.targets[op.rank].ops--
	op.next, w.free = w.free, op
}

// ended takes note that the request has left, or that the answer has come.
func (op *windowOp) ended(err error) {
	if err != nil && op.err == nil {
		op.err = err
		// Without the request there is no answer.
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
		t.ended(nil) // Who waits has the error.
		return
	}
	t.ended(op.err)
	w.release(op)
}

// lockKind is what a process, or a rank, holds of a window's memory.
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
		return err // nothing has left
	}
	t.locked = kind
	err := w.ask(ctx, rank, h, nil, nil)
	if err == nil {
		return nil
	}
	t.locked = lockNone
	if ctx.Err() != nil { // The lock may come yet: it is given back at once.
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
	if err := w.check(rank, 0, 0); err != nil {
		return err
	}
	t := &w.targets[rank]
	if t.locked == lockNone {
		return fmt.Errorf("%w: rank %d is not locked by this process", ErrInactive, rank)
	}
	err := w.flushLocked(ctx, rank)
	if err != nil && ctx.Err() != nil {
		return err
	}
	t.locked = lockNone
	return errors.Join(err, w.ask(ctx, rank, windowHead{kind: windowUnlock}, nil, nil))
}
