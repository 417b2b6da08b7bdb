package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	// A vote can arrive from a rank before this rank has created the communicator to which the vote
	// belongs. For each sender, this rank stores at most earlyMax votes for communicators that this
	// rank has not created yet (early votes).
	earlyMax = 1024
	// earlyBytesMax is the largest size in memory, in bytes, of all early votes of one sender
	// together. If one early vote alone exceeds earlyBytesMax, this rank stores only this vote of the
	// sender.
	earlyBytesMax = 1 << 20
	// noticeMemory is the size in memory of a stored control message without its list of dead
	// ranks, in bytes.
	noticeMemory = 64
	// revokedMax is the largest length of the list of revoked communicators.
	revokedMax = 1 << 16
	// A rank does not delete the latest agreement rounds of the freedMax communicators that were freed
	// most recently.
	freedMax = 64
)

// noticeKind is the kind of a control message between ranks.
type noticeKind uint8

const (
	noticeDead     noticeKind = iota + 1 // ranks are dead
	noticeRevoke                         // a communicator is revoked
	noticeVote                           // a rank's vote, sent to the leader of the round
	noticeDecision                       // the result of an agreement round
)

// noticeHeadBytes is the size in bytes of a control message without its list of dead ranks.
const noticeHeadBytes = 32

// A notice is a control message that the library sends between ranks, and that no receive of the
// program can match. The following table gives the offset, the size in bytes and the meaning of
// each little-endian field of an encoded control message.
//
//	0   1   kind
//	1   1   1: further parts follow
//	2   2   number of this part, counted from 0
//	4   4   round, counted from 0 in each communicator
//	8   8   context of the communicator
//	16  8   flags
//	24  8   context of a communicator that was made
//	32  4   world rank of each dead rank
//
// If the list of dead ranks is too long for one packet, the control message is sent in several
// parts, which can arrive in any order. The receiver of a control message in several parts joins
// the lists of dead ranks of all parts.
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

// The method "bytes" encodes the control message.
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

// roundKey identifies an agreement round. A round has the same roundKey at all ranks.
type roundKey struct {
	context uint64
	number  uint32
}

// A round is one agreement between the ranks of a communicator. The leader of an agreement round is
// the lowest rank that is not known to be dead. Each rank that is not the leader sends its vote to
// the leader. The leader makes the decision of the round when it has received the votes of all
// living ranks. If the leader dies, the next living rank becomes the leader. After the death of a
// leader, each living rank sends the decision of the round to the new leader if the rank knows the
// decision, and otherwise its vote. A new leader adopts any decision that it receives, so that two
// surviving ranks never have different decisions of the same round.
//
//	joined ---- the leader is another: vote to it, once ----> decided: by its decision
//	  | this rank leads: all that are alive have voted         | the leader dies
//	  +----> decided: decision to all                           +--> decision to the next one
//
// The leader acts on its decision only after all living ranks have received the decision. If the
// leader dies together with all ranks that have received its decision, the survivors make a new
// decision.
//
// A rank ignores the decision of a leader that the rank considers dead, because the rank might
// already have sent its vote to the next leader. A rank that has voted in a round knows the
// decisions of all earlier rounds. A rank that votes in round n deletes the decision of round n-2.
type round struct {
	joined, decided bool
	make            bool // the round creates a communicator
	own             notice
	decision        notice
	leader          int // rank to which this rank has sent its vote or the decision; -1: none
	votes           map[int]notice
}

// Agree returns the bitwise AND of the flags of all surviving ranks, and all survivors get the same
// result. Agree ignores dead ranks, and works even if the communicator was revoked. All surviving
// ranks must call Agree and Shrink in the same order. If ctx ends while the agreement is in
// progress, the other ranks get a result that includes the flags of this rank, but this rank gets
// only the cause of ctx. The errors of Agree are ErrFinalized, ErrExcluded, ErrFreed, the failure
// of the transport, and the cause of ctx. If the communicator was revoked before it was freed,
// Agree returns ErrRevoked instead of ErrFreed.
func (c *Comm) Agree(ctx context.Context, flags uint64) (uint64, error) {
	d, err := c.round(ctx, flags, false)
	return d.flags, err
}

// Shrink returns a communicator of the surviving ranks, in the same order as in this communicator.
// All surviving ranks must call Shrink, and thereby agree on the set of dead ranks. Shrink works
// even if the communicator was revoked. If a rank dies during the call of Shrink, the new
// communicator might contain this rank. If the new communicator contains a dead rank, the program
// must call the method Shrink of the new communicator. The errors of Shrink are the errors of
// Agree, ErrContexts and ErrWrongContext.
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
	maker := int(d.made >> makerShift)
	if !slices.Contains(c.ranks, maker) {
		return nil, fmt.Errorf("%w: of rank %d, which is no member", ErrWrongContext, maker)
	}
	if err := c.e.used.check(d.made, maker); err != nil {
		return nil, err
	}
	made.register()
	return made, nil
}

