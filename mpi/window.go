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

// A Window consists of memory at all ranks of a communicator. Each rank can read and change the
// memory of every rank, without a call at that rank (MPI's one-sided communication).
//
//	w, err := mpi.NewWindow(ctx, c, make([]float64, 100)) // --> all ranks
//	err = w.Put(ctx, data, to, at)       // begins; data must not change
//	err = w.Fence(ctx)                   // all puts and gets of all ranks are over
//
// Put, Get, Accumulate and GetAccumulate begin an operation. The program must not use the slices of
// an operation before a Flush or Unlock of the target rank, or a Fence, has returned. Accumulate
// copies its slice, so that the caller may change the slice at once. If a window operation fails,
// the next Flush or Unlock of the target rank, or the next Fence, returns its error. FetchAndOp and
// CompareAndSwap wait until the target rank has sent the old value.
//
// Concurrent operations on the same values of a rank take effect in any order. Accumulate,
// GetAccumulate, FetchAndOp and CompareAndSwap are atomic for each value. The atomic operations of
// one rank take effect in the order of their calls. A rank is allowed to access its own memory as a
// slice between two Fences, or as long as it holds the Lock of its own memory. While a rank
// accesses its own memory as a slice, no other rank may access the memory of this rank.
//
// An operation with NoRank as the target, for example at the edge of a grid, does nothing. The old
// values that an operation with NoRank as the target returns are zero.
//
// A Window is safe for concurrent use by several goroutines. Fence and Free are collective
// operations.
type Window[T any] struct {
	w   window
	mem []T
}

// The type "window" is a Window whose memory is a slice of bytes.
type window struct {
	c       *Comm // a communicator for this window only
	mem     []byte
	size    int // size of a value in bytes
	folds   [opCodes]coll.Fold
	region  *btl.Region
	targets []target
	freed   bool
	server  windowServer

	ops  []*windowOp // all operations that were made
	free *windowOp
}

type target struct {
	handle  btl.Handle
	count   int // number of values
	under   int // puts, gets and operations in progress
	ops     int // operations that have not been freed
	sending int // operations whose request is not sent yet
	begun   int // number of Accumulates begun; "flushed" of them are known to be carried out
	flushed int
	locked  lockKind
	err     error   // error of the first failed operation since the latest report
	put     bool    // puts were begun after the latest get, so that no reply acknowledges them at once
	echo    [1]byte // buffer of a get that is made only for its reply
	done    func(*btl.Fragment, error)
}

// windowPart is the message with which a rank describes its memory in a window to all ranks.
type windowPart struct {
	Handle uint64
	Count  int64
	Size   int64
}

// NewWindow makes a window of the memory of all ranks of a communicator. Each rank passes its own
// memory, of any length, and all ranks must call NewWindow. The passed memory belongs to the window
// until Free. The errors of NewWindow are the errors of Dup, ErrType, and ErrCount (if the ranks
// differ in the size of a value). If the number of this rank's windows with memory has reached
// seven eighths of Transport.RegionsMax, NewWindow returns btl.ErrAgain. If the memory cannot be
// registered for remote access, NewWindow returns the error of the registration. If NewWindow fails
// at one rank because a rank is dead, or because ctx has ended after the ranks had made the
// communicator of the window, NewWindow and the window's operations at the other ranks return an
// error that wraps ErrRevoked. If ctx ends at one rank before the ranks have made the communicator
// of the window, the other ranks wait in NewWindow until their own contexts end.
func NewWindow[T any](ctx context.Context, c *Comm, mem []T) (*Window[T], error) {
	b, err := bytesOf(mem)
	if err != nil {
		return nil, c.refuseSplit(err)
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

// The method "open" registers this rank's memory for remote access, and tells the other ranks the
// handle of the memory region.
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
		part.Size = 0 // A Size of 0 makes NewWindow fail at the other ranks as well.
	}
	parts := make([]windowPart, w.c.Size())
	gathered := Allgather(ctx, w.c, []windowPart{part}, parts)
	if err == nil {
		err = gathered
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
		if errors.Is(err, ErrRevoked) {
			err = w.over()
		}
		w.close(gathered != nil)
		e.unlock()
		return fmt.Errorf("mpi: window: %w", err)
	}
	return nil
}

// The method "expose" registers this rank's memory as a memory region for remote access. Windows
// use at most seven eighths of the module's memory regions, so that one eighth remains for large
// messages.
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

// The method "ended" records the end of an operation with the target rank.
func (t *target) ended(err error) {
	t.under--
	if err != nil && t.err == nil {
		t.err = err
	}
}

// Mem returns this rank's memory in the window.
func (w *Window[T]) Mem() []T { return w.mem }

// Len returns the number of values in the memory of a rank.
func (w *Window[T]) Len(rank int) int {
	if rank < 0 || rank >= len(w.w.targets) {
		return 0
	}
	return w.w.targets[rank].count
}

// Put begins to write the slice "data" to the memory of a rank, from the index "at" on. Put waits
// until the transport can take the data, and usually returns before the data is written. The errors
// of Put are ErrRank, ErrBounds, a RankError, ErrRevoked (see Free), ErrFinalized, and the cause of
// ctx. If Put returns the cause of ctx, a part of the data might be written later.
func (w *Window[T]) Put(ctx context.Context, data []T, to, at int) error {
	b, _ := bytesOf(data) // the window's type was already checked
	return w.w.move(ctx, b, to, at, false)
}

// Get begins to read values of a rank's memory, from the index "at" on, into the slice "data". Get
// waits until the transport can take the request, and returns the errors of Put.
func (w *Window[T]) Get(ctx context.Context, data []T, from, at int) error {
	b, _ := bytesOf(data)
	return w.w.move(ctx, b, from, at, true)
}

