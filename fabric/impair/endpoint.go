package impair

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"gobtl/fabric"
	"gobtl/internal/fifo"
	"gobtl/internal/mono"
)

const (
	overtakeMax = 16                   // most later datagrams that overtake a held one
	holdMax     = 64                   // most datagrams held at once
	holdTimeout = 1 * time.Millisecond // a held datagram is delivered after holdTimeout
	pollBatch   = 32                   // completions taken from the inner endpoint at a time
	// pollRounds is the largest number of batches that one Poll takes from the inner endpoint. A Poll
	// takes further batches if it can, because the faults can drop all datagrams of a batch while more
	// datagrams wait.
	pollRounds = 16
)

// An "arrival" is a received datagram, or one of the two copies of a duplicated datagram, that Poll
// has not delivered to the caller yet.
type arrival struct {
	from      fabric.Addr
	due       mono.Time // when its delay is over
	buf       fabric.Buf
	sizeBytes uint32
	errno     int32
	flipBit   int32 // the bit to invert, or -1
}

// A "hold" is a reordered datagram, which is held until later datagrams have overtaken it.
type hold struct {
	arrival
	until     mono.Time
	remaining int // number of later datagrams that still have to overtake
	overtaken bool
}

// The type "endpoint" implements fabric.Endpoint. Each hidden buffer of an endpoint is either
// posted to the inner endpoint, or unused, or referenced by one or two copies of a datagram in the
// queues "holds", "line" and "ready".
type endpoint struct {
	domain *Domain
	inner  fabric.Endpoint
	caps   fabric.Caps
	dice   dice
	closed bool

	loss, dup, reorder, delayed, corrupt, truncate odds

	posted fifo.Queue[fabric.Buf] // the caller's receive buffers; at most RxDepth
	quota  []fabric.Buf
	idle   []fabric.Buf // hidden buffers to be posted to the inner endpoint
	outer  int          // hidden buffers posted to the inner endpoint
	copies []uint8      // by hidden buffer: number of arrivals with this buffer

	holds []hold              // at most holdMax
	line  fifo.Queue[arrival] // delayed arrivals, the earliest first
	ready fifo.Queue[arrival] // arrivals to deliver; at most two for each of quota, like line
	batch [pollBatch]fabric.Completion
}

var _ fabric.Endpoint = (*endpoint)(nil)

func newEndpoint(d *Domain, inner fabric.Endpoint, quota []fabric.Buf) *endpoint {
	f := d.faults
	e := &endpoint{
		domain:   d,
		inner:    inner,
		caps:     inner.Caps(),
		loss:     oddsOf(f.Loss),
		dup:      oddsOf(f.Dup),
		reorder:  oddsOf(f.Reorder),
		corrupt:  oddsOf(f.Corrupt),
		truncate: oddsOf(f.Truncate),
		quota:    slices.Clone(quota),
		idle:     slices.Clone(quota),
		copies:   make([]uint8, d.all.Len()-d.visible),
		holds:    make([]hold, 0, holdMax),
		line:     fifo.New[arrival](2 * len(quota)),
		ready:    fifo.New[arrival](2 * len(quota)),
	}
	e.dice.pcg = *rand.NewPCG(f.Seed, d.opened)
	if f.Delay > 0 {
		e.delayed = oddsOf(1)
		if f.DelayP > 0 {
			e.delayed = oddsOf(f.DelayP)
		}
	}
	e.caps.Landing = false       // a fault may delay, alter or duplicate a datagram
	e.caps.RemoveCancels = false // a send may be held here
	e.caps.PollsAll = false      // a Poll whose datagrams are all dropped may leave more in the queue
	e.caps.RecvFixedBytes, e.caps.RecvFullBytes = 0, 0
	e.caps.RecvCapacity = min(e.caps.RecvCapacity, len(quota))
	e.posted = fifo.New[fabric.Buf](e.caps.RxDepth)
	return e
}

func (e *endpoint) Caps() fabric.Caps { return e.caps }
func (e *endpoint) Name() []byte      { return e.inner.Name() }

// Post passes the sends to the inner endpoint, except that Post refuses a send whose buffer is a
// hidden buffer.
func (e *endpoint) Post(sends []fabric.Send) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	for i := range sends {
		if int64(sends[i].Buf) >= int64(e.domain.visible) {
			n, err := e.inner.Post(sends[:i])
			if err == nil {
				err = errBadBuf
			}
			return n, err
		}
	}
	return e.inner.Post(sends)
}

func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	for i, b := range bufs {
		if int64(b) >= int64(e.domain.visible) {
			return i, errBadBuf
		}
		if e.posted.Full() {
			return i, fabric.ErrAgain
		}
		e.posted.Push(b)
	}
	return len(bufs), nil
}

func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	now := e.time()
	e.release(now)
	n := e.deliver(out)
	for round := 0; n < len(out) && round < pollRounds; round++ {
		batch := e.batch[:min(len(out)-n, len(e.batch))]
		got, err := e.inner.Poll(batch)
		if err != nil && n == 0 {
			return 0, err // with n > 0 the next Poll returns the error
		}
		if got > 0 {
			now = e.time() // read again, because datagrams may have arrived since the first reading
		}
		for i := range batch[:got] {
			if batch[i].Op == fabric.OpRecv {
				e.outer--
				e.arrive(&batch[i], now)
				continue
			}
			out[n] = batch[i] // out has room, because the batch was no larger
			n++
		}
		n += e.deliver(out[n:])
		if got < len(batch) {
			break
		}
	}
	if err := e.refill(); err != nil && n == 0 {
		return 0, err
	}
	return n, nil
}

func (e *endpoint) time() mono.Time {
	if e.delayed == 0 && e.reorder == 0 {
		return 0
	}
	return e.domain.now()
}

