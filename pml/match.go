package pml

import "gobtl/internal/kept"

// The constant "exactly" is the mask of a receive that matches only one tag.
const exactly = ^uint64(0)

// The type "posted" contains the receives that wait for a message. Receives for a single peer and a
// single tag are in a hash table. Receives for a single peer and several tags are in the list of
// the peer (Peer.wild), and "sources" contains the peers whose lists are not empty. Receives for
// any peer are in the list "any". The field "order" counts the posted receives.
type posted struct {
	exact   table[Request]
	sources list[Peer]
	any     list[Request]
	order   uint64
	seed    uint64 // seed of the hash function
}

func newPosted(seed uint64) posted {
	at := func(r *Request) *links[Request] { return &r.queue }
	return posted{
		exact:   newTable(at, func(r *Request) uint64 { return hash(seed, r.peer.index, r.tag) }),
		sources: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.wilds }},
		any:     list[Request]{at: at}, seed: seed,
	}
}

// The method "empty" reports whether no receive waits for a message.
func (q *posted) empty() bool {
	return q.exact.count == 0 && q.sources.first == nil && q.any.first == nil
}

func (q *posted) add(r *Request) {
	q.order++
	r.order = q.order
	if r.from != nil {
		r.from.active.add(r)
	}
	switch p := r.from; {
	case p == nil:
		q.any.add(r)
	case r.exact():
		q.exact.add(r)
	default:
		if p.wild.first == nil {
			q.sources.add(p)
		}
		p.wild.add(r)
	}
}

func (q *posted) remove(r *Request) {
	q.leave(r)
	switch p := r.from; {
	case p == nil:
		q.any.remove(r)
	case r.exact():
		q.exact.remove(r)
	default:
		if p.wild.remove(r); p.wild.first == nil {
			q.sources.remove(p)
		}
	}
}

// The method "leave" removes a receive from the list of its peer, if the receive accepts only
// messages from one peer.
func (q *posted) leave(r *Request) {
	if r.from != nil {
		r.from.active.remove(r)
	}
}

// The method "take" removes and returns the receive for a message with the given tag from the peer
// p, or returns nil if no receive matches. If several receives match, the method "take" chooses the
// receive that was posted first. The method "take" does not search the receives that accept only
// messages from a single peer other than p.
func (q *posted) take(p *Peer, tag uint64) *Request {
	h := hash(q.seed, p.index, tag)
	r := q.exact.first(h)
	for r != nil && (r.peer != p || r.tag != tag) {
		r = q.exact.after(r, h)
	}
	if w := earliest(q.any.first, earliest(p.wild.first, r, p, tag), p, tag); w != r {
		q.remove(w)
		return w
	}
	if r != nil {
		q.leave(r)
		q.exact.take(r, h)
	}
	return r
}

// The function "earliest" returns the first receive of a list that matches a message and was posted
// before the receive "than". If the list contains no such receive, the function "earliest" returns
// "than", which can be nil. The argument w is the first receive of the list.
func earliest(w, than *Request, p *Peer, tag uint64) *Request {
	for ; w != nil && (than == nil || w.order < than.order); w = w.queue.next {
		if w.wants(p, tag) {
			return w
		}
	}
	return than
}

// The method "each" calls the function fn for all receives that wait for a message. The function fn
// may remove the receive that is its argument.
func (q *posted) each(fn func(*Request)) {
	all := func(l *list[Request]) {
		for r := l.first; r != nil; {
			next := r.queue.next
			fn(r)
			r = next
		}
	}
	for _, buckets := range [][]list[Request]{q.exact.old, q.exact.buckets} {
		for i := range buckets {
			all(&buckets[i])
		}
	}
	for p := q.sources.first; p != nil; {
		next := p.wilds.next
		all(&p.wild)
		p = next
	}
	all(&q.any)
}

// The method "exact" reports whether the receive r matches only one peer and one tag.
func (r *Request) exact() bool { return r.from != nil && r.mask == exactly }

func (r *Request) wants(p *Peer, tag uint64) bool {
	return (tag^r.tag)&r.mask == 0 &&
		(r.from == p || r.from == nil && (r.Among == nil || r.Among.Has(p)))
}

// anyMasks is the number of different masks that receives from any peer can use without searching
// all unexpected messages.
const anyMasks = 4

