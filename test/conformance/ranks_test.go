package conformance

import (
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// rankSizes are the messages of the scenarios with many ranks: both channels, one packet and many.
var rankSizes = mixed(12, 64, 744, 745, 1448, 1449, 5000, 30000)

// testAllToAll, model: fabtests multinode, pattern all2all. Every rank connects to every other at
// the same time, so that most handshakes meet, and sends to all of them at once.
func testAllToAll(t *testing.T, fx *fixture) {
	const count = 5
	l := newLab(t, fx, opts{})
	ranks := l.addAll(count, btl.Config{SendBuffers: 512})
	var eps [count][count]*btl.Endpoint
	var streams []*stream
	for i, from := range ranks {
		for j, to := range ranks {
			if i == j {
				continue
			}
			eps[i][j] = l.dial(from, to)
			s := l.stream(from, eps[i][j], to, spec{count: 48, size: rankSizes})
			s.onGot = func(ep *btl.Endpoint, _ int) {
				if ep != eps[j][i] {
					t.Errorf("rank %d has two connections to rank %d", j, i)
				}
			}
			streams = append(streams, s)
		}
	}
	l.allDone("all to all", streams...)
	l.settle()
	for i, n := range ranks {
		if got := len(n.accepted()); got != count-1 {
			t.Errorf("rank %d connected %d times to %d others", i, got, count-1)
		}
	}
}

// testOneToAll, model: fabtests multinode, pattern one2all. One of the receivers sleeps: it keeps
// nobody else waiting, and gets everything when it wakes up.
func testOneToAll(t *testing.T, fx *fixture) {
	const nap = 300 * time.Millisecond
	l := newLab(t, fx, opts{})
	root := l.add(btl.Config{SendBuffers: 256})
	leaves := l.addAll(5, btl.Config{SendBuffers: 256})
	eps := make([]*btl.Endpoint, len(leaves))
	for i, to := range leaves {
		eps[i] = l.connect(root, to)
	}
	streams := []*stream{l.stream(root, eps[0], leaves[0], spec{count: 1000, size: rankSizes})}
	l.until("one runs at full speed", func() bool { return streams[0].got > 300 })
	leaves[0].at.pause(nap)
	l.run(nap / 10)
	started := l.net.now()
	for i, to := range leaves[1:] {
		s := l.stream(root, eps[i+1], to, spec{count: 64, size: rankSizes})
		streams = append(streams, s)
	}
	l.allDone("all but the sleeper", streams[1:]...)
	if took := l.net.now().Sub(started); fx.virtual && !fx.rough && took >= nap/2 {
		t.Errorf("a receiver that slept for %v held the others up: %v", nap, took)
	}
	l.allDone("the sleeper", streams[0])
	l.settle()
}

// testAllToOne, model: fabtests multinode, pattern all2one. An incast into a receive buffer of the
// system's default size (208 KiB of a socket are 92 full datagrams): nothing is lost at message
// level, and on a network that loses nothing by itself next to nothing is sent twice.
func testAllToOne(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{queueDatagrams: 92})
	cfg := btl.Config{RecvBufferBytes: -1, SendBuffers: 512}
	root := l.add(cfg)
	leaves := l.addAll(8, cfg)
	if got := root.mod.Limits().CreditPackets; got > 92 {
		t.Errorf("the receive buffer is not small: %d credits", got)
	}
	var streams []*stream
	for _, from := range leaves {
		ep := l.dial(from, root)
		streams = append(streams, l.stream(from, ep, root, spec{count: 96, size: rankSizes}))
	}
	l.allDone("all to one", streams...)
	l.settle()
	sent, again := uint64(0), uint64(0)
	for _, n := range leaves {
		st := n.mod.Stats()
		sent, again = sent+st.SegmentsSent(), again+st.Retransmits()
	}
	t.Logf("%d packets, %d sent again", sent, again)
	if fx.virtual && !fx.rough && again > 0 {
		t.Errorf("%d of %d packets were sent again on a clean network", again, sent)
	}
}

// testRing, model: fabtests multinode, pattern ring. A token goes round, growing at each rank; then
// every rank sends to the next one at the same time.
func testRing(t *testing.T, fx *fixture) {
	const count, rounds = 6, 3
	const token btl.Tag = 10
	l := newLab(t, fx, opts{})
	ranks := l.addAll(count, btl.Config{SendBuffers: 512})
	next := make([]*btl.Endpoint, count)
	for i := range next {
		next[i] = l.dial(ranks[i], ranks[(i+1)%count])
	}
	hops := 0
	pass := func(i int) {
		f, err := next[i].Alloc(token, hops*1000)
		if err != nil {
			t.Fatal(err)
		}
		pattern(f.Bytes(), uint64(hops))
		if _, err := next[i].Send(next[i].Now(), f); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range ranks {
		n.handle(token, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			if hops%count != (i+count-1)%count || len(data) != hops*1000 ||
				!intact(data, uint64(hops)) {
				t.Errorf("rank %d: %d bytes, not the token of hop %d", i, len(data), hops)
			}
			if hops++; hops < count*rounds {
				pass(i)
			}
		})
	}
	pass(0)
	l.until("the token is home", func() bool { return hops == count*rounds })
	streams := make([]*stream, count)
	for i := range ranks {
		streams[i] = l.stream(ranks[i], next[i], ranks[(i+1)%count],
			spec{count: 64, size: rankSizes})
	}
	l.allDone("the ring", streams...)
	l.settle()
}

// testMultiEP, model: fabtests functional/multi_ep and rdm_shared_av. One module with endpoints to
// several peers, and to itself, and several streams on each; none of them mix (a stream's bytes
// tell where they belong).
func testMultiEP(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	hub := l.add(btl.Config{})
	others := l.addAll(3, btl.Config{})
	var streams []*stream
	both := func(a *node, ep *btl.Endpoint, b *node, back *btl.Endpoint) {
		for k := range 3 {
			size := mixed(12+k, 800+k, 1500+k, 20000+k)
			streams = append(streams, l.stream(a, ep, b, spec{count: 40, size: size}),
				l.stream(b, back, a, spec{count: 40, size: size}))
		}
	}
	self := l.connect(hub, hub)
	both(hub, self, hub, self)
	for _, n := range others {
		ep := l.connect(hub, n)
		l.until("connected", func() bool { return len(n.accepted()) == 1 })
		both(hub, ep, n, n.accepted()[0])
	}
	l.allDone("all streams", streams...)
	l.settle()
}

// testMultiDomain, model: fabtests functional/rdm_multi_domain. Pairs of modules that have nothing
// to do with each other, of different sizes, in one process; they close one after the other, and
// those that are left do not notice.
func testMultiDomain(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	type pair struct {
		a, b *node
		ep   *btl.Endpoint
	}
	var pairs []pair
	for _, cfg := range []btl.Config{
		{}, {MTUBytes: 1024, TinyBytes: 512}, {MTUBytes: 600, SendBuffers: 128}, {RecvDepth: 64},
	} {
		p := pair{a: l.add(cfg), b: l.add(cfg)}
		p.ep = l.dial(p.a, p.b)
		pairs = append(pairs, p)
	}
	for len(pairs) > 0 {
		var streams []*stream
		for _, p := range pairs {
			streams = append(streams, l.stream(p.a, p.ep, p.b, spec{count: 60, size: rankSizes}))
		}
		l.allDone(fmt.Sprintf("%d pairs", len(pairs)), streams...)
		l.settle()
		pairs[0].a.quit()
		pairs[0].b.quit()
		pairs = pairs[1:]
	}
}
