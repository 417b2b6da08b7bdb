package fabrictest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"gobtl/fabric"
)

// testNoAllocations checks that the calls for sending, polling and receiving a packet do not
// allocate heap memory.
func testNoAllocations(t *testing.T, f *Fixture) {
	l := newLoop(t, f)
	for _, tc := range []struct {
		name string
		run  func()
	}{
		{"Poll of nothing", func() { l.poll(l.rx, 0) }},
		{"a datagram of 8 bytes", func() { l.exchange(1, 8) }},
		{"a datagram of a full MTU", func() { l.exchange(1, l.tx.caps.MTUBytes) }},
		{"a batch", func() { l.exchange(l.batch, 64) }},
	} {
		tc.run() // the first call may initialise something
		if got := testing.AllocsPerRun(200, tc.run); got != 0 {
			t.Errorf("%s: %v allocations", tc.name, got)
		}
	}
}

// The type "loop" is a sender and a receiver that call only functions of package fabric, so that a
// test can count the allocations in these functions.
type loop struct {
	tb      testing.TB
	tx, rx  *port
	to      fabric.Addr
	batch   int
	sends   [batchMax]fabric.Send
	bufs    [batchMax]fabric.Buf
	out     [batchMax]fabric.Completion
	waiting int
}

func newLoop(tb testing.TB, f *Fixture) *loop {
	l := &loop{tb: tb, tx: newPort(tb, f), rx: newPort(tb, f)}
	l.to = l.tx.insert(l.rx)
	l.batch = min(batchMax, l.rx.caps.RxDepth, l.rx.caps.RecvCapacity, l.tx.caps.TxDepth)
	for i := range l.bufs {
		l.bufs[i] = l.rx.take()
		l.sends[i] = fabric.Send{To: l.to, Buf: l.tx.take()}
	}
	if n, err := l.rx.ep.Recv(l.bufs[:l.batch]); err != nil {
		tb.Fatalf("Recv: %d, %v", n, err)
	}
	return l
}

func (l *loop) poll(q *port, want int) (received int) {
	for polls := 0; ; polls++ {
		n, err := q.ep.Poll(l.out[:])
		if err != nil {
			l.tb.Fatalf("Poll: %v", err)
		}
		posts := 0
		for i := range l.out[:n] {
			if l.out[i].Op == fabric.OpSend {
				l.waiting--
				continue
			}
			l.bufs[posts] = l.out[i].Buf
			posts++
		}
		if posts > 0 {
			if _, err := q.ep.Recv(l.bufs[:posts]); err != nil {
				l.tb.Fatalf("Recv: %v", err)
			}
		}
		received += posts
		if received >= want {
			return received
		}
		if polls == 1<<24 {
			l.tb.Fatalf("%d of %d datagrams arrived", received, want)
		}
	}
}

// The method "post" posts "count" datagrams of "size" bytes each.
func (l *loop) post(count, size int) {
	for i := range count {
		l.sends[i].Len = uint32(size)
	}
	for done := 0; done < count; {
		n, err := l.tx.ep.Post(l.sends[done:count])
		if err != nil && !errors.Is(err, fabric.ErrAgain) {
			l.tb.Fatalf("Post: %v", err)
		}
		if size > l.tx.caps.InjectBytes {
			l.waiting += n
		}
		if done += n; done < count {
			l.poll(l.tx, 0)
		}
	}
}

// The method "exchange" sends "count" datagrams from the endpoint tx, and receives them at the
// endpoint rx.
func (l *loop) exchange(count, size int) {
	l.post(count, size)
	l.poll(l.rx, count)
	for polls := 0; l.waiting > 0; polls++ {
		if l.poll(l.tx, 0); polls == 1<<24 {
			l.tb.Fatalf("%d sends do not complete", l.waiting)
		}
	}
}

// The type "stream" is the traffic from one endpoint to a second endpoint, with numbered datagrams
// of random sizes.
type stream struct {
	id       uint64
	tx, rx   *port
	to       fabric.Addr
	sent     uint64
	received uint64
}

// The method "message" returns the content of datagram number i of the stream.
func (s *stream) message(i uint64) []byte {
	rng := rand.New(rand.NewPCG(s.id, i))
	size := 16 + rng.IntN(s.tx.caps.MTUBytes-15)
	msg := pattern(s.id<<32|i, size)
	binary.LittleEndian.PutUint64(msg, s.id)
	binary.LittleEndian.PutUint64(msg[8:], i)
	return msg
}

