package call

import (
	"testing"

	"gobtl/btl"
)

// A handler that runs on after its caller's endpoint has ended counts for the caller's host until
// it returns. A host that calls, disconnects and connects again gets no further call beyond Total
// and its first call, which does not count.
func TestRunningOfEndedEndpoints(t *testing.T) {
	const total, size = 4, 1000
	at := map[*btl.Endpoint]string{}
	n := &Node{
		cfg:     Config{Concurrent: 1, Total: total},
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(ep *btl.Endpoint) string { return at[ep] }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	begin := func(host string) (s served, began bool) {
		s = served{new(btl.Endpoint), 1}
		at[s.peer] = host
		st, _ := n.enter(s, func() {}, size, place{})
		return s, st == statusOK
	}
	end := func(s served) {
		of, _ := n.leave(s, place{}, size, 0)
		n.sent(s.peer, of, false)
	}
	var running []served
	for len(running) < 100 {
		s, began := begin("bad")
		n.loseCalls(s.peer)
		if !began {
			break
		}
		running = append(running, s)
	}
	if len(running) != 1+total {
		t.Fatalf("a host that connects again has %d running handlers, Total is %d", len(running), total)
	}
	good, began := begin("good")
	if !began {
		t.Error("the only call of a peer of another host is refused")
	}
	end(running[1])
	end(good)
	if s, began := begin("bad"); began {
		running[1] = s
	} else {
		t.Error("after the end of a handler, a call within Total is refused")
	}
	for _, s := range running {
		end(s)
	}
	n.loseCalls(running[1].peer)
	n.loseCalls(good.peer)
	if n.load != (load{}) || len(n.hosts) > 0 {
		t.Errorf("%+v, %d hosts are left", n.load, len(n.hosts))
	}
}
