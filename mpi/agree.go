package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
)

const (
	// earlyMax bounds the stored votes of one rank in communicators that this rank does not have
	// yet; the latest votes are kept. Such votes exist if the other rank was earlier to leave the
	// round that makes a communicator.
	earlyMax = 1024
	// revokedMax bounds the list of revoked communicators; the latest ones are kept. All ranks
	// announce a revocation at about the same time, and each rank forwards it once.
	revokedMax = 1 << 16
	// freedMax bounds the freed communicators whose last rounds are still stored.
	freedMax = 64
)

// noticeKind is the kind of a notice.
type noticeKind uint8

const (
	noticeDead     noticeKind = iota + 1 // ranks are gone
	noticeRevoke                         // a communicator is revoked
	noticeVote                           // a rank's vote, sent to the leader of the round
	noticeDecision                       // of a round
)

// noticeHeadBytes is the size of a notice without the ranks.
const noticeHeadBytes = 32

// notice is a control message between ranks, sent outside of the matching, in little-endian order:
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
// A notice that names more dead ranks than fit into one message is sent in parts. The union of the
// parts is the set of the dead ranks. The parts may arrive in any order.
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

// bytes encodes the notice.
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

// read decodes a notice. It accepts only what bytes can have encoded.
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

// roundKey identifies a round of a communicator, the same at all ranks.
type roundKey struct {
	context uint64
	number  uint32
}

// round is an agreement. Its leader is the lowest rank that is not known to be dead. All other
// ranks send their votes to the leader, which decides when it has the votes of all living ranks.
// When the leader dies the next rank becomes the leader. Each living rank then sends the new leader
// the decision, if it has one, or else its vote again. The new leader adopts a decision that it
// receives. So no two survivors have different decisions.
//
//	joined ---- the leader is another: vote to it, once ----> decided: by its decision
//	  | this rank leads: all that are alive have voted         | the leader dies
//	  +----> decided: decision to all                           +--> decision to the next one
//
// The leader acts on its decision only after the decision has arrived at all living ranks, so they
// have it even if the leader dies then. A rank that dies after it got a decision may have been the
// only one to get it, if the leader dies as well.
//
// A decision from a rank that is known to be dead is ignored, because the next leader may have
// counted this rank's vote already. A rank that has voted in a round has the decisions of all
// earlier rounds. When a rank has the decision of a round, the decisions before the previous round
// are no longer needed, and are forgotten.
type round struct {
	joined, decided bool
	make            bool // a communicator
	own             notice
	decision        notice
	leader          int // rank that has the vote or the decision; -1: none
	votes           map[int]notice
}

// Agree returns the bitwise AND of the flags of all ranks, with the same result at all of them. It
// works after ranks have died, which then take no part, and in a revoked communicator. All
// surviving ranks must call Agree and Shrink in the same order. If ctx ends first, the flags of
// this rank count nevertheless, and the round is over for this rank. Errors: ErrFinalized,
// ErrExcluded, the errors that Free names, the failure of the transport, or the cause of ctx.
func (c *Comm) Agree(ctx context.Context, flags uint64) (uint64, error) {
	d, err := c.round(ctx, flags, false)
	return d.flags, err
}

// Shrink returns a communicator of the surviving ranks, in the same order. All survivors must call
// it, and they agree on the set of dead ranks. It works in a revoked communicator. If another rank
// dies during the call, the new communicator may contain that rank, and must then be shrunk, too.
// Errors as of Agree, and ErrContexts.
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
		c.rounds++ // a refused call uses up its tag: see Comm.turn
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

// arrived waits until the notices to a communicator's ranks have arrived at all living ranks. The
// leader acts on its decision only then. If it acted earlier and died, no other rank would know the
// decision.
func (e *engine) arrived(ctx context.Context, c *Comm) error {
	f := &e.failures
	within := func(rank int) bool { _, ok := c.rankIn(rank); return ok }
	err := e.until(ctx, func() bool {
		return !slices.ContainsFunc(f.outbox, func(l letter) bool { return within(l.to) })
	})
	if err == nil {
		_, err = e.flushTo(ctx, c.ranks)
	}
	if err == nil { // The other ranks may take this rank for dead.
		err = e.until(ctx, func() bool {
			return !slices.ContainsFunc(f.asked, func(q question) bool { return within(q.rank) })
		})
	}
	if err == nil {
		err = e.broken
	}
	return err
}

// roundOf returns a round. It makes the round when the first vote or decision of it appears.
func (e *engine) roundOf(key roundKey) *round {
	r := e.failures.rounds[key]
	if r == nil {
		r = &round{leader: -1, votes: make(map[int]notice)}
		e.failures.rounds[key] = r
	}
	return r
}

// hearRound handles a received vote or decision.
func (e *engine) hearRound(from int, n *notice) {
	f, key := &e.failures, roundKey{n.context, n.round}
	c := f.agreeing(n.context)
	if c == nil {
		if n.kind == noticeVote { // No rank may decide without this rank's vote.
			f.putOff(from, n)
		}
		return
	}
	// This drops late notices of rounds that all ranks have left, and notices of rounds that no
	// rank can have begun.
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

// putOff keeps a vote until this rank has the communicator. If a rank sends more votes than there
// is room for, the oldest votes of that rank are forgotten, and no votes of other ranks. The last
// vote of the rank thus counts.
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

// hearEarly handles the votes that arrived before this rank had the communicator.
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
	for _, v := range come { // the votes may change all that is known
		if f.dead[v.from] == nil {
			e.hearRound(v.from, &v.notice)
		}
	}
}

// vote returns the vote of a rank of the world.
type vote struct {
	from   int
	notice notice
}

// waits reports whether the outbox already contains a notice.
func (f *failures) waits(to int, n *notice) bool {
	head := n.bytes()[:noticeHeadBytes]
	return slices.ContainsFunc(f.outbox, func(l letter) bool {
		return l.to == to && l.data[0] == head[0] && bytes.Equal(l.data[4:noticeHeadBytes], head[4:])
	})
}

// leader returns the rank that leads the rounds of a communicator, as far as this rank knows.
func (e *engine) leader(c *Comm) int {
	for _, rank := range c.ranks {
		if e.failures.dead[rank] == nil {
			return rank
		}
	}
	return e.rank // This rank is alive in any case.
}

// advance carries out the next steps of a round.
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

// buryAll records as dead the ranks that a decision names as dead.
func (e *engine) buryAll(d *notice) {
	for _, rank := range d.dead {
		if rank < len(e.names) {
			e.bury(rank, errDecided)
		}
	}
}

// decide decides a round that this rank leads, if all living ranks have voted.
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
	for _, rank := range c.ranks { // ranks that others know to be dead
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
