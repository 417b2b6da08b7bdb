package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/btl"
	"gobtl/pml"
)

// noticeAllRanks is the largest job in which who has news tells them to all. In larger ones it
// tells those that are a power of two away, either way, and they tell on: all hear of it as long as
// not all 2*log2(n) neighbours of a rank have died at once.
const noticeAllRanks = 64

// letter is a notice that waits for room.
type letter struct {
	to   int // rank in the world
	data []byte
}

// arrival is a notice that has come.
type arrival struct {
	from   *pml.Peer
	notice notice
}

// failures is what an engine knows of ranks that are gone, and of what was agreed on because of
// that. All of it is looked at between passes, never by handlers.
type failures struct {
	tag     btl.Tag
	news    bool // something below has to be looked at
	fresh   []*pml.Peer
	gone    []*pml.Peer
	inbox   []arrival
	outbox  []letter
	dead    map[int]error  // ranks of the world
	revoked recent         // communicators
	told    map[int]uint64 // how many of them a rank was told, by rank
	untold  bool           // somebody was not told all
	asked   []question
	onDeath func(why error)
	leaving bool // all ranks finalize: who ends in order is not missed
	comms   map[uint64]*Comm
	freed   []*Comm // that have had rounds, the oldest first
	rounds  map[roundKey]*round
	early   map[int][]notice    // votes in communicators that this rank has not, by who has sent them
	parts   map[int][]*assembly // of notices, by the rank that sends them
	perPart int                 // ranks in a part of a notice; 0: as many as there is room for
}

// handleNotices readies the engine for notices, which have a tag of the module of their own.
func (e *engine) handleNotices(layerTag btl.Tag) error {
	f := &e.failures
	f.tag = (layerTag + 1) % (btl.TagMax + 1)
	f.dead = make(map[int]error)
	f.comms, f.rounds = make(map[uint64]*Comm), make(map[roundKey]*round)
	return e.m.HandleUpTo(f.tag, noticeBytesMax, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		a := arrival{from: e.l.Peer(ep)}
		if !a.notice.read(data) {
			ep.Abort() // It is none of the peer's to send that.
			return
		}
		f.inbox, f.news = append(f.inbox, a), true
	})
}

// peerChanged takes note that a peer has connected, or ended.
func (e *engine) peerChanged(p *pml.Peer, err error) {
	f := &e.failures
	if f.news = true; err == nil {
		f.fresh = append(f.fresh, p)
		return
	}
	f.gone = append(f.gone, p)
	e.peerGone(p, err)
}

// lookAtNews does what has been put off until now, when no handler is called.
func (e *engine) lookAtNews() {
	f := &e.failures
	f.news = false
	for _, p := range f.fresh { // while it is known by its endpoint: later it is not
		_, _ = e.rankOf(p) // A stranger is none of the job, whatever it does.
	}
	clear(f.fresh)
	f.fresh = f.fresh[:0]
	// Who hears that it is excluded itself must not say anything of others any more.
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

// hear does what a notice says.
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

// bury takes note that a rank is dead: its endpoint ends, so do collective operations that need it,
// and the others are told.
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
// drops what the others have sent for them, so nobody waits for a rank that has given up.
func (c *Comm) lose(rank int, why error) {
	if _, ok := c.rankIn(rank); !ok || c.failed != nil {
		return
	}
	c.failed = c.e.gone(rank, why)
	c.e.l.Refuse(c.e.now(), c.context|1<<innerShift, c.failed)
	c.failAll()
}

// failAll ends the collective operations that only wait to be sent: a rank that is alive may have
// no such communicator yet, and will have none.
func (c *Comm) failAll() {
	for _, o := range slices.Clone(c.under) {
		o.Fail(c.failed)
	}
}

// register makes a communicator known to who hears of deaths and revocations. mu is held.
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

// Free forgets a communicator of which nothing is under way: no rank hears of it again. It need not
// be called, and is for this rank alone. What begins here later, a persistent request among it, has
// ErrFreed, or ErrRevoked if that came before.
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

// free is Free while mu is held. Of rounds that were decided another rank may still have to be
// told, if who leads them dies before it has told it: of some communicators they are kept.
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

// agreeing is a communicator that has rounds, nil if there is none here.
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

// Revoke ends all that goes on in a communicator, at all its ranks: what waits for a message, and
// whatever begins later, has ErrRevoked, but for Agree and Shrink. Messages that nobody has
// received are dropped. One rank that calls it is enough.
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

// tellRevoked tells on which communicators are revoked, as far as there is room. What waits for
// that is what is known of them in any case, so one rank that says so of many, and another that
// takes nothing, cost no more.
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

// end ends all that goes on in a communicator here.
func (c *Comm) end() {
	c.revoked, c.failed = ErrRevoked, ErrRevoked
	now := c.e.now()
	c.e.l.Refuse(now, c.context, ErrRevoked)
	c.e.l.Refuse(now, c.context|1<<innerShift, ErrRevoked)
	c.failAll()
}

// usable is why nothing can begin in a communicator, nil if it can.
func (c *Comm) usable() error {
	if c.e.broken != nil {
		return c.e.broken
	}
	return c.revoked
}

// Failed are the ranks of the communicator that this rank knows to be gone, in order. Others may
// know of more, or of fewer, yet: Shrink and Agree bring them together.
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

// spread tells all ranks something, or those who tell it on.
func (e *engine) spread(n *notice) {
	e.eachNeighbour(func(rank int) { e.tell(rank, n) })
}

// eachNeighbour calls fn for the ranks that this one tells what it hears.
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

// post sends what there is room for.
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

// meetAll is a barrier of the ranks that are left. It tells whether all are.
func (w *World) meetAll(ctx context.Context) (whole bool, err error) {
	d, err := w.round(ctx, ^uint64(0), false)
	return err == nil && len(d.dead) == 0, err
}
