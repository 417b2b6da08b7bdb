package pml

import "gobtl/internal/slots"

// The lower requestsBits bits of a request id are an index into the table of requests. The higher
// bits of a request id are random.
const requestsBits = 24

// The type "requestIDs" contains the requests that have an id in the protocol, by their ids. A peer
// names a request of this side by the id.
type requestIDs struct {
	table  slots.Table[*Request]
	random func() uint64
}

// The method "init" prepares an empty requestIDs. The function "random" returns the random bits of
// the ids (Config.Random).
func (t *requestIDs) init(random func() uint64) {
	t.random = random
	t.table.Init(requestsBits, 1<<requestsBits)
}

// The method "count" returns the number of requests that have an id.
func (t *requestIDs) count() int { return t.table.Len() }

// The method "name" gives a request an id for the protocol and returns true, or returns false if
// all ids are in use.
func (t *requestIDs) name(r *Request) (ok bool) {
	for r.id == 0 { // 0 means no id
		if r.id, ok = t.table.Add(t.random(), r); !ok {
			return false
		}
		if r.id == 0 {
			t.table.Remove(0)
		}
	}
	return true
}

// The method "free" takes the id of a request back. For a request without an id, the method "free"
// does nothing.
func (t *requestIDs) free(r *Request) {
	if r.id != 0 {
		t.table.Remove(r.id)
		r.id = 0
	}
}

// The method "inherit" moves the id of the request r to the request "heir", so that r has no id.
func (t *requestIDs) inherit(heir, r *Request) {
	t.table.Replace(r.id, heir)
	heir.id, r.id = r.id, 0
}

// The method "get" returns the request with the given id if the request has the state s, and nil
// otherwise.
func (t *requestIDs) get(id uint64, s state) *Request {
	r, ok := t.table.Get(id)
	if !ok || id == 0 || r.state != s {
		return nil
	}
	return r
}

// The method "named" returns the request with the given id if the request belongs to the peer p and
// has the state s, and nil otherwise.
func (t *requestIDs) named(p *Peer, id uint64, s state) *Request {
	if r := t.get(id, s); r != nil && r.peer == p {
		return r
	}
	return nil
}