// Flush waits until all operations of this process with the given target rank are complete, both in
// this process and at the target rank. If operations have failed since the previous Flush, Flush
// returns the error of the first failed operation. Flush can also return all errors of Put.
func (w *Window[T]) Flush(ctx context.Context, rank int) error { return w.w.flush(ctx, rank) }

// FlushAll calls Flush for all ranks.
func (w *Window[T]) FlushAll(ctx context.Context) error { return w.w.flushAll(ctx) }

// Fence waits until the window operations of all ranks are complete. All ranks must call Fence. The
// errors of Fence are those of Flush and of collective operations.
func (w *Window[T]) Fence(ctx context.Context) error {
	_, err := w.w.meet(ctx, w.w.flushAll(ctx))
	return err
}

// Lock waits until this rank holds the lock of a target rank's memory. If the argument "alone" is
// true, the lock is exclusive, and otherwise the lock is shared. Lock requests are served in the
// order of their arrival. A process can hold at most one lock of each target rank, and a second
// Lock of the same target rank returns ErrBusy. Locks are advisory. The locks of dead ranks are
// released. The errors of Lock are those of Put.
func (w *Window[T]) Lock(ctx context.Context, rank int, alone bool) error {
	kind := lockShared
	if alone {
		kind = lockAlone
	}
	return w.w.lock(ctx, rank, kind)
}

// Unlock calls Flush for the rank, and then releases the lock. If this process does not hold the
// lock, Unlock returns ErrInactive. Unlock can also return all errors of Flush. If the call of
// Flush fails, Unlock releases the lock nevertheless, unless ctx has ended.
func (w *Window[T]) Unlock(ctx context.Context, rank int) error { return w.w.unlock(ctx, rank) }

// LockAll takes a shared Lock of each rank, one rank after the other.
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

// UnlockAll calls Unlock for all ranks.
func (w *Window[T]) UnlockAll(ctx context.Context) (err error) {
	if ctx == nil {
		return ErrContext
	}
	for rank := range w.w.targets {
		err = errors.Join(err, w.Unlock(ctx, rank))
	}
	return err
}

// The method "check" returns an error if the window cannot be used, or if a range of bytes is not
// within a rank's memory. The argument "at" of "check" is the index of the first value, and the
// argument "bytes" is the length of the range. The caller must hold mu.
func (w *window) check(rank, at, bytes int) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := w.checkRank(rank); err != nil {
		return err
	}
	if at < 0 || at > w.targets[rank].count || bytes/w.size > w.targets[rank].count-at {
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

// movePart begins a transfer that is a part of a put or a get, and fits in one fragment of the
// transport.
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
			_ = p.Endpoint().Free(f) // The fragment was never sent.
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
		_ = p.Endpoint().Free(f) // The caller still owns f.
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

// The method "failure" returns the error of an operation with a rank. If the rank is dead, the
// error is a RankError.
func (w *window) failure(rank int, p *pml.Peer, err error) error {
	if p.Err() != nil {
		return w.c.e.gone(w.c.ranks[rank], p.Err())
	}
	return err
}

// flush waits until all operations with a rank are complete.
func (w *window) flush(ctx context.Context, rank int) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.c.e
	e.lock()
	defer e.unlock()
	if err := w.checkRank(rank); err != nil {
		return err
	}
	return w.flushLocked(ctx, rank)
}

// flushLocked works like flush, for a caller that holds mu and has checked the rank. If the window
// was revoked, flushLocked waits until no operation uses memory of the program, and returns the
// error of a revoked window.
func (w *window) flushLocked(ctx context.Context, rank int) error {
	t := &w.targets[rank]
	if n := t.begun; n > t.flushed {
		err := w.ask(ctx, rank, windowHead{kind: windowFlush}, nil, nil)
		if err != nil && w.c.revoked == nil {
			return err
		}
		if err == nil {
			t.flushed = max(t.flushed, n) // a concurrent Flush may have raised flushed
			t.put = false
		}
	}
	w.hasten(rank)
	if err := w.c.e.until(ctx, func() bool { return t.under == 0 }); err != nil {
		return err
	}
	err := t.err
	t.err = nil
	if w.c.revoked != nil {
		return w.over()
	}
	if err != nil {
		if p, unknown := w.c.e.peer(w.c.ranks[rank]); unknown == nil {
			return w.failure(rank, p, err)
		}
	}
	return err
}

// The method "hasten" makes a rank acknowledge puts at once, instead of after the acknowledgement
// delay. The method "hasten" reads one byte of the rank's memory, and the packet with the reply
// contains the acknowledgement of the puts. The caller must hold mu.
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
		_ = p.Endpoint().Free(f) // The caller still owns f.
		return
	}
	t.under++
	t.put = false
}

// flushAll waits until all operations with all ranks are complete. Even if operations with one rank
// have failed, flushAll waits for the operations with all ranks, unless ctx has ended.
func (w *window) flushAll(ctx context.Context) (err error) {
	if ctx == nil {
		return ErrContext
	}
	for rank := range w.targets {
		failed := w.flush(ctx, rank)
		if !errors.Is(failed, ErrRevoked) || !errors.Is(err, ErrRevoked) { // all ranks have the same
			err = errors.Join(err, failed)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// The method "until" polls the transport as long as the function "ready" returns false. When the
// function "ready" has returned true once, it must return true in every later call. The caller must
// hold mu.
func (e *engine) until(ctx context.Context, ready func() bool) error {
	if ready() {
		return nil
	}
	w := e.waiters.get(1)
	w.ready = ready
	err := e.wait(ctx, w)
	e.waiters.put(w)
	return err
}

func asBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), int(unsafe.Sizeof(*v)))
}
