package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/btl"
	"gobtl/internal/recent"
	"gobtl/pml"
)

// In a job of at most noticeAllRanks ranks, a rank sends its control messages about failures to all
// other ranks of the job. In a job of more than noticeAllRanks ranks, a rank sends its control
// messages to those ranks whose numbers differ from its own by a power of two, and the receivers
// forward the messages. In a job of n ranks, each rank has about 2*log2(n) receivers of its control
// messages. A control message reaches all living ranks, unless all receivers of one rank's control
// messages die at the same time.
const noticeAllRanks = 64

// A letter is an outgoing control message that waits until the transport can send it.
type letter struct {
	to   int // rank in the world
	data []byte
}

// An arrival is a control message that was received.
type arrival struct {
	from   *pml.Peer
	notice notice
}

// The type "failures" is the state of an engine for dead ranks and agreement rounds. Message
// handlers store events in a value of the type "failures", and the events are handled later,
// between polls of the transport.
type failures struct {
	tag     btl.Tag
	news    bool // the fields below have work to process
	fresh   []*pml.Peer
	gone    []*pml.Peer
	inbox   []arrival
	outbox  []letter
	dead    map[int]error  // ranks of the world
	revoked recent.Set     // communicators
	told    map[int]uint64 // number of revocations sent to each rank
	untold  bool           // some rank lacks a revocation
	asked   []question
	onDeath func(why error)
	leaving bool // all ranks finalize: an orderly end is no failure
	comms   map[uint64]*Comm
	freed   []*Comm // freed communicators with agreement rounds, the oldest first
	rounds  map[roundKey]*round
	early   map[int]*earlyVotes // votes in unknown communicators, by sender
	parts   reassembly
	perPart int // limit of dead ranks in one part of a notice; 0: all that fit
	tellAll int // replaces noticeAllRanks; 0: noticeAllRanks applies
}

// handleNotices registers the engine's handler for control messages, which have their own
// active-message tag in the module.
func (e *engine) handleNotices(layerTag btl.Tag) error {
	f := &e.failures
	f.tag = (layerTag + 1) % (btl.TagMax + 1)
	f.dead = make(map[int]error)
	f.comms, f.rounds = make(map[uint64]*Comm), make(map[roundKey]*round)
	e.used = make(contextUse)
	return e.m.HandleUpTo(f.tag, noticeBytesMax, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		a := arrival{from: e.l.Peer(ep)}
		if !a.notice.read(data) {
			ep.Abort() // No rank of this library sends such a message.
			return
		}
		f.inbox, f.news = append(f.inbox, a), true
	})
}

func (e *engine) peerChanged(p *pml.Peer, err error) {
	f := &e.failures
	if f.news = true; err == nil {
		f.fresh = append(f.fresh, p)
		return
	}
	f.gone = append(f.gone, p)
	e.peerGone(p, err)
}

// lookAtNews handles the events that message handlers have stored. During lookAtNews, no message
// handler runs.
func (e *engine) lookAtNews() {
	f := &e.failures
	f.news = false
	for _, p := range f.fresh { // while the endpoint still identifies the peer
		_, _ = e.rankOf(p) // The end of an endpoint without rank has no effect on the job.
	}
	clear(f.fresh)
	f.fresh = f.fresh[:0]
	// If the other ranks have excluded this rank, this rank must no longer send control messages about
	// dead ranks.
	gone := f.gone
	f.gone = nil
	for _, p := range gone {
		if m, ok := p.Context.(*member); ok && f.dead[m.rank] == nil && saysExcluded(p.Err()) {
			e.memberGone(p, m)
		}
	}
	inbox := f.inbox
	f.inbox = nil
	if e.broken != nil {
		return
	}
	for _, a := range inbox {
		from, err := e.rankOf(a.from)
		if err == nil && f.dead[from] == nil && f.parts.whole(from, &a.notice, len(e.names)) {
			e.hear(from, &a.notice)
		}
	}
	for _, p := range gone {
		if m, ok := p.Context.(*member); ok {
			e.memberGone(p, m)
		}
	}
	if len(f.asked) > 0 {
		e.lookAtAnswers()
	}
	e.post()
}

// The method "hear" handles a control message that this rank has received.
func (e *engine) hear(from int, n *notice) {
	switch n.kind {
	case noticeDead:
		for _, rank := range n.dead {
			if rank < len(e.names) {
				e.bury(rank, fmt.Errorf("%w: rank %d says so", pml.ErrPeer, from))
			}
		}
	case noticeRevoke:
		e.revoke(n.context)
	case noticeVote, noticeDecision:
		e.hearRound(from, n)
	}
}

