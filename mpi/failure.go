package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/btl"
	"gobtl/pml"
)

// noticeAllRanks is the largest number of ranks for which a rank sends its news to all others. In
// larger jobs it sends them to the ranks that are a power of two away in either direction, and
// these forward them. All ranks hear the news unless all 2*log2(n) neighbours of a rank die at
// once.
const noticeAllRanks = 64

// letter is an outgoing notice that waits for room in the transport.
type letter struct {
	to   int // rank in the world
	data []byte
}

// arrival is a received notice.
type arrival struct {
	from   *pml.Peer
	notice notice
}

// failures is the state of an engine about dead ranks and about the agreements that follow. It is
// processed between passes, never by handlers.
type failures struct {
	tag     btl.Tag
	news    bool // something below must be processed
	fresh   []*pml.Peer
	gone    []*pml.Peer
	inbox   []arrival
	outbox  []letter
	dead    map[int]error  // ranks of the world
	revoked recent         // communicators
	told    map[int]uint64 // how many revocations a rank was told, by rank
	untold  bool           // some rank was not told all
	asked   []question
	onDeath func(why error)
	leaving bool // all ranks finalize: an orderly end is no failure
	comms   map[uint64]*Comm
	freed   []*Comm // freed communicators that had rounds, the oldest first
	rounds  map[roundKey]*round
	early   map[int][]notice    // votes in unknown communicators, by sender
	parts   map[int][]*assembly // incomplete notices, by sender
	perPart int                 // ranks in a part of a notice; 0: as many as there is room for
}

// handleNotices makes the engine receive notices, which have their own tag in the module.
func (e *engine) handleNotices(layerTag btl.Tag) error {
	f := &e.failures
	f.tag = (layerTag + 1) % (btl.TagMax + 1)
	f.dead = make(map[int]error)
	f.comms, f.rounds = make(map[uint64]*Comm), make(map[roundKey]*round)
	return e.m.HandleUpTo(f.tag, noticeBytesMax, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		a := arrival{from: e.l.Peer(ep)}
		if !a.notice.read(data) {
			ep.Abort() // A peer must not send such a notice.
			return
		}
		f.inbox, f.news = append(f.inbox, a), true
	})
}

// peerChanged records that a peer has connected or ended.
func (e *engine) peerChanged(p *pml.Peer, err error) {
	f := &e.failures
	if f.news = true; err == nil {
		f.fresh = append(f.fresh, p)
		return
	}
	f.gone = append(f.gone, p)
	e.peerGone(p, err)
}

