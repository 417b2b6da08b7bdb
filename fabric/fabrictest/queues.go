package fabrictest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"gobtl/fabric"
)

// bigSend returns a datagram size that is too large for an injected send, so that the send yields a
// Completion. The result of bigSend is 0 if the provider injects all sends.
func bigSend(c fabric.Caps) int {
	if c.InjectBytes >= c.MTUBytes {
		return 0
	}
	return c.MTUBytes
}

// testInjectLeavesBuffer overwrites the buffer of an injected send as soon as Post has returned.
func testInjectLeavesBuffer(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	if a.caps.InjectBytes == 0 {
		t.Logf("%s injects nothing", f.Name)
	}
	for i, size := range []int{1, 8, a.caps.InjectBytes / 2, a.caps.InjectBytes} {
		if size == 0 || size > a.caps.InjectBytes {
			continue
		}
		b.stock(1)
		want := pattern(uint64(i), size)
		s := a.load(to, want)
		a.postAll([]fabric.Send{s})
		fill(a.arena.Bytes(s.Buf), 0xdead)
		a.hush(0) // a completion of the send would fail the test
		b.expect(want)
	}
}

// testSendCompletions posts injected sends and sends that are too large for injection in one batch.
func testSendCompletions(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	large := bigSend(a.caps)
	if large == 0 {
		t.Logf("%s injects everything up to its MTU of %d", f.Name, a.caps.MTUBytes)
		large = a.caps.MTUBytes
	}
	for round := range uint64(8) {
		var sends []fabric.Send
		var want [][]byte
		for i := range min(6, b.burstRoom()) {
			size := 1
			if (i+int(round))%3 != 0 {
				size = large
			}
			want = append(want, pattern(round*10+uint64(i), size))
			sends = append(sends, a.load(to, want[i]))
		}
		b.stock(len(sends))
		a.postAll(sends)
		b.expect(want...)
		a.settle()
		a.hush(0)
	}
}

func testTxQueueFull(t *testing.T, f *Fixture) {
	cfg := f.Endpoint
	cfg.TxDepth = 16
	probe := newParty(t, f, fabric.DomainConfig{}).open(cfg)
	depth := probe.caps.TxDepth
	size := bigSend(probe.caps)
	if size == 0 {
		t.Skipf("%s: every send is injected, none waits for completion", f.Name)
	}
	if depth > 1<<14 {
		t.Skipf("%s: asked for a TxDepth of 16, got %d: too many to fill", f.Name, depth)
	}
	room := fabric.DomainConfig{Buffers: depth + 8 + batchMax}
	a := newParty(t, f, room).open(cfg)
	b := newParty(t, f, room).open(f.Endpoint)
	to := a.insert(b)
	b.stock(min(depth, b.caps.RxDepth))
	for round := range uint64(3) {
		var sends []fabric.Send
		var want [][]byte
		for i := range depth + 8 {
			want = append(want, pattern(round<<32|uint64(i), size))
			sends = append(sends, a.load(to, want[i]))
		}
		n, err := a.post(sends)
		if !errors.Is(err, fabric.ErrAgain) || n < 1 || n > depth {
			t.Fatalf("Post of %d sends, TxDepth %d, took %d: %v", len(sends), depth, n, err)
		}
		if more, err := a.post(sends[n:]); n+more > depth || !errors.Is(err, fabric.ErrAgain) {
			t.Fatalf("with %d sends waiting of %d, Post took %d more: %v", n, depth, more, err)
		} else {
			n += more
		}
		for _, s := range sends[n:] {
			a.give(s.Buf)
		}
		a.settle()
		if n > b.caps.RecvCapacity || n > b.caps.RxDepth {
			b.arrived = nil // lost datagrams beyond the capacity are not the sender's fault
			continue
		}
		b.expect(want[:n]...)
		b.stock(n)
	}
}

func testRxQueueFull(t *testing.T, f *Fixture) {
	cfg := f.Endpoint
	cfg.RxDepth = 16
	depth := newParty(t, f, fabric.DomainConfig{}).open(cfg).caps.RxDepth
	if depth > 1<<16 {
		t.Skipf("%s: asked for a RxDepth of 16, got %d: too many to fill", f.Name, depth)
	}
	p := newParty(t, f, fabric.DomainConfig{Buffers: depth + 40})
	rx, tx := p.open(cfg), p.open(f.Endpoint)
	to := p.insert(rx)
	bufs := make([]fabric.Buf, depth+8)
	for i := range bufs {
		bufs[i] = p.take()
	}
	if n, err := rx.recv(bufs); n != depth || !errors.Is(err, fabric.ErrAgain) {
		t.Fatalf("Recv of %d buffers, RxDepth %d, took %d: %v", len(bufs), depth, n, err)
	}
	for i := range uint64(4) {
		if n, err := rx.recv([]fabric.Buf{p.take()}); n != 0 || !errors.Is(err, fabric.ErrAgain) {
			t.Fatalf("Recv beyond RxDepth took %d: %v", n, err)
		}
		want := pattern(i, 33)
		tx.send(to, want)
		rx.expect(want)
		rx.stock(1)
	}
}

