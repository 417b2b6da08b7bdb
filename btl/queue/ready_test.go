package queue

import (
	"testing"

	"gobtl/btl"
	"gobtl/internal/byhost"
	"gobtl/internal/kept"
)

// newReady returns a Queue without a module. The function hostOf returns the host of an endpoint.
func newReady(goneBytes int64, hostOf func(*btl.Endpoint) string) *Queue {
	return &Queue{
		from: map[*btl.Endpoint]*inbox{}, left: map[*btl.Endpoint]*inbox{},
		gone: kept.New[*inbox](goneBytes), more: make(chan struct{}), hostOf: hostOf,
		cfg: Config{Bytes: 1 << 20, TotalBytes: 1 << 20},
	}
}

// A message of one peer is found without a look at the peers with messages.
func TestReadyWithoutWalk(t *testing.T) {
	peer, other := new(btl.Endpoint), new(btl.Endpoint)
	q := newReady(1<<20, func(*btl.Endpoint) string { return "host" })
	q.tryKeep(other, []byte("other"))
	q.tryKeep(peer, []byte("one"))
	q.tryKeep(peer, []byte("two"))
	ready := q.ready
	q.ready = byhost.Turns[*inbox]{}
	if in := q.readyOf(peer); in == nil || string(in.messages[0]) != "one" {
		t.Error("the messages of a peer are not found by the peer")
	}
	q.ready = ready
	for _, c := range []struct {
		of    *btl.Endpoint
		want  string
		ready int
	}{{peer, "one", 2}, {nil, "other", 1}, {other, "", 1}, {peer, "two", 0}, {nil, "", 0}} {
		msg, _, more := q.next(c.of)
		if string(msg.Data) != c.want || q.ready.Waiting() != c.ready || (more == nil) != (c.want != "") {
			t.Errorf("%q, %d are ready, want %q, %d", msg.Data, q.ready.Waiting(), c.want, c.ready)
		}
	}
}

// Hosts with messages take turns in Take, and so do the endpoints of a host: a host with many
// endpoints gets no more turns than a host with one endpoint.
func TestTakeTurnsOfHosts(t *testing.T) {
	const many, each = 40, 100
	hosts := map[*btl.Endpoint]string{}
	q := newReady(1<<20, func(ep *btl.Endpoint) string { return hosts[ep] })
	fill := func(host string) *btl.Endpoint {
		ep := new(btl.Endpoint)
		hosts[ep] = host
		for range each {
			q.tryKeep(ep, nil)
		}
		return ep
	}
	for range many {
		fill("many")
	}
	one := fill("one")
	got := map[*btl.Endpoint]int{}
	for range 4 * many {
		msg, _, _ := q.next(nil)
		got[msg.Peer]++
	}
	if got[one] != 2*many {
		t.Errorf("the host with one endpoint got %d turns of %d", got[one], 4*many)
	}
	for ep, n := range got {
		if ep != one && n != 2 {
			t.Errorf("an endpoint of the host with %d got %d turns of %d", many, n, 2*many)
		}
	}
	if all := q.ready.Waiting(); all != many+1 {
		t.Errorf("%d endpoints have messages, want %d", all, many+1)
	}
}

// A host is forgotten when its last endpoint has ended and its messages are taken or dropped.
func TestHostsOfInboxes(t *testing.T) {
	hosts := map[*btl.Endpoint]string{}
	q := newReady(goneBytes+2*overheadBytes, func(ep *btl.Endpoint) string { return hosts[ep] })
	end := func(host string, messages int) {
		ep := new(btl.Endpoint)
		hosts[ep] = host
		q.inbox(ep)
		for range messages {
			q.tryKeep(ep, nil)
		}
		q.leave(q.from[ep])
	}
	end("none", 0)
	end("dropped", 2)
	end("taken", 2) // GoneBytes has room for one of them
	for _, host := range []string{"none", "dropped", "taken"} {
		if n := q.ready.Members(host); (n == 1) != (host == "taken") {
			t.Errorf("%d inboxes of host %q", n, host)
		}
	}
	for range 2 {
		if msg, _, _ := q.next(nil); msg.Peer == nil {
			t.Error("no message")
		}
	}
	if n := q.ready.Members("taken"); n != 0 || q.ready.Waiting() != 0 {
		t.Errorf("when all is taken %d inboxes are left, %d wait", n, q.ready.Waiting())
	}
}