// lookAtNews does the work that handlers have deferred. No handler runs now.
func (e *engine) lookAtNews() {
	f := &e.failures
	f.news = false
	for _, p := range f.fresh { // while its endpoint still identifies it
		_, _ = e.rankOf(p) // A stranger does not belong to the job, so its end has no effect.
	}
	clear(f.fresh)
	f.fresh = f.fresh[:0]
	// A rank that learns of its own exclusion must no longer send news of other ranks.
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
		if err == nil && f.dead[from] == nil && e.whole(from, &a.notice) {
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

// hear carries out a notice.
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

// bury records that a rank is dead. It ends the rank's endpoint and the collective operations that
// need the rank, and tells the other ranks.
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
	delete(f.parts, rank)
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

// lose ends the collective operations of a communicator that a dead rank belongs to. Each rank
// drops the messages of other ranks for these operations, so no rank waits for a rank that has
// given up.
func (c *Comm) lose(rank int, why error) {
	if _, ok := c.rankIn(rank); !ok || c.failed != nil {
		return
	}
	c.failed = c.e.gone(rank, why)
	c.e.l.Refuse(c.e.now(), c.context|1<<innerShift, c.failed)
	c.failAll()
}

// failAll ends the collective operations that only wait for their sends. A living rank may not have
// the communicator yet, and will never have it.
func (c *Comm) failAll() {
	for _, o := range slices.Clone(c.under) {
		o.Fail(c.failed)
	}
}

// register makes a communicator known, so that deaths and revocations apply to it. mu is held.
func (c *Comm) register() {
	f := &c.e.failures
	f.comms[c.context] = c
	for rank, why := range f.dead {
		c.lose(rank, why)
	}
	for _, q := range f.asked {
		c.lose(q.rank, q.why)
	}
	if f.revoked.has(c.context) {
		c.end()
	}
	c.e.hearEarly(c)
}

// Free releases a communicator in which nothing is under way. This rank sends no more messages
// about it. Calling Free is optional, and affects this rank alone. Operations that begin here
// later, including persistent requests, return ErrFreed, or ErrRevoked if the communicator was
// revoked before.
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

// free is Free with mu held. Another rank may still have to be told the decision of a round, if the
// round's leader dies before it has told it. The decided rounds of the latest freed communicators
// are therefore kept.
func (c *Comm) free() {
	f := &c.e.failures
	delete(f.comms, c.context)
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

// forget forgets the rounds of a communicator.
func (f *failures) forget(c *Comm) {
	for key := range f.rounds {
		if key.context == c.context {
			delete(f.rounds, key)
		}
	}
}

// agreeing returns the communicator of a round, or nil if this rank does not have it.
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

// Revoke ends all operations in a communicator, at all its ranks. Operations that wait for a
// message, and all operations that begin later, fail with ErrRevoked, except Agree and Shrink.
// Unreceived messages are dropped. It is enough that one rank calls it.
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

// revoke revokes a communicator, which this rank may not have yet.
func (e *engine) revoke(context uint64) {
	f := &e.failures
	if !f.revoked.add(context) {
		return
	}
	if c := f.comms[context]; c != nil {
		c.end()
	}
	f.untold, f.news = true, true
}

// tellRevoked forwards the revocations to other ranks, as far as there is room. Pending revocations
// are kept in the list of revoked communicators, not in queues. So a rank that revokes very many
// communicators, or a rank that receives nothing, costs no more memory.
func (e *engine) tellRevoked() {
	f := &e.failures
	if f.untold = false; f.told == nil {
		f.told = make(map[int]uint64)
	}
	e.eachNeighbour(func(rank int) {
		if f.dead[rank] != nil {
			return
		}
		next := max(f.told[rank], f.revoked.oldest())
		for ; next < f.revoked.added; next++ {
			n := notice{kind: noticeRevoke, context: f.revoked.at(next)}
			if !e.postOne(letter{rank, n.bytes()}) {
				f.untold = true
				break
			}
		}
		f.told[rank] = next
	})
	f.news = f.news || f.untold
}

// end ends all operations of this rank in a communicator.
func (c *Comm) end() {
	c.revoked, c.failed = ErrRevoked, ErrRevoked
	now := c.e.now()
	c.e.l.Refuse(now, c.context, ErrRevoked)
	c.e.l.Refuse(now, c.context|1<<innerShift, ErrRevoked)
	c.failAll()
}

// usable returns the reason why no operation can begin in a communicator, or nil if one can.
func (c *Comm) usable() error {
	if c.e.broken != nil {
		return c.e.broken
	}
	return c.revoked
}

// Failed returns the ranks of the communicator that this rank knows to be dead, in order. Other
// ranks may know more or fewer dead ranks at the same time. Shrink and Agree make all ranks agree.
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

// spread sends a notice to all ranks, or to the neighbours that forward it.
func (e *engine) spread(n *notice) {
	e.eachNeighbour(func(rank int) { e.tell(rank, n) })
}

// eachNeighbour calls fn for the ranks to which this rank sends and forwards notices.
func (e *engine) eachNeighbour(fn func(rank int)) {
	size := len(e.names)
	if size <= noticeAllRanks {
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

// tell puts a notice for a rank into the outbox.
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

// post sends as many notices from the outbox as there is room for.
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

// postOne sends a notice. It reports false if there is no room now. To a rank that has ended
// nothing needs to be said.
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
		_ = p.Endpoint().Free(f) // It is the caller's still, and the end is told by its event.
	}
	return true
}

// meetAll is a barrier of the surviving ranks. It reports whether all ranks survive.
func (w *World) meetAll(ctx context.Context) (whole bool, err error) {
	d, err := w.round(ctx, ^uint64(0), false)
	return err == nil && len(d.dead) == 0, err
}