// The method "bury" records that a rank is dead, and aborts the endpoint to the dead rank. The
// method "bury" makes the collective operations that need the dead rank fail, and informs the other
// ranks of the death.
func (e *engine) bury(rank int, why error) {
	f := &e.failures
	if f.dead[rank] != nil {
		return
	}
	if rank == e.rank {
		e.exclude()
		return
	}
	f.dead[rank] = why
	f.parts.drop(rank)
	delete(f.early, rank)
	if f.onDeath != nil {
		f.onDeath(e.gone(rank, why))
	}
	if p := e.peers[rank]; p != nil && p.Err() == nil {
		p.Endpoint().Abort()
	}
	for _, c := range f.comms {
		c.lose(rank, why)
	}
	e.spread(&notice{kind: noticeDead, dead: []int{rank}})
	for key, r := range f.rounds {
		e.advance(key, r)
	}
	f.news = true
}

// The method "lose" makes the collective operations of a communicator to which a dead rank belongs
// fail with a RankError. Each rank drops the messages that arrive for the ended operations, so that
// no sender waits for a rank that has already ended the operation.
func (c *Comm) lose(rank int, why error) {
	if _, ok := c.rankIn(rank); !ok || c.failed != nil {
		return
	}
	c.failed = c.e.gone(rank, why)
	c.e.l.Refuse(c.e.now(), c.context|1<<innerShift, c.failed)
	c.failAll()
}

// failAll makes all collective operations that are in progress in the communicator fail with the
// error c.failed.
func (c *Comm) failAll() {
	for _, o := range slices.Clone(c.under) {
		o.Fail(c.failed)
	}
}

// The method "register" adds a communicator to the list of communicators that are examined when a
// rank dies or a communicator is revoked. The caller must hold mu.
func (c *Comm) register() {
	f := &c.e.failures
	f.comms[c.context] = c
	for rank, why := range f.dead {
		c.lose(rank, why)
	}
	for _, q := range f.asked {
		c.lose(q.rank, q.why)
	}
	if f.revoked.Has(c.context) {
		c.end()
	}
	c.e.hearEarly(c)
}

// Free releases a communicator that has no operation in progress. Calling Free is optional, and
// affects only this rank. Free drops the communicator's messages that this rank has not received,
// so that they do not count towards the limits on unexpected messages any more. This rank also
// drops messages of the communicator that arrive later, unless a receive matches that was begun
// before Free. After Free this rank sends no control messages about the communicator.
// When this rank calls an operation of the communicator after Free, including the Start of
// persistent requests, the operation returns ErrFreed. If the communicator was revoked before Free,
// the operation returns ErrRevoked instead of ErrFreed.
func (c *Comm) Free() {
	c.e.lock()
	defer c.e.unlock()
	c.free()
	if c.revoked == nil {
		c.revoked = ErrFreed
	}
	if c.failed == nil {
		c.failed = ErrFreed
	}
}

// The method "free" works like Free, for a caller that holds mu. The engine does not delete the
// decided agreement rounds of the communicators that were freed most recently, because this rank
// might have to send a decision to a rank that has not received it.
func (c *Comm) free() {
	f := &c.e.failures
	delete(f.comms, c.context)
	if c.e.broken == nil {
		c.dropUnreceived()
	}
	if !slices.Contains(f.freed, c) && c.rounds > 0 {
		f.freed = append(f.freed, c)
	}
	if c.rounds == 0 {
		f.forget(c)
	}
	if len(f.freed) > freedMax {
		f.forget(f.freed[0])
		f.freed = slices.Delete(f.freed, 0, 1)
	}
}

// dropUnreceived drops the messages of the communicator that no receive has matched, now and later.
// If collective operations of the communicator are in progress, the messages of collective
// operations are not dropped.
func (c *Comm) dropUnreceived() {
	now := c.e.now()
	c.e.l.Refuse(now, c.context, nil)
	if len(c.under) == 0 {
		c.e.l.Refuse(now, c.context|1<<innerShift, nil)
	}
}

// The method "forget" deletes the agreement rounds of a communicator.
func (f *failures) forget(c *Comm) {
	for key := range f.rounds {
		if key.context == c.context {
			delete(f.rounds, key)
		}
	}
}

// The method "agreeing" returns the communicator with the given context. If this rank has not
// created the communicator, or has deleted the communicator's agreement rounds, the method
// "agreeing" returns nil.
func (f *failures) agreeing(context uint64) *Comm {
	if c := f.comms[context]; c != nil {
		return c
	}
	for _, c := range f.freed {
		if c.context == context {
			return c
		}
	}
	return nil
}

// Revoke makes all operations in a communicator fail with ErrRevoked, at all ranks of the
// communicator. Operations in the communicator that are in progress or are called later fail with
// ErrRevoked. Agree and Shrink continue to work after Revoke. Revoke drops the messages of the
// communicator that were sent but not yet received. One rank's call of Revoke suffices to revoke
// the communicator at all ranks.
func (c *Comm) Revoke() error {
	e := c.e
	e.lock()
	defer e.unlock()
	if e.broken != nil {
		return e.broken
	}
	e.revoke(c.context)
	e.post()
	return nil
}

// The method "revoke" revokes a communicator, even if this rank has not created the communicator
// yet.
func (e *engine) revoke(context uint64) {
	f := &e.failures
	if !f.revoked.Add(context, revokedMax) {
		return
	}
	if c := f.comms[context]; c != nil {
		c.end()
	}
	f.untold, f.news = true, true
}