// The type "unexpected" contains the arrived messages that no receive has matched yet. Each
// unexpected message is in three lists, which contain all messages, the messages of its peer, and
// the messages of its peer with its tag, in the order of arrival. A receive from one peer searches
// only messages from this peer.
//
// Each of the first anyMasks masks that receives from any peer use has a hash table, in which
// messages with equal masked tags are in the order of arrival. A receive from any peer searches
// only the hash table of its mask, so the time of the search does not depend on the number of
// messages that do not match. A receive from any peer whose mask has no hash table searches all
// messages.
type unexpected struct {
	all   list[Message]
	exact table[Message]
	masks []uint64 // masks of the tables in any
	any   [anyMasks]table[Message]
	seed  uint64 // seed of the hash function

	refused *refused // the refused groups; nil in tests without a Layer
	next    *Message // the next message to look at after a Refuse; nil: none (refuse.go)
	again   bool     // then look at all messages once more, because of another Refuse

	gone      *kept.Keeper[*Peer] // gone peers with unexpected messages (gone.go)
	forgotten uint64              // messages dropped because of Config.GoneBytes
}

func newUnexpected(seed uint64, goneBytes int64) unexpected {
	return unexpected{
		seed: seed, gone: kept.New[*Peer](goneBytes),
		all: list[Message]{at: func(m *Message) *links[Message] { return &m.order }},
		exact: newTable(func(m *Message) *links[Message] { return &m.same },
			func(m *Message) uint64 { return hash(seed, m.peer.index, m.tag) }),
	}
}

func (q *unexpected) add(m *Message) {
	q.all.add(m)
	m.peer.unexpected.add(m)
	q.exact.add(m)
	for i := range q.masks {
		q.any[i].add(m)
	}
}

func (q *unexpected) remove(m *Message) {
	if q.next == m {
		q.next = m.order.next
	}
	q.all.remove(m)
	m.peer.unexpected.remove(m)
	q.exact.remove(m)
	for i := range q.masks {
		q.any[i].remove(m)
	}
}

// tableFor returns the index of the hash table for receives from any peer with the given mask. If
// the mask has no table, and anyMasks tables already exist, tableFor returns -1.
func (q *unexpected) tableFor(mask uint64) int {
	for i, known := range q.masks {
		if known == mask {
			return i
		}
	}
	i := len(q.masks)
	if i == anyMasks {
		return -1
	}
	q.masks = append(q.masks, mask)
	q.any[i] = newTable(func(m *Message) *links[Message] { return &m.any[i] },
		func(m *Message) uint64 { return hash(q.seed, anyPeer, m.tag&mask) })
	q.any[i].late = i + 1 // so that the tables do not all get memory at the same time
	for m := q.all.first; m != nil; m = m.order.next {
		q.any[i].add(m)
	}
	return i
}

// In the hash tables for receives from any peer, the hash is computed with anyPeer in place of the
// peer's index. The index of a real peer is at least 1.
const anyPeer = 0

// findAny returns the earliest message that matches a receive from any peer with the given tag and
// mask, or nil if there is none.
func (q *unexpected) findAny(tag, mask uint64) *Message {
	i := q.tableFor(mask)
	if i < 0 {
		m := q.all.first
		for m != nil && ((m.tag^tag)&mask != 0 || q.isRefused(m)) {
			m = m.order.next
		}
		return m
	}
	h := hash(q.seed, anyPeer, tag&mask)
	m := q.any[i].first(h)
	for m != nil && ((m.tag^tag)&mask != 0 || q.isRefused(m)) {
		m = q.any[i].after(m, h)
	}
	return m
}

// The method "find" returns the message that was the first to arrive of those that match a receive
// from the peer "from", or from any peer if "from" is nil, or returns nil if no message matches.
// The method "find" passes over messages of refused groups that were not dropped yet.
func (q *unexpected) find(from *Peer, tag, mask uint64) *Message {
	if from != nil && mask == exactly {
		h := hash(q.seed, from.index, tag)
		m := q.exact.first(h)
		for m != nil && (m.peer != from || m.tag != tag || q.isRefused(m)) {
			m = q.exact.after(m, h)
		}
		return m
	}
	if from != nil {
		m := from.unexpected.first
		for m != nil && ((m.tag^tag)&mask != 0 || q.isRefused(m)) {
			m = m.own.next
		}
		return m
	}
	return q.findAny(tag, mask)
}