// testReceiveBuffersRotate posts each receive buffer again after use, and receives many more
// datagrams than there are receive buffers.
func testReceiveBuffersRotate(t *testing.T, f *Fixture) {
	a := newPort(t, f)
	b := newParty(t, f, fabric.DomainConfig{Buffers: 5}).open(f.Endpoint)
	to := a.insert(b)
	inside := min(5, b.caps.RxDepth, b.caps.RecvCapacity)
	b.stock(inside)
	seen := make(map[string]bool)
	for i := range uint64(60) {
		var want [][]byte
		for j := range 1 + int(i)%inside {
			want = append(want, pattern(i<<8|uint64(j), 16))
			a.send(to, want[j])
			seen[string(want[j])] = true
		}
		b.expect(want...)
		b.stock(len(want))
	}
	// The provider must not report the same posted buffer in two completions.
	if b.posted != inside || len(b.free) != 5-inside {
		t.Fatalf("%d buffers posted and %d free of 5", b.posted, len(b.free))
	}
}

func capacityRun(t *testing.T, f *Fixture) (tx, rx *port, to fabric.Addr) {
	caps := newPort(t, f).caps
	tx = newPort(t, f)
	rx = newParty(t, f, fabric.DomainConfig{Buffers: caps.RxDepth + batchMax}).open(f.Endpoint)
	rx.stock(rx.caps.RxDepth)
	return tx, rx, tx.insert(rx)
}

func (q *port) sequence(to fabric.Addr, count int) {
	q.tb.Helper()
	size := max(q.caps.MTUBytes, 4)
	for i := range count {
		msg := pattern(uint64(i), size)
		binary.LittleEndian.PutUint32(msg, uint32(i))
		q.send(to, msg)
	}
}

func (q *port) checkSequence(d datagram) int {
	q.tb.Helper()
	if len(d.data) != max(q.caps.MTUBytes, 4) {
		q.fatalf("a datagram has %d bytes, want %d", len(d.data), q.caps.MTUBytes)
	}
	i := binary.LittleEndian.Uint32(d.data)
	want := pattern(uint64(i), len(d.data))
	if !bytes.Equal(d.data[4:], want[4:]) {
		q.fatalf("the datagram that says it is number %d was altered", i)
	}
	return int(i)
}

const maxCapacityTested = 8192

// testRecvCapacity sends Caps.RecvCapacity full-size datagrams to one endpoint, which polls only
// after the last send.
func testRecvCapacity(t *testing.T, f *Fixture) {
	tx, rx, to := capacityRun(t, f)
	count := min(rx.caps.RecvCapacity, maxCapacityTested)
	tx.sequence(to, count)
	tx.settle()
	for next := 0; next < count; {
		rx.await("the datagrams that RecvCapacity promises", func() bool {
			rx.poll(batchMax)
			return len(rx.arrived) > 0
		})
		for _, d := range rx.arrived {
			if i := rx.checkSequence(d); i != next {
				t.Fatalf("RecvCapacity is %d; of %d datagrams left unread, number %d is missing (got %d)",
					rx.caps.RecvCapacity, count, next, i)
			}
			next++
		}
		rx.stock(len(rx.arrived))
		rx.arrived = rx.arrived[:0]
	}
	rx.hush(0)
}

// testOverflow sends far more datagrams than the receiver promises to hold (Caps.RecvCapacity). The
// network may lose datagrams beyond the receiver's RecvCapacity, but must not alter or duplicate a
// datagram.
func testOverflow(t *testing.T, f *Fixture) {
	const again = 10_000
	tx, rx, to := capacityRun(t, f)
	count := min(4*rx.caps.RecvCapacity, 2*maxCapacityTested)
	tx.sequence(to, count)
	tx.settle()
	last, want := -1, pattern(7, 77)
	drain := func() (over bool) {
		for rx.poll(batchMax) > 0 {
			for _, d := range rx.arrived {
				if bytes.Equal(d.data, want) {
					over = true
					continue
				}
				i := rx.checkSequence(d)
				if i <= last || i >= count {
					t.Fatalf("datagram %d arrived after %d", i, last)
				}
				last = i
			}
			rx.stock(len(rx.arrived))
			rx.arrived = rx.arrived[:0]
		}
		return over
	}
	empty := 0
	rx.await("a datagram after the flood", func() bool {
		if drain() {
			return true
		}
		if empty%again == 0 {
			tx.send(to, want)
			tx.settle()
		}
		empty++
		return false
	})
	if last < 0 {
		t.Fatalf("none of %d datagrams arrived", count)
	}
}

