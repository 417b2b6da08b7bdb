package fabrictest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gobtl/fabric"
)

func testAttributes(t *testing.T, f *Fixture) {
	cfg := fabric.DomainConfig{Buffers: 24, BufferBytes: 200}
	p := newParty(t, f, cfg)
	if p.arena.Len() != cfg.Buffers || p.arena.Size() < cfg.BufferBytes {
		t.Errorf("arena of %d x %d bytes, want %d x %d", p.arena.Len(), p.arena.Size(), cfg.Buffers,
			cfg.BufferBytes)
	}
	a, b := p.open(f.Endpoint), p.open(f.Endpoint)
	info := p.dom.Info()
	if info.Provider == "" || info.Domain == "" || info.MTUBytes <= 0 {
		t.Errorf("Info lacks provider, domain or MTU: %+v", info)
	}
	c := a.caps
	if c.MTUBytes <= 0 || c.MTUBytes > info.MTUBytes {
		t.Errorf("Caps.MTUBytes is %d, Info's %d", c.MTUBytes, info.MTUBytes)
	}
	if c.InjectBytes < 0 || c.InjectBytes > c.MTUBytes {
		t.Errorf("Caps.InjectBytes is %d of an MTU of %d", c.InjectBytes, c.MTUBytes)
	}
	if c.TxDepth < 1 || c.RxDepth < 1 || c.RecvCapacity < 1 || c.RecvBufferBytes < 0 {
		t.Errorf("depths out of range: %+v", c)
	}
	if again := a.ep.Caps(); again != c {
		t.Errorf("Caps changed from %+v to %+v", c, again)
	}
	if !info.Source && c.Source {
		t.Error("Caps.Source without Info.Source")
	}
	if _, ok := p.dom.(fabric.Waiter); info.CanWait && !ok {
		t.Error("Info.CanWait, but the domain is no Waiter")
	}
	name := a.ep.Name()
	if len(name) == 0 || len(name) > fabric.MaxNameBytes {
		t.Errorf("name of %d bytes, want 1 to %d", len(name), fabric.MaxNameBytes)
	}
	if bytes.Equal(name, b.ep.Name()) {
		t.Errorf("two endpoints are named %x", name)
	}
	want := bytes.Clone(name)
	clear(name) // the caller owns the slice
	if got := a.ep.Name(); !bytes.Equal(got, want) {
		t.Errorf("the name was %x and is %x now", want, got)
	}
	wide := newParty(t, f, fabric.DomainConfig{Buffers: 1})
	if wide.arena.Size() < info.MTUBytes {
		t.Errorf("default buffers have %d bytes, less than the MTU of %d", wide.arena.Size(),
			info.MTUBytes)
	}
}

func testArenaBuffersAreApart(t *testing.T, f *Fixture) {
	p := newParty(t, f, fabric.DomainConfig{Buffers: 9, BufferBytes: 100})
	for b := range p.arena.Len() {
		room := p.arena.Bytes(fabric.Buf(b))
		if len(room) != p.arena.Size() || cap(room) != len(room) {
			t.Fatalf("buffer %d has len %d cap %d, want %d", b, len(room), cap(room), p.arena.Size())
		}
		fill(room, uint64(b))
	}
	for b := range p.arena.Len() {
		if !bytes.Equal(p.arena.Bytes(fabric.Buf(b)), pattern(uint64(b), p.arena.Size())) {
			t.Fatalf("buffer %d overlaps another", b)
		}
	}
}

// testExchangeBothWays sends datagrams in both directions, like the test "dgram" in fabtests
// (libfabric's test suite).
func testExchangeBothWays(t *testing.T, f *Fixture) {
	client, server := newPort(t, f), newPort(t, f)
	client.stock(4)
	server.stock(4)
	client.send(client.insert(server), client.ep.Name())

	got := server.collect(1)
	back, err := server.dom.Insert(got[0].data)
	if err != nil {
		t.Fatalf("inserting the name that came in the datagram: %v", err)
	}
	server.send(back, []byte("pong"))
	client.expect([]byte("pong"))
	for i := range uint64(20) {
		there, here := pattern(i, 100), pattern(^i, 50)
		client.stock(1)
		server.stock(1)
		client.send(client.insert(server), there)
		server.expect(there)
		server.send(back, here)
		client.expect(here)
	}
}

