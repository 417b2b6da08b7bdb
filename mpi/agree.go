package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
)

const (
	// earlyMax bounds the votes of one rank in communicators that this rank does not have yet: the
	// last ones. There are some where it has left the round that has made a communicator sooner.
	earlyMax = 1024
	// revokedMax bounds the communicators that are known to be revoked: the last ones. What is said of
	// one comes from all ranks at about the same time, and is told on once.
	revokedMax = 1 << 16
	// freedMax bounds the communicators that were freed, and whose last rounds are still known.
	freedMax = 64
)

// noticeKind is what a notice says.
type noticeKind uint8

const (
	noticeDead     noticeKind = iota + 1 // ranks are gone
	noticeRevoke                         // a communicator is revoked
	noticeVote                           // of a rank, to who leads the round
	noticeDecision                       // of a round
)

// noticeHeadBytes is the size of a notice without the ranks.
const noticeHeadBytes = 32

// notice is what ranks tell each other beside the matching: little-endian
//
//	0   1   kind
//	1   1   1: there are parts behind this one
//	2   2   part, counted from 0
//	4   4   round, counted from 0 in each communicator
//	8   8   context of the communicator
//	16  8   flags
//	24  8   context of a communicator that was made
//	32  4   of each rank that is gone, in the world
//
// One with more ranks that are gone than a message takes goes in parts, whose ranks are those of
// all together; the parts come in any order.
type notice struct {
	kind    noticeKind
	more    bool
	part    uint16
	round   uint32
	context uint64
	flags   uint64
	made    uint64
	dead    []int
}

// bytes is the notice as it is sent.
func (n *notice) bytes() []byte {
	b := make([]byte, 2, noticeHeadBytes+4*len(n.dead))
	if b[0] = byte(n.kind); n.more {
		b[1] = 1
	}
	b = binary.LittleEndian.AppendUint16(b, n.part)
	b = binary.LittleEndian.AppendUint32(b, n.round)
	for _, v := range [...]uint64{n.context, n.flags, n.made} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, rank := range n.dead {
		b = binary.LittleEndian.AppendUint32(b, uint32(rank))
	}
	return b
}

// read reads a notice; only what bytes makes is one.
func (n *notice) read(b []byte) bool {
	if len(b) < noticeHeadBytes || len(b)%4 != 0 || b[1] > 1 ||
		b[0] < byte(noticeDead) || b[0] > byte(noticeDecision) {
		return false
	}
	le := binary.LittleEndian
	*n = notice{
		kind: noticeKind(b[0]), more: b[1] == 1, part: le.Uint16(b[2:]),
		round: le.Uint32(b[4:]), context: le.Uint64(b[8:]),
		flags: le.Uint64(b[16:]), made: le.Uint64(b[24:]),
	}
	for b = b[noticeHeadBytes:]; len(b) > 0; b = b[4:] {
		rank := le.Uint32(b)
		if rank >= RanksMax {
			return false
		}
		n.dead = append(n.dead, int(rank))
	}
	return true
}

// roundKey names a round of all ranks of a communicator.
type roundKey struct {
	context uint64
	number  uint32
}

// round is an agreement. The lowest rank that is not known to be dead leads it: all others send it
// their votes, and it decides when it has heard of all that are alive. When it dies the next one
// leads. It hears from all that live: from who knows the decision already the decision, which it
// adopts, else their vote again. So no two survivors have different decisions.
//
//	joined ---- the leader is another: vote to it, once ----> decided: by its decision
//	  | this rank leads: all that are alive have voted         | the leader dies
//	  +----> decided: decision to all                           +--> decision to the next one
//
// Who leads waits until its decision has arrived at all that live before it goes by it itself: so
// theirs is the same also if it dies then. Who has a decision from it and dies may be the only one
// that has it, if the leader dies as well.
//
// From a rank that is known to be dead no decision is taken, for who leads next may have counted
// this rank's vote. A rank that has voted in a round has the decisions of all before, so when it
// has one nobody needs those before the last: they are forgotten.
type round struct {
	joined, decided bool
	make            bool // a communicator
	own             notice
	decision        notice
	leader          int // who has the vote or the decision; -1 is nobody
	votes           map[int]notice
}