func (e *endpoint) arrive(c *fabric.Completion, now mono.Time) {
	count := &e.domain.counters
	count.arrived.Add(1)
	if e.dice.hit(e.loss) {
		count.lost.Add(1)
		e.idle = append(e.idle, c.Buf)
		return
	}
	copies := 1
	if e.dice.hit(e.dup) {
		count.duplicated.Add(1)
		copies = 2
	}
	e.copies[int(c.Buf)-e.domain.visible] = uint8(copies)
	touched := copies > 1
	heldBefore, through := len(e.holds), false
	for range copies {
		a := arrival{
			from: c.From, buf: c.Buf, sizeBytes: c.Len, errno: c.Errno, flipBit: -1,
		}
		damaged := e.damage(&a)
		if len(e.holds) < holdMax && e.dice.hit(e.reorder) {
			e.holds = append(e.holds, hold{
				arrival:   a,
				until:     now.Add(holdTimeout),
				remaining: 1 + int(e.dice.below(overtakeMax)),
			})
			touched = true
			continue
		}
		through = true
		touched = e.enqueue(a, now) || damaged || touched
	}
	if !touched {
		count.passed.Add(1)
	}
	if through {
		e.overtake(heldBefore, now)
	}
}

// The method "damage" truncates and corrupts a copy of a datagram with the configured
// probabilities, and reports whether the copy was changed.
func (e *endpoint) damage(a *arrival) bool {
	count := &e.domain.counters
	damaged := false
	room := min(a.sizeBytes, uint32(e.domain.all.Size()))
	if room > 0 && e.dice.hit(e.truncate) {
		a.sizeBytes = e.dice.below(room)
		room = a.sizeBytes
		count.truncated.Add(1)
		damaged = true
	}
	if room > 0 && e.dice.hit(e.corrupt) {
		a.flipBit = int32(e.dice.below(room * 8))
		count.corrupted.Add(1)
		damaged = true
	}
	return damaged
}

// The method "enqueue" decides by chance whether a datagram is delayed, puts the datagram into the
// queue of delayed or of deliverable datagrams, and reports whether the datagram is delayed.
func (e *endpoint) enqueue(a arrival, now mono.Time) bool {
	if !e.dice.hit(e.delayed) {
		e.ready.Push(a)
		return false
	}
	e.domain.counters.delayed.Add(1)
	a.due = now.Add(e.domain.faults.Delay)
	e.line.Push(a)
	return true
}

func (e *endpoint) overtake(n int, now mono.Time) {
	left := 0
	for i := range e.holds {
		h := &e.holds[i]
		if i < n {
			h.remaining--
			h.overtaken = true
		}
		if h.remaining > 0 {
			e.holds[left] = *h
			left++
			continue
		}
		e.letGo(h, now)
	}
	e.holds = e.holds[:left]
}

func (e *endpoint) letGo(h *hold, now mono.Time) {
	if h.overtaken {
		e.domain.counters.reordered.Add(1)
	}
	e.enqueue(h.arrival, now)
}

// The method "release" moves the reordered and delayed datagrams that are due at the time "now" to
// the queue of deliverable datagrams.
func (e *endpoint) release(now mono.Time) {
	if len(e.holds) > 0 {
		left := 0
		for i := range e.holds {
			if h := &e.holds[i]; h.until > now {
				e.holds[left] = *h
				left++
			} else {
				e.letGo(h, now)
			}
		}
		e.holds = e.holds[:left]
	}
	for e.line.Len() > 0 && e.line.Front().due <= now {
		e.ready.Push(e.line.Pop())
	}
}

func (e *endpoint) deliver(out []fabric.Completion) int {
	arena := &e.domain.all
	n := 0
	for n < len(out) && e.ready.Len() > 0 && e.posted.Len() > 0 {
		a := e.ready.Pop()
		b := e.posted.Pop()
		room := arena.Bytes(b)
		copy(room, arena.Bytes(a.buf)[:min(int(a.sizeBytes), len(room))])
		if a.flipBit >= 0 {
			room[a.flipBit/8] ^= 1 << (a.flipBit % 8)
		}
		out[n] = fabric.Completion{
			From: a.from, Buf: b, Len: a.sizeBytes, Errno: a.errno, Op: fabric.OpRecv,
		}
		n++
		copies := &e.copies[int(a.buf)-e.domain.visible]
		if *copies--; *copies == 0 {
			e.idle = append(e.idle, a.buf)
		}
	}
	return n
}

func (e *endpoint) refill() error {
	want := min(len(e.idle), e.caps.RxDepth-e.outer)
	if want <= 0 {
		return nil
	}
	rest := len(e.idle) - want
	n, err := e.inner.Recv(e.idle[rest:])
	e.outer += n
	e.idle = e.idle[:rest+copy(e.idle[rest:], e.idle[rest+n:])]
	if errors.Is(err, fabric.ErrAgain) {
		return nil // refill tries again later
	}
	return err
}

// nextDue returns the earliest time at which a reordered or delayed datagram can be polled, or
// mono.Never if there is no such datagram.
func (e *endpoint) nextDue() mono.Time {
	if e.posted.Len() == 0 {
		return mono.Never // nothing can be polled before the caller posts a buffer
	}
	due := mono.Never
	for i := range e.holds {
		due = due.Min(e.holds[i].until)
	}
	if e.line.Len() > 0 {
		due = due.Min(e.line.Front().due)
	}
	return due
}

// Close closes the inner endpoint. Close drops the reordered and delayed datagrams that were not
// delivered. A second Close does nothing and returns nil.
func (e *endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	err := e.inner.Close()
	e.domain.forget(e)
	return err
}
