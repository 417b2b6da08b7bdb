package call

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
)

// ask counts a request if the limits allow it.
func ask(n *Node, ep *btl.Endpoint, bytes int) bool {
	if !n.asks.mayAsk(ep, bytes) {
		return false
	}
	n.asks.begin(ep, bytes)
	return true
}

// Peers of one host that acknowledge no request share the limit on unacknowledged requests. The
// peers of other hosts get requests, also large ones, and all requests have a bound.
func TestUnacknowledgedRequestsByHost(t *testing.T) {
	const own, peers, hosts = 1 << 20, 100, 10
	n, peer := idleNode(t)
	n.asks = newUnackedRequests(own)
	n.asks.hostOf = n.hostOf
	var bad []*btl.Endpoint
	for range peers {
		ep := peer("bad")
		for range 100 {
			ask(n, ep, own/4)
		}
		if bytes := n.asks.to[ep].Held(); bytes > own {
			t.Fatalf("%d bytes of requests to one peer, at most %d", bytes, own)
		}
		if !ask(n, ep, packetBytesMin) {
			t.Error("a small request is refused")
		}
		bad = append(bad, ep)
	}
	most := int64(totalFactor * own)
	if got := n.asks.bound.Counted(); got > most || got < most/2 {
		t.Errorf("%d bytes count for one host, at most %d", got, most)
	}
	small := peer("bad")
	if !ask(n, small, smallBytes) || ask(n, small, own/2) {
		t.Error("a peer of the host does not get its allowance alone")
	}
	for i := range hosts {
		ep := peer(string(rune('a' + i)))
		if !ask(n, ep, own) {
			t.Errorf("the first request to a peer of host %d is refused", i)
		}
	}
	most = (2*totalFactor + hosts) * own
	if got := n.asks.bound.Counted(); got > most {
		t.Errorf("%d bytes count, at most %d", got, most)
	}
	for _, ep := range bad {
		for n.asks.to[ep].Held() > 0 {
			n.asks.end(ep, own/4)
		}
		n.asks.forget(ep)
	}
	got, known := n.asks.bound.Counted(), n.asks.bound.Hosts()
	if len(n.asks.to) != 1+hosts || known != 1+hosts || got != hosts*own {
		t.Errorf("%d peers, %d hosts, %d bytes are left", len(n.asks.to), known, got)
	}
	last := peer("a")
	for ask(n, last, own-smallBytes) {
	}
	if !ask(n, peer("other"), 4*own) {
		t.Error("the first request to a host is refused because of its size")
	}
	fresh := peer("fresh")
	allocated := testing.AllocsPerRun(100, func() {
		if !ask(n, fresh, own/4) {
			t.Error("the only request to a host is refused")
		}
		n.asks.end(fresh, own/4)
	})
	if allocated != 0 {
		t.Errorf("the count of a request allocates %v times", allocated)
	}
}

// The end of an endpoint with unacknowledged requests leaves nothing of their counts, and ends the
// calls that wait for room.
func TestUnacknowledgedRequestsOfEnded(t *testing.T) {
	net := mem.New(mem.Config{})
	n, err := New(openMem(t, net, nil), Config{Tag: tagCall, RequestBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := n.Start(runner.Config{}, nil)
	closed(t, r)
	server := openMem(t, net, nil)
	name := server.Name()
	closed(t, runner.New(server, runner.Config{}, nil))
	ep, err := r.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
	const calls = 4
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := n.Call(t.Context(), ep, 1, make([]byte, 700<<10))
			ended <- err
		}()
	}
	look := func(fn func()) {
		err := r.Do(t.Context(), func(*btl.Module) error { fn(); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for bytes := int64(0); bytes == 0; time.Sleep(time.Millisecond) {
		look(func() { bytes = n.asks.bound.Counted() })
	}
	look(ep.Abort)
	net.SetFilter(nil)
	for range calls {
		if err := <-ended; !errors.Is(err, btl.ErrClosed) {
			t.Errorf("a call to an ended endpoint: %v", err)
		}
	}
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		look(func() { left = len(n.asks.to) + n.asks.bound.Hosts() + int(n.asks.bound.Counted()) })
	}
}