// The method "round" sends this rank's vote in an agreement round, and waits for the decision of
// the round.
func (c *Comm) round(ctx context.Context, flags uint64, makes bool) (notice, error) {
	e := c.e
	e.lock()
	defer e.unlock()
	if ctx == nil {
		c.rounds++ // a refused call also uses up a round number
		return notice{}, ErrContext
	}
	if e.broken != nil {
		return notice{}, e.broken
	}
	if e.failures.comms[c.context] != c {
		return notice{}, c.revoked // The communicator is freed: votes get no answer.
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

// The method "arrived" waits until all living ranks of the communicator c have received the control
// messages that this rank has sent to them. The leader of an agreement round sends its decision,
// calls the method "arrived", and then acts on its decision.
func (e *engine) arrived(ctx context.Context, c *Comm) error {
	f := &e.failures
	within := func(rank int) bool { _, ok := c.rankIn(rank); return ok }
	err := e.until(ctx, func() bool {
		return !slices.ContainsFunc(f.outbox, func(l letter) bool { return within(l.to) })
	})
	if err == nil {
		_, err = e.flushTo(ctx, c.ranks)
	}
	if err == nil { // Wait until all probes of silent ranks are answered.
		err = e.until(ctx, func() bool {
			return !slices.ContainsFunc(f.asked, func(q question) bool { return within(q.rank) })
		})
	}
	if err == nil {
		err = e.broken
	}
	return err
}

func (e *engine) roundOf(key roundKey) *round {
	r := e.failures.rounds[key]
	if r == nil {
		r = &round{leader: -1, votes: make(map[int]notice)}
		e.failures.rounds[key] = r
	}
	return r
}

// hearRound handles a vote or a decision that this rank has received.
func (e *engine) hearRound(from int, n *notice) {
	f, key := &e.failures, roundKey{n.context, n.round}
	c := f.agreeing(n.context)
	if c == nil {
		if n.kind == noticeVote { // No round is decided before this rank has voted.
			f.putOff(from, n)
		}
		return
	}
	if int32(n.round-c.rounds) < -2 || int32(n.round-c.rounds) > 1 {
		return
	}
	if _, ok := c.rankIn(from); !ok {
		return
	}
	r := e.roundOf(key)
	switch {
	case n.kind == noticeVote && r.decided:
		if !f.waits(from, &r.decision) { // A hostile rank may vote often.
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

// earlyVotes are the votes of one sender for communicators that this rank has not created yet.
type earlyVotes struct {
	list  []notice
	bytes int
}

// remove removes the early votes with the indexes from i to j-1 from the list v.
func (v *earlyVotes) remove(i, j int) {
	for k := i; k < j; k++ {
		v.bytes -= v.list[k].memory()
	}
	v.list = slices.Delete(v.list, i, j)
}

// The method "memory" returns the size in memory of a stored control message, in bytes.
func (n *notice) memory() int { return noticeMemory + 8*cap(n.dead) }

// putOff stores a vote until this rank has created the communicator of the vote. putOff stores at
// most earlyMax votes and earlyBytesMax bytes of each sender. If a new vote would exceed earlyMax
// or earlyBytesMax, putOff deletes the oldest stored votes of the sender.
func (f *failures) putOff(from int, n *notice) {
	if f.early == nil {
		f.early = make(map[int]*earlyVotes)
	}
	v := f.early[from]
	if v == nil {
		v = &earlyVotes{}
		f.early[from] = v
	}
	v.list = append(v.list, *n)
	v.bytes += n.memory()
	for len(v.list) > 1 && (len(v.list) > earlyMax || v.bytes > earlyBytesMax) {
		v.remove(0, 1)
	}
}

// hearEarly handles the stored votes for the communicator c, which arrived before this rank created
// c.
func (e *engine) hearEarly(c *Comm) {
	f := &e.failures
	var come []vote
	for from, v := range f.early {
		for i := 0; i < len(v.list); {
			if v.list[i].context != c.context {
				i++
				continue
			}
			come = append(come, vote{from, v.list[i]})
			v.remove(i, i+1)
		}
		if len(v.list) == 0 {
			delete(f.early, from)
		}
	}
	for _, v := range come { // hearRound may change the maps of f
		if f.dead[v.from] == nil {
			e.hearRound(v.from, &v.notice)
		}
	}
}

type vote struct {
	from   int
	notice notice
}

// The method "waits" reports whether the queue of outgoing control messages already contains the
// control message n, or a part of n, for the given rank.
func (f *failures) waits(to int, n *notice) bool {
	head := n.bytes()[:noticeHeadBytes]
	return slices.ContainsFunc(f.outbox, func(l letter) bool {
		return l.to == to && l.data[0] == head[0] && bytes.Equal(l.data[4:noticeHeadBytes], head[4:])
	})
}

// The method "leader" returns the world rank of the leader of the agreement rounds of the
// communicator c. The leader is the lowest rank of the communicator c that this rank does not know
// to be dead.
func (e *engine) leader(c *Comm) int {
	for _, rank := range c.ranks {
		if e.failures.dead[rank] == nil {
			return rank
		}
	}
	return e.rank // This rank is alive in any case.
}

// The method "advance" takes the next step of this rank in an agreement round, which is to send its
// vote, to make the decision, or to send the decision.
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

// buryAll records as dead all ranks that a decision lists as dead.
func (e *engine) buryAll(d *notice) {
	for _, rank := range d.dead {
		if rank < len(e.names) {
			e.bury(rank, errDecided)
		}
	}
}

// The method "decide" makes the decision of an agreement round whose leader is this rank. The
// method "decide" returns true if it has made the decision, and false if the vote of a living rank
// is missing.
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
	for _, rank := range c.ranks { // ranks that other ranks know to be dead
		for _, gone := range r.votes[rank].dead {
			_, member := c.rankIn(gone)
			if member && dead[rank] == nil && !known[gone] {
				known[gone] = true
				d.dead = append(d.dead, gone)
			}
		}
	}
	if r.make {
		d.made = e.contexts.next()
	}
	r.decided, r.decision = true, d
	return true
}

func setOf(ranks []int) map[int]bool {
	set := make(map[int]bool, len(ranks))
	for _, rank := range ranks {
		set[rank] = true
	}
	return set
}