// tellRevoked forwards all known revocations to the neighbouring ranks (see eachNeighbour). If the
// transport accepts no more messages for now, a later call of tellRevoked forwards the remaining
// revocations.
func (e *engine) tellRevoked() {
	f := &e.failures
	if f.untold = false; f.told == nil {
		f.told = make(map[int]uint64)
	}
	e.eachNeighbour(func(rank int) {
		if f.dead[rank] != nil {
			return
		}
		next := max(f.told[rank], f.revoked.Oldest())
		for ; next < f.revoked.Added(); next++ {
			n := notice{kind: noticeRevoke, context: f.revoked.At(next)}
			if !e.postOne(letter{rank, n.bytes()}) {
				f.untold = true
				break
			}
		}
		f.told[rank] = next
	})
	f.news = f.news || f.untold
}

// The method "end" makes all operations of this rank in the communicator c fail with ErrRevoked.
func (c *Comm) end() {
	c.revoked, c.failed = ErrRevoked, ErrRevoked
	now := c.e.now()
	c.e.l.Refuse(now, c.context, ErrRevoked)
	c.e.l.Refuse(now, c.context|1<<innerShift, ErrRevoked)
	c.failAll()
}

// The method "usable" returns the reason why no operation can begin in a communicator, or nil if
// operations can begin.
func (c *Comm) usable() error {
	if c.e.broken != nil {
		return c.e.broken
	}
	return c.revoked
}

// Failed returns the ranks of the communicator that this rank knows to be dead, in ascending order.
// The results of Failed at two ranks can differ for some time. In Shrink and Agree, however, all
// surviving ranks agree on the same set of dead ranks.
func (c *Comm) Failed() []int {
	c.e.lock()
	defer c.e.unlock()
	var ranks []int
	for rank, world := range c.ranks {
		if c.e.failures.lost(world) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// The method "spread" sends a control message to all other ranks of the job if there are at most
// noticeAllRanks ranks, and otherwise only to those ranks that forward the message.
func (e *engine) spread(n *notice) {
	e.eachNeighbour(func(rank int) { e.tell(rank, n) })
}

// eachNeighbour calls the function fn for each rank to which this rank sends its control messages
// about failures.
func (e *engine) eachNeighbour(fn func(rank int)) {
	size := len(e.names)
	if size <= cmp.Or(e.failures.tellAll, noticeAllRanks) {
		for rank := range size {
			if rank != e.rank {
				fn(rank)
			}
		}
		return
	}
	for d := 1; d < size; d *= 2 {
		fn((e.rank + d) % size)
		fn((e.rank - d + size) % size)
	}
}

// The method "tell" adds a control message for a rank to the queue of outgoing control messages. A
// control message with a list of dead ranks that is too long for one packet is split into parts.
func (e *engine) tell(rank int, n *notice) {
	f := &e.failures
	if rank == e.rank || f.dead[rank] != nil {
		return
	}
	most := e.noticeRanksMax()
	for one, rest := *n, n.dead; ; one.part++ {
		one.dead = rest[:min(most, len(rest))]
		rest = rest[len(one.dead):]
		one.more = len(rest) > 0
		f.outbox, f.news = append(f.outbox, letter{rank, one.bytes()}), true
		if !one.more {
			return
		}
	}
}

// The method "post" sends the control messages in the queue of outgoing control messages, except
// those that the transport cannot accept for now.
func (e *engine) post() {
	f := &e.failures
	if e.broken != nil {
		return
	}
	left := f.outbox[:0]
	for _, letter := range f.outbox {
		if f.dead[letter.to] == nil && !e.postOne(letter) {
			left = append(left, letter)
		}
	}
	clear(f.outbox[len(left):])
	f.outbox = left
	if f.untold {
		e.tellRevoked()
	}
	f.news = f.news || len(left) > 0
}

// postOne sends a control message. If the transport cannot accept the control message for now,
// postOne returns false, and otherwise true. A control message to a rank that has ended is dropped,
// and postOne returns true.
func (e *engine) postOne(letter letter) bool {
	p, err := e.peer(letter.to)
	if err != nil {
		return !errors.Is(err, btl.ErrAgain)
	}
	f, err := p.Endpoint().Alloc(e.failures.tag, len(letter.data))
	if err != nil {
		return !errors.Is(err, btl.ErrAgain)
	}
	copy(f.Bytes(), letter.data)
	if _, err := p.Endpoint().Send(e.now(), f); err != nil {
		_ = p.Endpoint().Free(f) // The caller still owns f. An event reports the peer's end.
	}
	return true
}

// meetAll waits until all surviving ranks have called meetAll. The result "whole" of meetAll is
// true if no rank of the job is dead, and otherwise false.
func (w *World) meetAll(ctx context.Context) (whole bool, err error) {
	d, err := w.round(ctx, ^uint64(0), false)
	return err == nil && len(d.dead) == 0, err
}