// Agree returns the bits that the flags of all ranks have in common, the same at all of them. It
// works although ranks are gone, which have no part in it, and in a communicator that is revoked;
// all ranks that are left must call it, in the same order as Shrink. When ctx ends first this
// rank has given its flags nevertheless, and the round is over for it. Errors: ErrFinalized,
// ErrExcluded, those of Free, what broke, or the cause of ctx.
func (c *Comm) Agree(ctx context.Context, flags uint64) (uint64, error) {
	d, err := c.round(ctx, flags, false)
	return d.flags, err
}

// Shrink returns a communicator of the ranks that are left, in the same order. All of them must
// call it; they agree on who is gone. It works in a communicator that is revoked. When another rank
// goes meanwhile, the new communicator may have it: then it is to be shrunk, too. Errors as of
// Agree, and ErrContexts.
func (c *Comm) Shrink(ctx context.Context) (*Comm, error) {
	d, err := c.round(ctx, ^uint64(0), true)
	if err != nil {
		return nil, err
	}
	if d.made == 0 {
		return nil, ErrContexts
	}
	made, gone := &Comm{e: c.e, context: d.made, index: make(map[int]int)}, setOf(d.dead)
	for rank, world := range c.ranks {
		if gone[world] {
			continue
		}
		if world == c.e.rank {
			made.rank = len(made.ranks)
		}
		made.index[world] = len(made.ranks)
		made.ranks = append(made.ranks, world)
		made.nodes = append(made.nodes, c.nodes[rank])
	}
	c.e.lock()
	defer c.e.unlock()
	made.register()
	return made, nil
}

// round takes part in a round, and waits for the decision.
func (c *Comm) round(ctx context.Context, flags uint64, makes bool) (notice, error) {
	e := c.e
	e.lock()
	defer e.unlock()
	if ctx == nil {
		c.rounds++ // the turn of a call that is refused: see Comm.turn
		return notice{}, ErrContext
	}
	if e.broken != nil {
		return notice{}, e.broken
	}
	if e.failures.comms[c.context] != c {
		return notice{}, c.revoked // Freed: the others' votes come to nobody any more.
	}
	key := roundKey{c.context, c.rounds}
	c.rounds++
	if key.number > 0 {
		delete(e.failures.rounds, roundKey{c.context, key.number - 2})
	}
	r := e.roundOf(key)
	r.joined, r.make = true, makes
	r.own = notice{kind: noticeVote, context: c.context, round: key.number, flags: flags}
	for _, rank := range c.ranks {
		if e.failures.dead[rank] != nil {
			r.own.dead = append(r.own.dead, rank)
		}
	}
	e.advance(key, r)
	e.post()
	err := e.until(ctx, func() bool { return r.decided })
	if err == nil && r.leader == e.rank {
		err = e.arrived(ctx, c)
	}
	if err != nil {
		return notice{}, err
	}
	return r.decision, nil
}

// arrived waits until what a communicator's ranks were told has arrived at all that live. Who has
// decided goes by its decision only then: should it die, nobody else would know of it.
func (e *engine) arrived(ctx context.Context, c *Comm) error {
	f := &e.failures
	within := func(rank int) bool { _, ok := c.rankIn(rank); return ok }
	err := e.until(ctx, func() bool {
		return !slices.ContainsFunc(f.outbox, func(l letter) bool { return within(l.to) })
	})
	if err == nil {
		_, err = e.flushTo(ctx, c.ranks)
	}
	if err == nil { // It is this one that is dead, maybe.
		err = e.until(ctx, func() bool {
			return !slices.ContainsFunc(f.asked, func(q question) bool { return within(q.rank) })
		})
	}
	if err == nil {
		err = e.broken
	}
	return err
}

// roundOf is a round, which begins with who is first to speak of it.
func (e *engine) roundOf(key roundKey) *round {
	r := e.failures.rounds[key]
	if r == nil {
		r = &round{leader: -1, votes: make(map[int]notice)}
		e.failures.rounds[key] = r
	}
	return r
}

// hearRound takes a vote or a decision.
func (e *engine) hearRound(from int, n *notice) {
	f, key := &e.failures, roundKey{n.context, n.round}
	c := f.agreeing(n.context)
	if c == nil {
		if n.kind == noticeVote { // Nobody decides without this rank's vote.
			f.putOff(from, n)
		}
		return
	}
	// Late ones of rounds that all have left, and what nobody can have begun.
	if int32(n.round-c.rounds) < -2 || int32(n.round-c.rounds) > 1 {
		return
	}
	if _, ok := c.rankIn(from); !ok {
		return
	}
	r := e.roundOf(key)
	switch {
	case n.kind == noticeVote && r.decided:
		if !f.waits(from, &r.decision) { // An honest rank votes once, others as often as they like.
			e.tell(from, &r.decision)
		}
	case n.kind == noticeVote:
		r.votes[from] = *n
		e.advance(key, r)
	case !r.decided:
		r.decided, r.decision, r.leader = true, *n, -1
		if from == e.leader(c) {
			r.leader = from
		}
		e.advance(key, r)
		e.buryAll(n)
	}
}