// testOversize tries to send datagrams that are larger than the MTU, and datagrams that are larger
// than a buffer.
func testOversize(t *testing.T, f *Fixture) {
	mtu := newPort(t, f).caps.MTUBytes
	a := newParty(t, f, fabric.DomainConfig{BufferBytes: mtu + 64}).open(f.Endpoint)
	b := newParty(t, f, fabric.DomainConfig{BufferBytes: mtu + 64}).open(f.Endpoint)
	a.tolerant, b.tolerant = true, true
	to := a.insert(b)
	b.stock(8)
	room := uint32(a.arena.Size())
	for _, size := range []uint32{uint32(mtu) + 1, room, room + 1, 1 << 31, 1<<32 - 1} {
		s := a.load(to, nil)
		fill(a.arena.Bytes(s.Buf), 1)
		s.Len = size
		n, err := a.post([]fabric.Send{s})
		if n == 0 {
			if errors.Is(err, fabric.ErrAgain) || errors.Is(err, fabric.ErrClosed) {
				t.Fatalf("%d bytes, MTU %d: %v", size, mtu, err)
			}
			a.give(s.Buf)
			continue
		}
		if size > room {
			t.Fatalf("a send of %d bytes from a buffer of %d was taken", size, room)
		}
		a.settle()
		if len(a.spoiled) == 0 {
			t.Fatalf("a send of %d bytes, MTU %d, ended as a success", size, mtu)
		}
		a.spoiled = nil
	}
	want := pattern(5, mtu)
	a.send(to, want)
	b.expect(want)
	a.settle()
}

// testTruncation receives datagrams that are larger than the posted buffers.
func testTruncation(t *testing.T, f *Fixture) {
	if f.NoTruncation != "" {
		t.Skipf("%s: %s", f.Name, f.NoTruncation)
	}
	a := newPort(t, f)
	b := newParty(t, f, fabric.DomainConfig{Buffers: 16, BufferBytes: 128}).open(f.Endpoint)
	b.tolerant = true
	to := a.insert(b)
	size := b.arena.Size()
	if size >= a.caps.MTUBytes {
		t.Skipf("%s: buffers of %d bytes, no datagram is larger", f.Name, size)
	}
	for i, length := range []int{size + 1, a.caps.MTUBytes, size + 1, min(size+64, a.caps.MTUBytes)} {
		for n := range b.arena.Len() {
			fill(b.arena.Bytes(fabric.Buf(n)), uint64(n))
		}
		b.stock(1)
		posted := b.lastTaken()
		a.send(to, pattern(99, length))
		b.await("the completion of a truncated datagram", func() bool {
			b.poll(batchMax)
			return len(b.spoiled) == i+1 || len(b.arrived) > 0
		})
		if len(b.arrived) > 0 {
			t.Fatalf("%d bytes arrived in a buffer of %d as %d good ones", length, size,
				len(b.arrived[0].data))
		}
		for n := range b.arena.Len() {
			if n != int(posted) && !bytes.Equal(b.arena.Bytes(fabric.Buf(n)), pattern(uint64(n), size)) {
				t.Fatalf("%d bytes into buffer %d of %d bytes spoilt buffer %d", length, posted, size, n)
			}
		}
		b.stock(1)
		whole := pattern(uint64(i), size)
		a.send(to, whole)
		b.expect(whole)
	}
	a.settle()
}

func (q *port) lastTaken() fabric.Buf {
	q.tb.Helper()
	for b, o := range q.owner {
		if o.port == q && o.op == fabric.OpRecv {
			return fabric.Buf(b)
		}
	}
	q.fatalf("no buffer is posted")
	return 0
}

func testBuffersOutsideArena(t *testing.T, f *Fixture) {
	a, b := newPort(t, f), newPort(t, f)
	to := a.insert(b)
	for _, bad := range []fabric.Buf{fabric.Buf(a.arena.Len()), 1 << 31, ^fabric.Buf(0)} {
		if n, err := a.ep.Post([]fabric.Send{{To: to, Buf: bad, Len: 8}}); n != 0 || err == nil {
			t.Errorf("Post of buffer %d of %d returned %d, %v", bad, a.arena.Len(), n, err)
		}
		if n, err := a.ep.Recv([]fabric.Buf{bad}); n != 0 || err == nil {
			t.Errorf("Recv of buffer %d of %d returned %d, %v", bad, a.arena.Len(), n, err)
		}
	}
	b.stock(1)
	a.send(to, []byte("still here"))
	b.expect([]byte("still here"))
}