// testRandomTraffic sends random batches among four endpoints of two domains.
func testRandomTraffic(t *testing.T, f *Fixture) {
	const steps = 3000
	seed := cmp.Or(f.Seed, rand.Uint64())
	t.Logf("seed %d: Fixture.Seed repeats it", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	left, right := newParty(t, f, fabric.DomainConfig{}), newParty(t, f, fabric.DomainConfig{})
	ports := []*port{
		left.open(f.Endpoint), left.open(f.Endpoint), right.open(f.Endpoint), right.open(f.Endpoint),
	}
	if ports[0].caps.MTUBytes < 64 {
		t.Skipf("%s: an MTU of %d has no room for the test's header", f.Name, ports[0].caps.MTUBytes)
	}
	var streams []*stream
	for _, tx := range ports {
		for _, rx := range ports {
			id := uint64(len(streams))
			streams = append(streams, &stream{id: id, tx: tx, rx: rx, to: tx.insert(rx)})
		}
	}
	unread := make(map[*port]int)
	for range steps {
		q := ports[rng.IntN(len(ports))]
		switch rng.IntN(4) {
		case 0:
			if limit := min(q.caps.RxDepth, 16); q.posted < limit {
				q.stock(1 + rng.IntN(limit-q.posted))
			}
		case 1:
			q.poll(1 + rng.IntN(batchMax))
			unread[q] -= q.check(streams)
		default:
			s := streams[rng.IntN(len(streams))]
			holds := s.rx.caps.RecvCapacity
			if s.rx.dom.Info().Reliable {
				holds = s.rx.posted
			}
			room := min(8, holds-unread[s.rx], len(s.tx.free)-batchMax)
			if room < 1 {
				continue
			}
			unread[s.rx] += s.burst(1 + rng.IntN(room))
			unread[s.tx] -= s.tx.check(streams)
		}
	}
	left.await("the rest of the traffic", func() bool {
		done := true
		for _, q := range ports {
			if q.posted == 0 {
				q.stock(1)
			}
			q.poll(batchMax)
			unread[q] -= q.check(streams)
			done = done && unread[q] == 0 && q.sending == 0
		}
		return done
	})
	for _, q := range ports {
		q.hush(0)
	}
}

func (s *stream) burst(count int) int {
	s.tx.tb.Helper()
	sends := make([]fabric.Send, count)
	for i := range sends {
		sends[i] = s.tx.load(s.to, s.message(s.sent))
		s.sent++
	}
	s.tx.postAll(sends)
	return count
}

func (q *port) check(streams []*stream) int {
	q.tb.Helper()
	for _, d := range q.arrived {
		if len(d.data) < 16 {
			q.fatalf("a datagram of %d bytes that nobody sent", len(d.data))
		}
		id := binary.LittleEndian.Uint64(d.data)
		if id >= uint64(len(streams)) || streams[id].rx != q {
			q.fatalf("a datagram of stream %d is not for this endpoint", id)
		}
		s := streams[id]
		if i := binary.LittleEndian.Uint64(d.data[8:]); i != s.received {
			q.fatalf("stream %d: datagram %d arrived, want %d", id, i, s.received)
		}
		if !bytes.Equal(d.data, s.message(s.received)) {
			q.fatalf("stream %d: datagram %d was altered", id, s.received)
		}
		s.received++
	}
	n := len(q.arrived)
	q.arrived = q.arrived[:0]
	return n
}

// testConcurrentDomains exchanges datagrams between pairs of domains, each domain on its own
// goroutine, so that the race detector can find data races.
func testConcurrentDomains(t *testing.T, f *Fixture) {
	const pairs, rounds = 2, 300
	var plays []func() // started only when the test can no longer skip
	for pair := range uint64(pairs) {
		ports := [2]*port{newPort(t, f), newPort(t, f)}
		if room := ports[0].burstRoom(); room < 2 {
			t.Skipf("%s: holds %d datagrams unread", f.Name, room)
		}
		for i, q := range ports {
			to := q.insert(ports[1-i])
			q.stock(min(8, q.caps.RxDepth))
			q.guest = true
			plays = append(plays, func() { pingPong(q, to, pair, i == 0, rounds) })
		}
	}
	var workers sync.WaitGroup
	for _, play := range plays {
		workers.Go(play)
	}
	workers.Wait()
}

// pingPong repeatedly sends a few datagrams and waits until the same number of datagrams has
// arrived from the peer.
func pingPong(q *port, to fabric.Addr, pair uint64, first bool, rounds int) {
	window := min(4, q.burstRoom()/2) // the peer may be one round ahead
	message := func(mine bool, round, i int) []byte {
		side := uint64(0)
		if mine == first {
			side = 1
		}
		return pattern(pair<<40|side<<32|uint64(round<<8|i), 1+(round*97+i)%q.caps.MTUBytes)
	}
	for round := range rounds {
		for i := range window {
			q.send(to, message(true, round, i))
		}
		for i := range window {
			q.await("the peer's datagrams", func() bool {
				if len(q.arrived) == 0 {
					q.poll(1)
				}
				return len(q.arrived) > 0
			})
			if !bytes.Equal(q.arrived[0].data, message(false, round, i)) {
				q.fatalf("round %d: datagram %d is not the peer's", round, i)
			}
			q.arrived = q.arrived[1:]
			q.stock(1)
		}
	}
	q.settle()
}