// putOff keeps a vote until this rank has the communicator. Of a rank that has more than there is
// room for the oldest ones are forgotten, so that no other rank's are, and what it says in the end
// counts.
func (f *failures) putOff(from int, n *notice) {
	if f.early == nil {
		f.early = make(map[int][]notice)
	}
	list := f.early[from]
	if len(list) >= earlyMax {
		list = slices.Delete(list, 0, 1)
	}
	f.early[from] = append(list, *n)
}

// hearEarly takes the votes that have come before this rank had a communicator.
func (e *engine) hearEarly(c *Comm) {
	f := &e.failures
	of := func(n notice) bool { return n.context == c.context }
	var come []vote
	for from, list := range f.early {
		for _, n := range list {
			if of(n) {
				come = append(come, vote{from, n})
			}
		}
		if f.early[from] = slices.DeleteFunc(list, of); len(f.early[from]) == 0 {
			delete(f.early, from)
		}
	}
	for _, v := range come { // what they bring may change all that is known
		if f.dead[v.from] == nil {
			e.hearRound(v.from, &v.notice)
		}
	}
}

// vote is that of a rank of the world.
type vote struct {
	from   int
	notice notice
}

// waits says whether a notice waits for room already.
func (f *failures) waits(to int, n *notice) bool {
	head := n.bytes()[:noticeHeadBytes]
	return slices.ContainsFunc(f.outbox, func(l letter) bool {
		return l.to == to && l.data[0] == head[0] && bytes.Equal(l.data[4:noticeHeadBytes], head[4:])
	})
}

// leader is who leads the rounds of a communicator, as far as is known here.
func (e *engine) leader(c *Comm) int {
	for _, rank := range c.ranks {
		if e.failures.dead[rank] == nil {
			return rank
		}
	}
	return e.rank // It lives, in any case.
}

// advance does what a round needs now.
func (e *engine) advance(key roundKey, r *round) {
	c := e.failures.agreeing(key.context)
	if c == nil {
		return
	}
	leader := e.leader(c)
	switch {
	case !r.decided && !r.joined || leader != e.rank && r.leader == leader:
	case leader != e.rank && r.decided:
		r.leader = leader
		e.tell(leader, &r.decision)
	case leader != e.rank:
		r.leader = leader
		e.tell(leader, &r.own)
	case r.decided && r.leader != e.rank || !r.decided && e.decide(c, r):
		r.leader = e.rank
		for _, rank := range c.ranks {
			e.tell(rank, &r.decision)
		}
		e.buryAll(&r.decision)
	}
}

// buryAll takes note of the ranks that a decision says are gone.
func (e *engine) buryAll(d *notice) {
	for _, rank := range d.dead {
		if rank < len(e.names) {
			e.bury(rank, errDecided)
		}
	}
}

// decide decides a round that this rank leads, if all that are alive have voted.
func (e *engine) decide(c *Comm, r *round) bool {
	dead := e.failures.dead
	r.votes[e.rank] = r.own
	d := notice{kind: noticeDecision, context: r.own.context, round: r.own.round, flags: ^uint64(0)}
	for _, rank := range c.ranks {
		vote, ok := r.votes[rank]
		if dead[rank] != nil {
			d.dead = append(d.dead, rank)
			continue
		}
		if !ok {
			return false
		}
		d.flags &= vote.flags
	}
	known := setOf(d.dead)
	for _, rank := range c.ranks { // whom others know to be gone
		for _, gone := range r.votes[rank].dead {
			if dead[rank] == nil && !known[gone] {
				known[gone] = true
				d.dead = append(d.dead, gone)
			}
		}
	}
	if r.make && e.contexts+1 < 1<<countBits {
		d.made = e.nextContext()
	}
	r.decided, r.decision = true, d
	return true
}

// setOf is a set of ranks.
func setOf(ranks []int) map[int]bool {
	set := make(map[int]bool, len(ranks))
	for _, rank := range ranks {
		set[rank] = true
	}
	return set
}
