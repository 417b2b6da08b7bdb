package mpi

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"gobtl/btl"
	"gobtl/mpi/coll"
	"gobtl/pml"
)

// Window is memory of all ranks of a communicator, which each of them may read and change without
// the others' help: MPI's one-sided communication.
//
//	w, err := mpi.NewWindow(ctx, c, make([]float64, 100))
//	err = w.Put(ctx, data, to, at)       // begins; data is lent
//	err = w.Fence(ctx)                   // all puts and gets of all ranks are over
//
// Put, Get, Accumulate and GetAccumulate begin an operation, whose slices are lent until a Flush of
// the rank, an Unlock or a Fence has returned; of Accumulate they are not. Errors of what has begun
// are told there. FetchAndOp and CompareAndSwap wait for their result.
//
// Operations on the same values of a rank that are under way at the same time come in any order,
// but those of Accumulate's kind (Accumulate, GetAccumulate, FetchAndOp, CompareAndSwap), each of
// which is whole for each value, and which come in the order of their calls from one rank. A rank
// reads and writes its own memory as a slice between two Fences, or while it has its own Lock,
// while others do not.
//
// To NoRank, as the edge of a grid has it, these do nothing; what was there is then the zero value.
//
// Any goroutine may use a Window; Fence and Free are collective operations.
type Window[T any] struct {
	w   window
	mem []T
}

// window is a Window of bytes.
type window struct {
	c       *Comm // of this window alone
	mem     []byte
	size    int // of a value
	folds   [opCodes]coll.Fold
	region  *btl.Region
	targets []target
	freed   bool
	server  windowServer

	ops  []*windowOp // all that were made
	free *windowOp
}

// target is what a window knows of a rank.
type target struct {
	handle  btl.Handle
	count   int // values
	under   int // puts, gets and operations under way
	ops     int // operations that are not free again
	sending int // operations whose request has not left
	begun   int // Accumulates, and of these those that the rank has carried out for sure
	flushed int
	locked  lockKind
	err     error   // of the first operation that has failed since this was asked for
	put     bool    // since the latest get, put bytes: nothing is on its way that is answered
	echo    [1]byte // where a get goes that is there to be answered
	done    func(*btl.Fragment, error)
}

// windowPart is what ranks tell each other of a window.
type windowPart struct {
	Handle uint64
	Count  int64
	Size   int64
}

