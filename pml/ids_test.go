package pml

import "testing"

// TestRequestIDs checks that a request is found only by its own id, for its peer and in its state,
// and that no request has the id 0, even if a random number is 0.
func TestRequestIDs(t *testing.T) {
	var ids requestIDs
	random := uint64(0)
	ids.init(func() uint64 { random += random; random++; return random >> 1 })
	p, stranger := newPeer(1), newPeer(2)
	r := &Request{peer: p, state: announced}
	if !ids.name(r) || r.id == 0 {
		t.Fatalf("the id is %d", r.id)
	}
	id := r.id
	if !ids.name(r) || r.id != id || ids.count() != 1 {
		t.Errorf("the request has a second id %d, after %d", r.id, id)
	}
	for _, c := range []struct {
		what string
		p    *Peer
		id   uint64
		s    state
		want *Request
	}{
		{"its own", p, id, announced, r},
		{"another peer", stranger, id, announced, nil},
		{"another state", p, id, moving, nil},
		{"another id", p, id + 1, announced, nil},
		{"no id", p, 0, announced, nil},
	} {
		if got := ids.named(c.p, c.id, c.s); got != c.want {
			t.Errorf("%s: %p, want %p", c.what, got, c.want)
		}
	}
	heir := &Request{peer: p, state: announced}
	ids.inherit(heir, r)
	ids.free(r) // has no id any longer
	if got := ids.get(id, announced); got != heir || heir.id != id || r.id != 0 {
		t.Errorf("the id %d of the heir %p finds %p", heir.id, heir, got)
	}
	ids.free(heir)
	if ids.count() != 0 || heir.id != 0 || ids.get(id, announced) != nil {
		t.Errorf("%d requests have ids", ids.count())
	}
}
