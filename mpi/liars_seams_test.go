package mpi

import (
	"context"
	"slices"

	"gobtl/pml"
)

// AskForLock sends so many requests for the shared lock of a rank, as no honest rank does, and does
// not wait for them; GiveLock sends one Unlock.
func (w *Window[T]) AskForLock(ctx context.Context, rank, times int) error {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	for range times {
		_, err := w.w.begin(ctx, rank, windowHead{kind: windowLock}, nil, []byte{}, false)
		if err != nil {
			return err
		}
	}
	return w.w.ask(ctx, rank, windowHead{kind: windowFlush}, nil, nil)
}

// GiveLock sends an Unlock and waits for its answer.
func (w *Window[T]) GiveLock(ctx context.Context, rank int) error {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return w.w.ask(ctx, rank, windowHead{kind: windowUnlock}, nil, nil)
}

// LocksWaiting is how many requests for this rank's lock wait.
func (w *Window[T]) LocksWaiting() int {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return len(w.w.server.waiting)
}

// notices sends so many notices to a rank, and returns when they are there.
func (w *World) notices(ctx context.Context, to, times int, of func(i int) notice) error {
	e := w.e
	e.lock()
	defer e.unlock()
	for i := range times {
		n := of(i)
		letter := letter{to: to, data: n.bytes()}
		if err := e.until(ctx, func() bool {
			if letter.data != nil && e.postOne(letter) {
				letter.data = nil
			}
			return letter.data == nil
		}); err != nil {
			return err
		}
	}
	_, err := e.flushTo(ctx, []int{to})
	return err
}

// Vote sends so many votes of rounds of communicators that nobody has, each with so many dead.
func (w *World) Vote(ctx context.Context, to, times, dead int) error {
	ranks := make([]int, dead)
	return w.notices(ctx, to, times, func(i int) notice {
		return notice{kind: noticeVote, context: 1<<62 + uint64(i)<<countShift, dead: ranks}
	})
}

// VoteAgain sends so many votes of a round of a communicator.
func (c *Comm) VoteAgain(ctx context.Context, w *World, to, times, round int) error {
	return w.notices(ctx, to, times, func(int) notice {
		return notice{kind: noticeVote, context: c.context, round: uint32(round), flags: 1}
	})
}

// VoteDead sends a vote of a round of a communicator, with a list of dead ranks.
func (c *Comm) VoteDead(ctx context.Context, w *World, to, round int, dead []int) error {
	return w.notices(ctx, to, 1, func(int) notice {
		return notice{
			kind: noticeVote, context: c.context, round: uint32(round), flags: ^uint64(0), dead: dead,
		}
	})
}

// Decide sends a decision of the first round of the next communicator that this rank makes.
func (w *World) Decide(ctx context.Context, maker, to int) error {
	return w.notices(ctx, to, 1, func(int) notice {
		next := uint64(maker)<<makerShift | (w.e.contexts.made+1)<<countShift
		return notice{kind: noticeDecision, context: next, flags: 1 << 40}
	})
}

// RevokeAt tells a rank that so many communicators are revoked, which nobody has.
func (w *World) RevokeAt(ctx context.Context, to, times int) error {
	return w.notices(ctx, to, times, func(i int) notice {
		return notice{kind: noticeRevoke, context: 1<<63 + uint64(i)<<countShift}
	})
}

// Letters is how many notices wait for room.
func (w *World) Letters() int {
	w.e.lock()
	defer w.e.unlock()
	return len(w.e.failures.outbox)
}

// AskAndLeave sends so many requests for a value of a rank, each of so many bytes, and receives no
// answer. It returns when they have left.
func (w *Window[T]) AskAndLeave(ctx context.Context, rank, times, bytes int) error {
	e := w.w.c.e
	e.lock()
	defer e.unlock()
	p, err := e.peer(w.w.c.ranks[rank])
	if err != nil {
		return err
	}
	requests := make([]pml.Request, times)
	for i := range requests {
		head := windowHead{kind: windowFetch, op: opKeep, answer: uint32(windowAnswerTag + 1 + i)}
		b := make([]byte, windowHeadBytes+bytes)
		head.put(b)
		if err := e.l.Send(e.now(), &requests[i], p, w.w.c.context, b, pml.Standard); err != nil {
			return err
		}
	}
	return e.until(ctx, func() bool {
		return !slices.ContainsFunc(requests, func(r pml.Request) bool { return !r.Done() })
	})
}

// AnnounceAndLeave announces so many requests, and gives none of them: it stands still until
// release is closed.
func (w *Window[T]) AnnounceAndLeave(rank, times, bytes int, held func(), release <-chan struct{},
) error {
	e := w.w.c.e
	e.lock()
	defer e.unlock()
	p, err := e.peer(w.w.c.ranks[rank])
	if err != nil {
		return err
	}
	for range times {
		b := make([]byte, windowHeadBytes+bytes)
		if err := e.l.Send(e.now(), new(pml.Request), p, w.w.c.context, b, pml.Standard); err != nil {
			return err
		}
	}
	e.pass()
	held()
	<-release
	return nil
}

// AccumulateAndHold begins an Accumulate of many values, which is announced, and then so many of
// one value. It stands still until release is closed.
func (w *Window[T]) AccumulateAndHold(ctx context.Context, rank int, many []T, times int, op Op[T],
	held func(), release <-chan struct{},
) error {
	e := w.w.c.e
	e.lock()
	defer e.unlock()
	b, _ := bytesOf(many)
	h := windowHead{op: op.code}
	_, err := w.w.begin(ctx, rank, h, b, nil, false)
	for i := 0; i < times && err == nil; i++ {
		_, err = w.w.begin(ctx, rank, h, b[:w.w.size], nil, false)
	}
	w.w.targets[rank].begun += times + 1
	if err == nil {
		e.pass()
	}
	held()
	<-release
	return err
}

// Waiting is how many requests of a rank wait here, and how many of them have a receive buffer.
func (w *Window[T]) Waiting(rank int) (requests, buffers int) {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	from := w.w.server.senders[rank]
	for r := from.first; r != nil; r = r.next {
		requests++
	}
	return requests, from.landing
}

// SendInto sends a rank a message of a communicator that this rank need not belong to: the one that
// a rank has made first, or the next ones.
func (w *World) SendInto(rank, maker, number, tag int, data []byte) error {
	e := w.e
	e.lock()
	defer e.unlock()
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	context := uint64(maker)<<makerShift | uint64(number)<<countShift
	return e.l.Send(e.now(), new(pml.Request), p, context|uint64(tag), data, pml.Standard)
}

// FragmentBytesMax is the module's.
func (w *World) FragmentBytesMax() int { return w.e.m.Limits().FragmentBytesMax }
