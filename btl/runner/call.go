package runner

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/internal/list"
)

// The type "call" is one request of a goroutine to a Runner. When a call has ended, its object is
// returned to a pool.
type call struct {
	memoryCall
	callUses
	r     *Runner
	kind  callKind
	ep    *btl.Endpoint
	fn    func(*btl.Module) error
	data  []byte // the caller's memory, or own if no goroutine waits
	own   []byte
	name  []byte
	found **btl.Endpoint
	await func(*btl.Module, Waker) error
	tag   btl.Tag
	kept  bool // the call belongs to a Pending, whose Wait may be called again
	left  bool // the call is a post in the inbox: its data is copied, and no goroutine waits for it
	lent  bool // it uses memory of the caller
	// If a goroutine abandons a call, the channel "free" is closed when the transport no longer uses
	// the goroutine's memory.
	free chan struct{}

	state  atomic.Uint32
	wake   chan struct{} // capacity one: the call has ended, or must drive the module
	err    error         // result; valid when the call has ended
	onDone func(*btl.Fragment, error)
	onEnd  func(error)

	// In a call of the kind callCancel, the field "target" is the call that must end. The field
	// "target" is valid only while target.life equals targetLife.
	target     *call
	targetLife uint64

	callPlace
	poked bool // woken in order to drive the module
}

// callUses counts the uses of a pooled call, so that a Waker or Pending detects that the call has
// been reused.
type callUses struct {
	life atomic.Uint64 // number of ends, compared by Wakers
	uses atomic.Uint64 // number of reported ends, compared by Pendings
}

// callPlace contains the pointers that link a call into the Runner's lists. Only the goroutine that
// owns the module may use the fields of callPlace.
type callPlace struct {
	open    list.Node[*call] // in Runner.open
	refused list.Node[*call] // in a queue of Runner.refused
	pending bool             // the operation has begun and has not ended
	// If the goroutine of a call has stopped polling because a different goroutine already sleeps in
	// the kernel until a packet arrives, the field "since" of the call is the time when the goroutine
	// of the call began to poll, and otherwise 0.
	since btl.Time
}

// memoryCall describes the operation of a call on the peer's memory.
type memoryCall struct {
	does   memoryOp
	to     btl.Handle
	off    uint64
	says   []byte // content of the notification, in the caller's memory
	atomic btl.Atomic
	old    uint64 // result of an atomic operation, read by the waiting caller
}

type memoryOp uint8

const (
	memoryNone memoryOp = iota // a message
	memoryPut
	memoryPutNotice
	memoryGet
	memoryAtomic
)

type callKind uint8

const (
	callDo      callKind = iota
	callConnect          // with name
	callDial             // and the name is an address
	callSend             // waits for the acknowledgement
	callPost             // ends when it is accepted
	callFlush            // of an endpoint
	callAwait
	callCancel // of a call that nobody waits for
)

// The constants below are the states of a call. Only the goroutine that owns the module sets the
// state callEnded. The goroutine that waits for the call, or a goroutine that wakes the waiting
// goroutine, sets the states other than callEnded.
//
//	running --> blocked --> (poked) running     in the channel: woken by the end, or to drive
//	   |  <---> asleep                          in the kernel, as the one that sleeps there
//	   +--> abandoned                           nobody waits any more: pooled at its end
//	 all --> ended
//
// The bit callBeginning is set in addition to the state while the goroutine that owns the module
// begins the call. While the bit callBeginning is set, the call can end, but its goroutine cannot
// abandon the call, because the memory of the goroutine is in use.
const (
	callRunning uint32 = iota
	callBlocked
	callPoked
	callAsleep
	callAbandoned
	callEnded

	callBeginning = 1 << 8
)

var callPool sync.Pool // of *call

func (r *Runner) newCall(kind callKind) *call {
	c, ok := callPool.Get().(*call)
	if !ok {
		c = &call{wake: make(chan struct{}, 1)}
		c.onEnd = c.end
		c.onDone = func(f *btl.Fragment, err error) {
			c.old = f.Value()
			c.end(err)
		}
	}
	c.r, c.kind = r, kind
	return c
}

// The method "recycle" returns an ended call to the pool. No goroutine may use the call afterwards.
func (c *call) recycle() {
	c.ep, c.fn, c.data, c.name, c.found, c.err, c.r = nil, nil, nil, nil, nil, nil, nil
	c.kept, c.left, c.pending = false, false, false
	c.lent, c.free = false, nil
	c.uses.Add(1)
	c.await, c.target, c.memoryCall = nil, nil, memoryCall{}
	if cap(c.own) > keepCallBytes {
		c.own = nil
	}
	c.state.Store(callRunning)
	callPool.Put(c)
}

// keepCallBytes is the maximum size of the buffer that a call in the pool keeps for copies of
// messages.
const keepCallBytes = 64 << 10

func (c *call) ended() bool { return c.state.Load() == callEnded }

// If a call has the state "from", the method "turn" changes the state to "to" and returns true, and
// otherwise it changes nothing and returns false. The method "turn" does not change the bit
// callBeginning.
func (c *call) turn(from, to uint32) bool {
	for {
		s := c.state.Load()
		if s&^callBeginning != from {
			return false
		}
		if c.state.CompareAndSwap(s, to|s&callBeginning) {
			return true
		}
	}
}