// NewWindow makes a window of the memory of all ranks of a communicator, each of which gives its
// own, of any length. All must call it. The memory is the window's until Free. Errors as of Dup,
// ErrType, ErrCount when ranks do not agree on the size of a value, btl.ErrAgain when this rank has
// memory in as many windows as seven eighths of Transport.RegionsMax, and why else the memory
// cannot be exposed.
func NewWindow[T any](ctx context.Context, c *Comm, mem []T) (*Window[T], error) {
	b, err := bytesOf(mem)
	if err != nil {
		return nil, c.refuse(err)
	}
	own, err := c.Dup(ctx)
	if err != nil {
		return nil, err
	}
	w := &Window[T]{mem: mem}
	w.w = window{c: own, mem: b, size: sizeOf[T](), folds: foldsOf(reflect.TypeFor[T]().Kind())}
	if err := w.w.open(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// open exposes the memory and tells the others where it is.
func (w *window) open(ctx context.Context) error {
	e := w.c.e
	part := windowPart{Count: int64(len(w.mem) / w.size), Size: int64(w.size)}
	e.lock()
	var err error
	if len(w.mem) > 0 {
		if err = w.expose(); err == nil {
			part.Handle = uint64(w.region.Handle())
		}
	}
	if err == nil {
		err = w.serve()
	}
	e.unlock()
	if err != nil {
		part.Size = 0 // The others must not wait for this rank: they fail, too.
	}
	parts := make([]windowPart, w.c.Size())
	if e := Allgather(ctx, w.c, []windowPart{part}, parts); err == nil {
		err = e
	}
	w.targets = make([]target, w.c.Size())
	for rank, p := range parts {
		if err == nil && p.Size != int64(w.size) {
			err = fmt.Errorf("%w: values of %d bytes, of %d at rank %d", ErrCount, w.size, p.Size, rank)
		}
		t := &w.targets[rank]
		t.handle, t.count = btl.Handle(p.Handle), int(p.Count)
		t.done = func(_ *btl.Fragment, err error) { t.ended(err) }
	}
	if err != nil {
		e.lock()
		w.close()
		e.unlock()
		return fmt.Errorf("mpi: window: %w", err)
	}
	return nil
}

// expose exposes the memory. Of the module's regions windows leave an eighth to the messages that
// are announced, each of which needs one until it has come: without, those would wait for ever.
func (w *window) expose() (err error) {
	e := w.c.e
	most := e.m.Config().RegionsMax
	if most -= (most + 7) / 8; e.exposed >= most {
		return fmt.Errorf("%w: %d windows have memory here", btl.ErrAgain, e.exposed)
	}
	if w.region, err = e.m.Expose(w.mem, btl.RemoteWrite|btl.RemoteRead); err == nil {
		e.exposed++
	}
	return err
}

// ended takes note that an operation has ended.
func (t *target) ended(err error) {
	t.under--
	if err != nil && t.err == nil {
		t.err = err
	}
}

// Free ends the window when all ranks have called it and what they have begun is over. Errors as of
// Fence; the window is gone in any case, but not when ctx has ended before all ranks have come.
func (w *Window[T]) Free(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	err := w.w.flushAll(ctx)
	if err == nil || ctx.Err() == nil {
		err = errors.Join(err, Barrier(ctx, w.w.c))
	}
	if ctx.Err() != nil {
		return err
	}
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	w.w.close()
	return err
}

// close takes the memory back. mu is held.
func (w *window) close() {
	if w.freed {
		return
	}
	w.freed = true
	if w.region != nil {
		w.region.Close()
		w.c.e.exposed--
	}
	w.stopServing()
	w.c.free()
}

// Mem is this rank's part of the window.
func (w *Window[T]) Mem() []T { return w.mem }

// Len is the number of values of a rank.
func (w *Window[T]) Len(rank int) int {
	if rank < 0 || rank >= len(w.w.targets) {
		return 0
	}
	return w.w.targets[rank].count
}

// Put begins to write data into the memory of a rank, from value at on. It waits only for room in
// the transport. Errors: ErrRank, ErrBounds, a RankError, ErrFinalized, or the cause of ctx, after
// which a part may be under way.
func (w *Window[T]) Put(ctx context.Context, data []T, to, at int) error {
	b, _ := bytesOf(data) // the window's type was found good
	return w.w.move(ctx, b, to, at, false)
}

// Get begins to read values of a rank's memory, from value at on, into data. Otherwise as Put.
func (w *Window[T]) Get(ctx context.Context, data []T, from, at int) error {
	b, _ := bytesOf(data)
	return w.w.move(ctx, b, from, at, true)
}

// Flush waits until what this process has begun with a rank is over, there too. Errors: of the
// first operation that has failed since the last Flush; else as of Put.
func (w *Window[T]) Flush(ctx context.Context, rank int) error { return w.w.flush(ctx, rank) }

// FlushAll is Flush of all ranks.
func (w *Window[T]) FlushAll(ctx context.Context) error { return w.w.flushAll(ctx) }

// Fence waits until what all ranks have begun is over. All must call it. Errors as of Flush and of
// collective operations.
func (w *Window[T]) Fence(ctx context.Context) error {
	err := w.w.flushAll(ctx)
	return errors.Join(err, Barrier(ctx, w.w.c))
}

// Lock waits until this rank may use the memory of a rank: alone, or together with others that have
// not asked to be alone. Who has come first is served first. A process holds one lock of a rank at
// a time: ErrBusy. Locks bind only those who ask for them. Those of ranks that are gone are given
// back. Errors as of Put.
func (w *Window[T]) Lock(ctx context.Context, rank int, alone bool) error {
	kind := lockShared
	if alone {
		kind = lockAlone
	}
	return w.w.lock(ctx, rank, kind)
}

// Unlock gives a lock back after a Flush of the rank. Errors: ErrInactive without a lock, else as
// of Flush; the lock is given back in any case but ctx's end.
func (w *Window[T]) Unlock(ctx context.Context, rank int) error { return w.w.unlock(ctx, rank) }

// LockAll is Lock of all ranks, shared, one after the other.
func (w *Window[T]) LockAll(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	for rank := range w.w.targets {
		if err := w.Lock(ctx, rank, false); err != nil {
			for ; rank > 0; rank-- {
				err = errors.Join(err, w.Unlock(ctx, rank-1))
			}
			return err
		}
	}
	return nil
}

// UnlockAll is Unlock of all ranks.
func (w *Window[T]) UnlockAll(ctx context.Context) (err error) {
	if ctx == nil {
		return ErrContext
	}
	for rank := range w.w.targets {
		err = errors.Join(err, w.Unlock(ctx, rank))
	}
	return err
}

// usable is why nothing can begin in a window, nil if it can. mu is held.
func (w *window) usable() error {
	switch {
	case w.c.e.broken != nil:
		return w.c.e.broken
	case w.freed:
		return fmt.Errorf("%w: the window was freed", ErrFinalized)
	}
	return nil
}

// check says whether so many bytes at a value of a rank are in the window. mu is held.
func (w *window) check(rank, at, bytes int) error {
	if err := w.usable(); err != nil {
		return err
	}
	switch {
	case rank < 0 || rank >= len(w.targets):
		return fmt.Errorf("%w: %d of %d", ErrRank, rank, len(w.targets))
	case at < 0 || at > w.targets[rank].count || bytes/w.size > w.targets[rank].count-at:
		return fmt.Errorf("%w: %d values at %d of %d", ErrBounds, bytes/w.size, at,
			w.targets[rank].count)
	}
	return nil
}

// move begins a put or a get.
func (w *window) move(ctx context.Context, mem []byte, rank, at int, get bool) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if rank == NoRank {
		return w.usable()
	}
	if err := w.check(rank, at, len(mem)); err != nil || len(mem) == 0 {
		return err
	}
	offset := at * w.size
	if rank == w.c.rank {
		if there := w.mem[offset : offset+len(mem)]; get {
			copy(mem, there)
		} else {
			copy(there, mem)
		}
		return nil
	}
	p, err := e.peer(w.c.ranks[rank])
	if err != nil {
		return err
	}
	most := e.m.Limits().FragmentBytesMax
	for len(mem) > 0 {
		n := min(len(mem), most)
		if err := w.movePart(ctx, p, rank, mem[:n], uint64(offset), get); err != nil {
			return err
		}
		mem, offset = mem[n:], offset+n
	}
	e.due()
	return nil
}

// movePart begins one fragment of a put or a get.
func (w *window) movePart(ctx context.Context, p *pml.Peer, rank int, mem []byte, offset uint64,
	get bool,
) error {
	e, t := w.c.e, &w.targets[rank]
	f, err := prepare(p.Endpoint(), mem, t.handle, offset, get)
	if errors.Is(err, btl.ErrAgain) {
		waited := e.until(ctx, func() bool {
			if f == nil && errors.Is(err, btl.ErrAgain) {
				f, err = prepare(p.Endpoint(), mem, t.handle, offset, get)
			}
			return f != nil || !errors.Is(err, btl.ErrAgain)
		})
		if err == nil && waited != nil {
			_ = p.Endpoint().Free(f) // It was never sent.
		}
		if waited != nil {
			return waited
		}
	}
	if err == nil {
		f.Signal, f.OnDone = true, t.done
		if _, err = p.Endpoint().Send(e.now(), f); err == nil {
			t.under++
			t.put = !get
			return nil
		}
		_ = p.Endpoint().Free(f) // It is the caller's still.
	}
	return w.failure(rank, p, err)
}

func prepare(ep *btl.Endpoint, mem []byte, h btl.Handle, offset uint64, get bool,
) (*btl.Fragment, error) {
	if get {
		return ep.PrepareGet(mem, h, offset)
	}
	return ep.PreparePut(mem, h, offset)
}

// failure is the error of an operation with a rank.
func (w *window) failure(rank int, p *pml.Peer, err error) error {
	if p.Err() != nil {
		return w.c.e.gone(w.c.ranks[rank], p.Err())
	}
	return err
}

// flush waits until what was begun with a rank is over.
func (w *window) flush(ctx context.Context, rank int) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if err := w.check(rank, 0, 0); err != nil {
		return err
	}
	return w.flushLocked(ctx, rank)
}