// edgeSizes returns datagram sizes near which the behaviour of a provider could change, such as
// word sizes, cache lines, the inject limit and the MTU.
func edgeSizes(f *Fixture, c fabric.Caps) []int {
	sizes := []int{
		1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513,
		767, 768, 769, 1023, 1024, 1025, c.InjectBytes - 1, c.InjectBytes, c.InjectBytes + 1,
		c.MTUBytes / 2, c.MTUBytes - 2, c.MTUBytes - 1, c.MTUBytes,
	}
	if f.NoZeroLength == "" {
		sizes = append(sizes, 0)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	return slices.DeleteFunc(sizes, func(n int) bool {
		return n < 0 || n > c.MTUBytes || n == 0 && f.NoZeroLength != ""
	})
}

func testSizes(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	if f.NoZeroLength != "" {
		t.Logf("without size 0: %s", f.NoZeroLength)
	}
	for i, size := range edgeSizes(f, a.caps) {
		b.stock(1)
		want := pattern(uint64(i), size)
		a.send(to, want)
		b.expect(want)
	}
	a.settle()
}

// testEndpointsDoNotMix sends datagrams between endpoints of two domains, and checks that each
// datagram arrives at the endpoint to which it was sent.
func testEndpointsDoNotMix(t *testing.T, f *Fixture) {
	left, right := newParty(t, f, fabric.DomainConfig{}), newParty(t, f, fabric.DomainConfig{})
	from := []*port{left.open(f.Endpoint), left.open(f.Endpoint)}
	to := []*port{right.open(f.Endpoint), right.open(f.Endpoint), left.open(f.Endpoint)}
	want := make([][][]byte, len(to))
	for i, tx := range from {
		for j, rx := range to {
			msg := fmt.Appendf(nil, "from %d to %d", i, j)
			want[j] = append(want[j], msg)
			rx.stock(1)
			tx.send(tx.insert(rx), msg)
		}
	}
	for j, rx := range to {
		rx.expectAnyOrder(want[j]...) // endpoints have no order among each other
	}
}

func testThreeDomains(t *testing.T, f *Fixture) {
	ports := []*port{newPort(t, f), newPort(t, f), newPort(t, f)}
	for i, tx := range ports {
		for j, rx := range ports {
			if i == j {
				continue
			}
			msg := fmt.Appendf(nil, "domain %d to %d", i, j)
			rx.stock(1)
			tx.send(tx.insert(rx), msg)
			rx.expect(msg)
		}
	}
}

func testSendToSelf(t *testing.T, f *Fixture) {
	q := newPort(t, f)
	self := q.insert(q)
	q.stock(2)
	small, large := pattern(1, 8), pattern(2, q.caps.MTUBytes)
	q.send(self, small)
	if q.burstRoom() < 2 {
		q.expect(small)
		q.send(self, large)
		q.expect(large)
	} else {
		q.send(self, large)
		q.expect(small, large)
	}
	q.settle()
}

// testBatchOrder posts batches of sends of every batch size, and checks the order of the received
// datagrams.
func testBatchOrder(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	for size := 1; size <= min(batchMax, b.caps.RecvCapacity, b.caps.RxDepth); size++ {
		b.stock(size)
		var sends []fabric.Send
		var want [][]byte
		for i := range size {
			msg := pattern(uint64(size*100+i), 1+(i*397)%a.caps.MTUBytes)
			want = append(want, msg)
			sends = append(sends, a.load(to, msg))
		}
		a.postAll(sends)
		b.await("the batch to arrive", func() bool {
			b.poll(1 + size/2)
			return len(b.arrived) >= size
		})
		b.expect(want...)
		a.settle()
	}
	if n, err := a.ep.Post(nil); n != 0 || err != nil {
		t.Errorf("Post of an empty batch: %d, %v", n, err)
	}
	if n, err := b.ep.Recv(nil); n != 0 || err != nil {
		t.Errorf("Recv of no buffers: %d, %v", n, err)
	}
}

// testBatchStopsAtBadSend posts a batch with an invalid send in the middle. Post must accept the
// sends before the invalid send, and must return the index of the invalid send. The next Post must
// accept the sends that follow the invalid send.
func testBatchStopsAtBadSend(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	if b.burstRoom() < 4 {
		t.Skipf("%s: holds %d datagrams unread", f.Name, b.burstRoom())
	}
	b.stock(4)
	good := [][]byte{pattern(1, 10), pattern(2, 20), pattern(3, 30), pattern(4, 40)}
	sends := []fabric.Send{
		a.load(to, good[0]), a.load(to, good[1]), a.load(fabric.AddrUnknown, pattern(9, 50)),
		a.load(to, good[2]), a.load(to, good[3]),
	}
	n, err := a.post(sends)
	if n != 2 || err == nil || errors.Is(err, fabric.ErrAgain) || errors.Is(err, fabric.ErrClosed) {
		t.Fatalf("Post with a send to AddrUnknown in place 2 returned %d, %v", n, err)
	}
	a.postAll(sends[3:])
	b.expect(good...)
	a.settle()
}

func testPollNothing(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	for _, stocked := range []int{0, 3} {
		a.stock(stocked)
		for range 100 {
			if n := a.poll(batchMax); n != 0 {
				t.Fatalf("Poll of a silent endpoint with %d receives posted returned %d", stocked, n)
			}
		}
	}
	// A Poll with an empty slice must lose nothing.
	b.send(b.insert(a), []byte("x"))
	for range 100 {
		if n, err := a.ep.Poll(nil); n != 0 || err != nil {
			t.Fatalf("Poll without room returned %d, %v", n, err)
		}
	}
	a.expect([]byte("x"))
}

// testPollOne polls for one completion at a time while several completions are ready.
func testPollOne(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	b.stock(8)
	count := min(8, b.caps.RecvCapacity)
	var want [][]byte
	for i := range count {
		want = append(want, pattern(uint64(i), 100))
		a.send(to, want[i])
	}
	for i := range count {
		b.await("a datagram, polling for one", func() bool { return b.poll(1) == 1 })
		if len(b.arrived) != i+1 {
			t.Fatalf("after %d polls for one, %d datagrams are here", i+1, len(b.arrived))
		}
	}
	b.expect(want...)
}