// The method "abandon" sets the state callAbandoned for a call whose goroutine stops waiting, and
// returns true, or returns false if the call has ended. While the goroutine that owns the module
// begins the call, the method "abandon" waits. Only the goroutine of the call may call the method
// "abandon".
func (c *call) abandon() bool {
	const tries = 100
	for i := 0; ; i++ {
		switch c.state.Load() {
		case callRunning:
			if c.state.CompareAndSwap(callRunning, callAbandoned) {
				return true
			}
		case callEnded:
			return false
		}
		if i < tries {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond) // the function given to Do may take long
		}
	}
}

// The method "end" sets the call's result and wakes the goroutine of the call. Only the goroutine
// that owns the module may call the method "end".
func (c *call) end(err error) {
	c.err = err
	c.life.Add(1)
	r := c.r
	c.open.Remove()
	if c.since != 0 {
		r.policies.of(c).Late(r.m.Now().Sub(c.since))
		c.since = 0
	}
	switch c.state.Swap(callEnded) &^ callBeginning {
	case callBlocked:
		r.turn.wake(c)
	case callAsleep:
		r.m.Wake()
	case callAbandoned:
		if c.left && c.kind == callPost {
			r.posts.done(c.ep, len(c.data), c.ep.Err() != nil)
			if err != nil {
				r.hooks.NoteLost(c.ep, err)
			}
		}
		if c.free != nil {
			close(c.free)
		}
		c.recycle()
	}
}

// The method "begin" performs a call, or starts the operation of a call that ends later. The result
// of the method "begin" is false if no send buffers are free for the call, and otherwise true.
//
//go:noinline
func (r *Runner) begin(c *call) bool {
	life := c.life.Load()
	if c.state.Or(callBeginning) == callAbandoned && !c.left {
		c.end(context.Canceled) // no goroutine waits for the result
		return true
	}
	if r.stopped {
		c.end(btl.ErrClosed)
		return true
	}
	returned := false
	defer mustReturn(&returned)
	was := r.callbacks.enter()
	pending, err := r.try(c)
	r.callbacks.leave(was)
	returned = true
	switch again := errors.Is(err, btl.ErrAgain); {
	case c.life.Load() != life:
		return true // the call has ended, and may be reused already
	case !again && (err != nil || !pending):
		c.end(err)
	default:
		c.pending = !again
		c.state.And(^uint32(callBeginning))
		return c.pending
	}
	return true
}

// The method "try" performs the work of a call. The result "pending" of the method "try" reports
// whether the call ends later.
func (r *Runner) try(c *call) (pending bool, err error) {
	switch c.kind {
	case callDo:
		return false, c.fn(r.m)
	case callConnect, callDial:
		return r.handshakes.begin(r.m, c)
	case callFlush:
		c.ep.Flush(r.m.Now(), c.onEnd)
		return true, nil
	case callAwait:
		return true, c.await(r.m, Waker{c, c.life.Load()})
	case callCancel:
		if t := c.target; t.life.Load() == c.targetLife &&
			(t.pending && t.kind == callAwait || r.refused.remove(t)) {
			t.end(context.Canceled)
		}
		return false, nil
	default:
		return r.trySend(c)
	}
}

// trySend sends the message of a call. trySend copies the message if the message fits into one
// packet, or if no goroutine waits for the end of the call. The transport reads any other message
// from the caller's memory until the call ends, without a copy.
func (r *Runner) trySend(c *call) (pending bool, err error) {
	ep := c.ep
	var f *btl.Fragment
	switch {
	case c.does != memoryNone:
		f, err = c.prepare()
	case c.kind == callPost || len(c.data) <= r.limits.SegmentBytes:
		if f, err = ep.Alloc(c.tag, len(c.data)); err == nil {
			copy(f.Bytes(), c.data)
		}
	default:
		f, err = ep.Prepare(c.tag, c.data)
	}
	if err != nil {
		return false, err
	}
	if c.kind == callSend {
		f.Signal, f.OnDone = true, c.onDone
	}
	if _, err := ep.Send(r.m.Now(), f); err != nil {
		return false, errors.Join(err, ep.Free(f))
	}
	return c.kind == callSend, nil
}

func (c *call) prepare() (*btl.Fragment, error) {
	switch c.does {
	case memoryPutNotice:
		return c.ep.PreparePutNotice(c.data, c.to, c.off, c.tag, c.says)
	case memoryGet:
		return c.ep.PrepareGet(c.data, c.to, c.off)
	case memoryAtomic:
		return c.ep.PrepareAtomic(c.atomic)
	case memoryNone, memoryPut:
	}
	return c.ep.PreparePut(c.data, c.to, c.off)
}

// The type "inbox" is the queue of calls for the goroutine that drives the module.
type inbox struct {
	mu    sync.Mutex
	calls []*call
	count atomic.Int32
}

// The method "push" adds a call to the inbox.
func (b *inbox) push(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
	b.count.Store(int32(len(b.calls)))
}

// The method "take" removes and returns all queued calls, the oldest first. The argument "empty" of
// the method "take" is the memory for the new queue.
func (b *inbox) take(empty []*call) []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = empty
	b.count.Store(0)
	return calls
}

func (b *inbox) empty() bool { return b.count.Load() == 0 }