// flushLocked is flush while mu is held.
func (w *window) flushLocked(ctx context.Context, rank int) error {
	t := &w.targets[rank]
	if n := t.begun; n > t.flushed {
		if err := w.ask(ctx, rank, windowHead{kind: windowFlush}, nil, nil); err != nil {
			return err
		}
		t.flushed = max(t.flushed, n) // another Flush may have come further
		t.put = false
	}
	w.hasten(rank)
	if err := w.c.e.until(ctx, func() bool { return t.under == 0 }); err != nil {
		return err
	}
	err := t.err
	t.err = nil
	if err != nil {
		if p, unknown := w.c.e.peer(w.c.ranks[rank]); unknown == nil {
			return w.failure(rank, p, err)
		}
	}
	return err
}

// hasten has a rank say now that puts are over, which it does a while later if it has nothing to
// send: a byte is got, and the packet that brings it says so. Without room for that the rank says
// it when it is due. mu is held.
func (w *window) hasten(rank int) {
	e, t := w.c.e, &w.targets[rank]
	if !t.put || t.under == 0 {
		return
	}
	p, err := e.peer(w.c.ranks[rank])
	if err != nil {
		return
	}
	f, err := p.Endpoint().PrepareGet(t.echo[:], t.handle, 0)
	if err != nil {
		return
	}
	f.Signal, f.OnDone = true, t.done
	if _, err := p.Endpoint().Send(e.now(), f); err != nil {
		_ = p.Endpoint().Free(f) // It is the caller's still.
		return
	}
	t.under++
	t.put = false
}

// flushAll is flush of all ranks; after an error it goes on with the others, but not after ctx's
// end.
func (w *window) flushAll(ctx context.Context) (err error) {
	if ctx == nil {
		return ErrContext
	}
	for rank := range w.targets {
		err = errors.Join(err, w.flush(ctx, rank))
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// until drives until ready reports true, which it does from then on. mu is held.
func (e *engine) until(ctx context.Context, ready func() bool) error {
	if ready() {
		return nil
	}
	w := e.newWaiter(1)
	w.ready = ready
	err := e.wait(ctx, w)
	e.freeWaiter(w)
	return err
}

// asBytes is the memory of one value.
func asBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), int(unsafe.Sizeof(*v)))
}
