package mpi

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/pml"
)

// Kill has a rank of a test vanish as a process does that is killed: without a word.
func (w *World) Kill() {
	e := w.e
	e.helper.stop(e.m.Wake)
	e.lock()
	e.broken = ErrFinalized
	e.unlock()
}

// Unflushed is how many Accumulates of this process a rank may not have carried out.
func (w *Window[T]) Unflushed(rank int) int {
	w.w.c.e.lock()
	defer w.w.c.e.unlock()
	return w.w.targets[rank].begun - w.w.targets[rank].flushed
}

// LayerStats are the counters of a process's layer.
func (w *World) LayerStats() pml.Stats {
	w.e.lock()
	defer w.e.unlock()
	return w.e.l.Stats()
}

// Hold has a rank of a test stand still, as a process does that is stopped, until release is
// closed.
func (w *World) Hold(release <-chan struct{}) {
	w.e.lock()
	defer w.e.unlock()
	<-release
}

// DriveBriefly makes some passes, as a call does that waits, and says whether the helper slept on
// the fabric before, and whether it still does and was not told to end that.
func (w *World) DriveBriefly() (before, after bool) {
	e := w.e
	e.lock()
	defer e.unlock()
	before = e.asleep && !e.roused
	over, cancel := context.WithCancel(context.Background())
	cancel()
	e.driving = true
	e.drive(over, e.waiters.get(1))
	e.driving = false
	return before, e.asleep && !e.roused
}

// ModuleName is the address of a rank's module.
func (w *World) ModuleName(rank int) []byte { return w.e.names[rank] }

// AnnounceAndHold announces Accumulates of data to a rank; then this one stands still, before
// it can put them; it says so to held.
func (w *Window[T]) AnnounceAndHold(ctx context.Context, data []T, to, count int, op Op[T],
	held *sync.WaitGroup, release <-chan struct{},
) error {
	e := w.w.c.e
	b, _ := bytesOf(data)
	e.lock()
	defer e.unlock()
	w.w.targets[to].begun += count
	for range count {
		if _, err := w.w.begin(ctx, to, windowHead{op: op.code}, b, nil, false); err != nil {
			return err
		}
	}
	e.pass()
	held.Done()
	<-release
	return nil
}

// Communicators is how many are known to this process.
func (w *World) Communicators() int {
	w.e.lock()
	defer w.e.unlock()
	return len(w.e.failures.comms)
}

// Outside is an outside driver of an engine, such as a simulator, in place of its calls.
type Outside struct {
	Clock func() mono.Time
	// Turns has passes made until over.
	Turns func(over func() bool)
}

// OpenOver is Open over a module whose passes the caller has made by Pass.
func OpenOver(ctx context.Context, job Job, m *btl.Module, cfg Config, by Outside) (*World, error) {
	cfg = cfg.withDefaults()
	e := &engine{
		m: m, rank: job.Rank(), contexts: contextMaker{rank: job.Rank()},
		clock: by.Clock, turns: by.Turns,
	} // There is no helper.
	if err := makeLayer(e, cfg.Layer); err != nil {
		return nil, err
	}
	return join(ctx, job, cfg, e, 0)
}

// Pass makes a pass. No other call makes one at the same time.
func (w *World) Pass(now mono.Time) (int, error) {
	w.e.lock()
	defer w.e.unlock()
	return w.e.passAt(now), w.e.broken
}

// Rounds tells of the communicators and the rounds that a rank knows: for failures.
func (w *World) Rounds() string {
	f, text := &w.e.failures, ""
	for context, c := range f.comms {
		text += fmt.Sprintf(" comm %x of %v, %d rounds, %v;", context, c.ranks, c.rounds, c.failed)
	}
	for key, r := range f.rounds {
		text += fmt.Sprintf(" round %x %d: joined %v, decided %v, leader %d, %d votes;", key.context,
			key.number, r.joined, r.decided, r.leader, len(r.votes))
	}
	return text
}

// Deadline is when the next pass must be made.
func (w *World) Deadline() mono.Time { return w.e.l.Deadline() }

// LabelOf is what the module of a rank must be called.
func LabelOf(rank int) string { return labelPrefix + strconv.Itoa(rank) }

