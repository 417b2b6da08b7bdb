package conn

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric/sim"
	"gobtl/internal/testenv"
)

// simNode opens a Node without a Runner on a node of a simulated network.
func simNode(t *testing.T, node *sim.Node, seed uint64) *Node {
	t.Helper()
	random := seed
	cfg := btl.Config{SendBuffers: 256, RecvDepth: 256, Random: func() uint64 {
		random = random*6364136223846793005 + 1442695040888963407
		return random ^ random>>33
	}}
	dc, err := cfg.DomainConfig(node.Info())
	if err != nil {
		t.Fatal(err)
	}
	domain, err := node.Open(dc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(domain, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	m.OnRoom(n.room)
	node.Run(m)
	t.Cleanup(func() { _ = m.Close() })
	return n
}

// simResult is what a transfer in the simulator has done.
type simResult struct {
	hash, retransmits uint64 // of the network's events; of both modules
	took              time.Duration
	copied            int // sum of the numbers of copied messages after all steps
}

// transfer sends bytes through a Conn for each size of Writes, over a network that loses and
// reorders datagrams. If ringAtOnce is true, the receiving Conn copies no message that arrives
// while earlier bytes are missing: it stores all bytes in its ring buffer.
func transfer(t *testing.T, seed uint64, ringAtOnce bool) (r simResult) {
	t.Helper()
	const total = 300 << 10
	sizes := []int{100, 1000, 10_000, 50_000, total, total}
	nw, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	a, b := nw.Node("a"), nw.Node("b")
	path := sim.Path{
		Delay: 2 * time.Millisecond, Jitter: 100 * time.Microsecond, Loss: .05, Reorder: .2,
		ReorderDelay: 4 * time.Millisecond, BytesPerSecond: 2e7, QueueBytes: 1 << 20,
	}
	nw.SetPath(a, b, path)
	nw.SetPath(b, a, path)
	client, server := simNode(t, a, seed), simNode(t, b, seed+1)
	l := &Listener{n: server}
	server.listeners[""] = l
	var accepts []*request
	for range sizes {
		accepts = append(accepts, &request{})
	}
	l.accepts = accepts
	ep, err := client.m.Connect(nw.Now(), server.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	a.Kick()
	simUntil(t, nw, ep.Connected)
	began := nw.Now()
	data := make([]byte, total)
	for i := range data {
		data[i] = streamByte(uint64(i))
	}
	for i, size := range sizes {
		c := client.add(name{ep, true, uint32(i)}, "")
		c.due |= dueOpen
		c.advance()
		for at := 0; at < total; at += size {
			q := &request{conn: c, buf: data[at:min(at+size, total)]}
			if err := q.write(client.m, runner.Waker{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.Kick()
	simUntil(t, nw, func() bool {
		done := true
		for _, q := range accepts {
			if c := q.conn; c == nil {
				done = false
			} else {
				if ringAtOnce && c.ahead < 1<<40 {
					c.ahead += 1 << 41
				}
				r.copied += c.readSome(t, b)
				done = done && c.read == total
			}
		}
		return done
	})
	r.took = nw.Now().Sub(began)
	nw.RunUntil(nw.Now().Add(time.Second))
	for _, v := range nw.Violations() {
		t.Error(v)
	}
	sent, received := client.m.Stats(), server.m.Stats()
	r.hash, r.retransmits = nw.Hash(), sent.Retransmits()+received.Retransmits()
	return r
}

// readSome reads what there is, and returns the number of the Conn's copied messages.
func (c *Conn) readSome(t *testing.T, node *sim.Node) (copied int) {
	t.Helper()
	for _, s := range c.early {
		for m := s.copies.first; m != nil; m = m.next {
			copied++
		}
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	for c.read < c.next {
		at := c.read
		q := &request{conn: c, buf: make([]byte, 64<<10)}
		if err := q.read(c.n.m, runner.Waker{}); err != nil {
			t.Fatal(err)
		}
		for i, b := range q.buf[:q.n] {
			if b != streamByte(at+uint64(i)) {
				t.Fatalf("byte %d is wrong", at+uint64(i))
			}
		}
		node.Kick() // It may have to send a credit.
	}
	return copied
}

// simUntil lets virtual time pass until cond is true.
func simUntil(t *testing.T, nw *sim.Network, cond func() bool) {
	t.Helper()
	for end := nw.Now().Add(time.Minute); !cond(); {
		if nw.Now() > end || !nw.Step() {
			t.Fatal("it takes too long")
		}
	}
}

// Honest peers lose no goodput by copied messages: over a network with loss and reordering, the
// same datagrams are sent at the same times as if each early byte were in a ring buffer at once.
func TestEarlyGoodput(t *testing.T) {
	first, copied := testenv.Seed(t, 1), 0
	for seed := first; seed < first+5; seed++ {
		got, want := transfer(t, seed, false), transfer(t, seed, true)
		t.Logf("seed %d: %v, %d retransmissions, %d copies in all steps", seed, got.took,
			got.retransmits, got.copied)
		if want.copied != 0 || got.retransmits == 0 {
			t.Errorf("%d copies with a ring at once, %d retransmissions", want.copied, got.retransmits)
		}
		copied += got.copied
		got.copied = 0
		if got != want {
			t.Errorf("%+v, with a ring buffer at once %+v", got, want)
		}
	}
	if copied == 0 {
		t.Error("no message was copied")
	}
}
