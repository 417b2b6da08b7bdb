package pml

// exactly is the mask of who wants one tag.
const exactly = ^uint64(0)

// posted are the receives that wait for a message: those of one peer and one tag in a table, the
// others in a list. order tells which came first.
type posted struct {
	exact table[Request]
	wild  list[Request]
	order uint64
}

func newPosted() posted {
	at := func(r *Request) *links[Request] { return &r.queue }
	return posted{
		exact: newTable(at, func(r *Request) uint64 { return hash(r.peer.index, r.tag) }),
		wild:  list[Request]{at: at},
	}
}

// add posts a receive.
func (q *posted) add(r *Request) {
	q.order++
	r.order = q.order
	if r.exact() {
		q.exact.add(r)
	} else {
		q.wild.add(r)
	}
}

// remove takes a receive out.
func (q *posted) remove(r *Request) {
	if r.exact() {
		q.exact.remove(r)
	} else {
		q.wild.remove(r)
	}
}

// take finds the earliest receive that wants a message, and takes it out; nil is none.
func (q *posted) take(p *Peer, tag uint64) *Request {
	bucket := q.exact.bucket(hash(p.index, tag))
	r := bucket.first
	for r != nil && (r.peer != p || r.tag != tag) {
		r = r.queue.next
	}
	for w := q.wild.first; w != nil && (r == nil || w.order < r.order); w = w.queue.next {
		if w.wants(p, tag) {
			q.wild.remove(w)
			return w
		}
	}
	if r != nil {
		q.exact.count--
		bucket.remove(r)
	}
	return r
}

// each calls fn for all receives; fn may take out the one that it is given.
func (q *posted) each(fn func(*Request)) {
	all := func(l *list[Request]) {
		for r := l.first; r != nil; {
			next := r.queue.next
			fn(r)
			r = next
		}
	}
	for i := range q.exact.buckets {
		all(&q.exact.buckets[i])
	}
	all(&q.wild)
}

// exact says whether a receive is for one peer and one tag.
func (r *Request) exact() bool { return r.from != nil && r.mask == exactly }

// wants says whether a message is for this receive.
func (r *Request) wants(p *Peer, tag uint64) bool {
	return (r.from == nil || r.from == p) && (tag^r.tag)&r.mask == 0
}

// unexpected are the messages that wait for a receive: all in the order in which they came, those
// of each peer, and by peer and tag. So who wants those of one peer does not look at others'; who
// wants a tag of anybody looks at all that have come before it.
type unexpected struct {
	all   list[Message]
	exact table[Message]
}

func newUnexpected() unexpected {
	return unexpected{
		all: list[Message]{at: func(m *Message) *links[Message] { return &m.order }},
		exact: newTable(func(m *Message) *links[Message] { return &m.same },
			func(m *Message) uint64 { return hash(m.peer.index, m.tag) }),
	}
}

func (q *unexpected) add(m *Message) {
	q.all.add(m)
	m.peer.unexpected.add(m)
	q.exact.add(m)
}

func (q *unexpected) remove(m *Message) {
	q.all.remove(m)
	m.peer.unexpected.remove(m)
	q.exact.remove(m)
}

// find finds the earliest message that a receive with these criteria wants; nil is none.
func (q *unexpected) find(from *Peer, tag, mask uint64) *Message {
	if from != nil && mask == exactly {
		m := q.exact.bucket(hash(from.index, tag)).first
		for m != nil && (m.peer != from || m.tag != tag) {
			m = m.same.next
		}
		return m
	}
	if from != nil {
		m := from.unexpected.first
		for m != nil && (m.tag^tag)&mask != 0 {
			m = m.own.next
		}
		return m
	}
	m := q.all.first
	for m != nil && (m.tag^tag)&mask != 0 {
		m = m.order.next
	}
	return m
}