// RevokeOthers has so many communicators be revoked that this rank does not have.
func (w *World) RevokeOthers(count int) {
	w.e.lock()
	defer w.e.unlock()
	for i := range count {
		w.e.revoke(1<<63 + uint64(i)<<countShift)
	}
}

// RevokedMax is how many communicators are known to be revoked, at the most.
const RevokedMax = revokedMax

// Revoked is how many are.
func (w *World) Revoked() int {
	w.e.lock()
	defer w.e.unlock()
	return w.e.failures.revoked.Len()
}

// ForwardAbove has a rank of a test send its control messages only to neighbours, which forward
// them, in a job of more than so many ranks.
func (w *World) ForwardAbove(ranks int) {
	w.e.lock()
	defer w.e.unlock()
	w.e.failures.tellAll = ranks
}

// SplitNotices has notices of more ranks than that go in parts.
func (w *World) SplitNotices(ranks int) {
	w.e.lock()
	defer w.e.unlock()
	w.e.failures.perPart = ranks
}

// Assemblies is how many notices have come in part.
func (w *World) Assemblies() int {
	w.e.lock()
	defer w.e.unlock()
	return len(w.e.failures.parts.from)
}

// DecideFor has rank 0 of a communicator, which leads, wait for the votes of the others in its next
// round, and send a decision to one of them alone.
func (c *Comm) DecideFor(ctx context.Context, rank int, flags uint64) error {
	e := c.e
	e.lock()
	defer e.unlock()
	key := roundKey{c.context, c.rounds}
	err := e.until(ctx, func() bool {
		r := e.failures.rounds[key]
		return r != nil && len(r.votes) == len(c.ranks)-1
	})
	if err == nil {
		e.tell(c.ranks[rank], &notice{
			kind: noticeDecision, context: c.context, round: key.number, flags: flags,
		})
		e.post()
		_, err = e.flushTo(ctx, c.ranks)
	}
	return err
}

// LoneAcks is how many ACKs this process has sent by themselves.
func (w *World) LoneAcks() uint64 {
	w.e.lock()
	defer w.e.unlock()
	s := w.e.m.Stats()
	return s.Get(btl.CntSentAck)
}

// SleepMost is how long a call sleeps that nothing wakes.
const SleepMost = sleepMost

// LongNotice sends a rank what is no notice, and returns how that ended.
func (w *World) LongNotice(ctx context.Context, to, sizeBytes int) (ended, err error) {
	e := w.e
	e.lock()
	defer e.unlock()
	p, err := e.peer(to)
	if err != nil {
		return nil, err
	}
	f, err := p.Endpoint().Alloc(e.failures.tag, sizeBytes)
	if err != nil {
		return nil, err
	}
	wait := e.waiters.get(1)
	f.Signal, f.OnDone = true, func(_ *btl.Fragment, why error) { ended, wait.left = why, 0 }
	if _, err := p.Endpoint().Send(e.now(), f); err != nil {
		return nil, err
	}
	err = e.wait(ctx, wait)
	return ended, err
}

// Repeat makes this rank give its next communicators the contexts that it has given before.
func (w *World) Repeat() {
	w.e.lock()
	defer w.e.unlock()
	w.e.contexts.made = 0
}

// Met reports whether this rank has a connection to another rank.
func (w *World) Met(rank int) bool {
	w.e.lock()
	defer w.e.unlock()
	return w.e.peers[rank] != nil
}

// OpenWindow is NewWindow that calls a function after Dup, and then has a context of its own.
func OpenWindow[T any](ctx context.Context, c *Comm, mem []T,
	after func() (context.Context, error),
) (*Window[T], error) {
	own, err := c.Dup(ctx)
	if err != nil {
		return nil, err
	}
	w := &Window[T]{mem: mem}
	w.w = window{c: own, size: sizeOf[T](), folds: foldsOf(reflect.TypeFor[T]().Kind())}
	if w.w.mem, err = bytesOf(mem); err != nil {
		return nil, err
	}
	if ctx, err = after(); err != nil {
		return nil, err
	}
	return w, w.w.open(ctx)
}
