package pml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// town is a domain in which all endpoints except the first four are of one host.
type town struct{ fabric.Domain }

func (town) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}

func (d town) FormatName(name []byte) string { return net.JoinHostPort(string(d.Host(name)), "1") }

func (town) Host(name []byte) []byte {
	if n := len(name); n > 4 && binary.BigEndian.Uint32(name[n-4:]) > 4 {
		return []byte("crowd")
	}
	return name
}

// crowd is a Layer with a peer that receives and many connected peers that receive nothing.
type crowd struct {
	now     btl.Time
	l, good *Layer
	to      *Peer // the good one, as a peer of l
	bads    []*Peer
}

const crowdPeers = 1000

// newCrowd connects a Layer to a good peer, and to bad peers that then vanish without a word.
func newCrowd(t testing.TB, lc Config, count int, oneHost bool) *crowd {
	t.Helper()
	network := mem.New(mem.Config{MTUBytes: 2048})
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	open := func(cfg btl.Config) *Layer {
		sizes, err := cfg.DomainConfig(infos[0])
		if err != nil {
			t.Fatal(err)
		}
		domain, err := network.Open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		if oneHost {
			domain = town{domain}
		}
		m, err := btl.Open(domain, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		l, err := New(m, lc, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	patient := btl.Config{SendBuffers: 4096, FragmentsMax: 8192, PeerTimeout: time.Hour}
	c := &crowd{now: 1, l: open(patient), good: open(btl.Config{PeerTimeout: time.Hour})}
	c.to = c.connect(t, c.good)
	small := btl.Config{
		SendBuffers: 64, RecvDepth: 16, FragmentsMax: 64, PeersMax: 4, KeptPackets: -1,
	}
	for range count {
		bad := open(small)
		c.bads = append(c.bads, c.connect(t, bad))
		if err := bad.m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *crowd) step(t testing.TB, layers ...*Layer) btl.Time {
	t.Helper()
	c.now = c.now.Add(time.Microsecond)
	for _, l := range layers {
		if _, err := l.Progress(c.now); err != nil {
			t.Fatal(err)
		}
	}
	return c.now
}

func (c *crowd) connect(t testing.TB, other *Layer) *Peer {
	t.Helper()
	ep, err := c.l.m.Connect(c.now, other.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 1000 && !ep.Connected(); i++ {
		c.step(t, c.l, other)
	}
	for range 20 {
		c.step(t, c.l, other)
	}
	if !ep.Connected() {
		t.Fatal("not connected")
	}
	return c.l.Peer(ep)
}

// send begins a send to a peer.
func (c *crowd) send(t testing.TB, to *Peer, data []byte, mode Mode) *Request {
	t.Helper()
	r := new(Request)
	if err := c.l.Send(c.now, r, to, 1, data, mode); err != nil {
		t.Fatal(err)
	}
	return r
}

// wait is a reason for which all bad peers of a crowd wait.
type wait struct {
	name    string
	room    bool
	oneHost bool
}

var waits = []wait{{name: "credits"}, {"room, one host", true, true}, {"room, hosts", true, false}}

// newWaiters is a crowd whose bad peers wait.
func newWaiters(t testing.TB, w wait, count int) *crowd {
	t.Helper()
	if !w.room {
		c := newCrowd(t, Config{UnexpectedBytes: 2 * (64 + messageOverhead)}, count, w.oneHost)
		for _, p := range c.bads {
			for range 3 {
				c.send(t, p, make([]byte, 64), Eager)
			}
		}
		return c
	}
	c := newCrowd(t, Config{}, count, w.oneHost)
	for waiting := 0; waiting < len(c.bads); {
		waiting = 0
		for _, p := range c.bads {
			if p.sends.first == nil {
				c.send(t, p, make([]byte, 1000), Standard)
			}
			if p.sends.first != nil {
				waiting++
			}
		}
	}
	return c
}

// Passes beside peers that wait for credits or for room visit only the peers whose wait may have
// ended, and messages to another peer arrive.
func TestWaitingNotVisited(t *testing.T) {
	t.Parallel()
	const messages, mostOfPass = 50, 16
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			c := newWaiters(t, w, crowdPeers)
			for range 500 {
				c.step(t, c.l)
			}
			visits, most, passes := c.l.visits, uint64(0), 0
			for i := range messages {
				var recv Request
				if err := c.good.Recv(c.now, &recv, nil, 1, exactly, make([]byte, 64)); err != nil {
					t.Fatal(err)
				}
				send := c.send(t, c.to, make([]byte, 64), Eager)
				for begin := passes; !recv.Done() || !send.Done(); passes++ {
					before := c.l.visits
					c.step(t, c.l, c.good)
					if most = max(most, c.l.visits-before); passes-begin > 1000 {
						t.Fatalf("message %d does not arrive", i)
					}
				}
			}
			t.Logf("%d visits in %d passes, at most %d in a pass", c.l.visits-visits, passes, most)
			if most > mostOfPass || c.l.visits-visits > uint64(mostOfPass*passes/4) {
				t.Errorf("%d visits in %d passes, %d in one pass beside %d peers that wait",
					c.l.visits-visits, passes, most, crowdPeers)
			}
		})
	}
}

// settle makes passes while the Layer asks for them.
func (c *crowd) settle(t *testing.T) {
	t.Helper()
	for range 10_000 {
		c.step(t, c.l)
		if c.l.Deadline() > c.now {
			return
		}
	}
	t.Fatal("the deadline is always due")
}

// When peers end, the room that they held is free, and all other peers that wait send what there is
// room for, although no packet arrives.
func TestWaitersFillFreedRoom(t *testing.T) {
	t.Parallel()
	const count = 60
	c := newWaiters(t, wait{room: true}, count)
	var sends []*Request
	for _, p := range c.bads {
		for range 100 {
			sends = append(sends, c.send(t, p, make([]byte, 1000), Standard))
		}
	}
	left := func() (n int) {
		for _, p := range c.bads {
			if p.err == nil && p.sends.first != nil {
				n++
			}
		}
		return n
	}
	c.settle(t)
	for i := 0; i < count && left() > 0; i++ {
		before := 0
		for _, r := range sends {
			if r.Done() && r.Err() == nil {
				before++
			}
		}
		c.bads[i].ep.Abort()
		c.settle(t)
		after := 0
		for _, r := range sends {
			if r.Done() && r.Err() == nil {
				after++
			}
			if r.peer == c.bads[i] && !r.Done() {
				t.Fatal("a send to a peer that has ended has not ended")
			}
		}
		if after == before && left() > 0 {
			t.Fatalf("peer %d has ended, and no other message leaves", i)
		}
		for k, p := range c.bads[i+1:] {
			f, err := p.ep.Alloc(0, 1000)
			if errors.Is(err, btl.ErrAgain) {
				continue
			}
			if err == nil {
				err = p.ep.Free(f)
			}
			if err != nil || p.sends.first != nil {
				t.Fatalf("after the end of peer %d, peer %d has room and waits: %v", i, i+1+k, err)
			}
		}
	}
}

// Credits wake exactly the peer that gets them, and also a peer whose visit is due.
func TestCreditsWakeWaiter(t *testing.T) {
	t.Parallel()
	const count = 20
	c := newWaiters(t, wait{}, count)
	c.settle(t)
	for i, p := range c.bads {
		before := c.l.visits
		h := head{kind: kindCredit, number: 2, a: p.bytes}
		b := make([]byte, h.bytes())
		h.put(b)
		for range 1 + i%2 {
			c.l.arrive(p.ep, 0, b)
		}
		c.step(t, c.l)
		if p.sends.first != nil || c.l.visits != before+1 {
			t.Fatalf("peer %d has credits: waits %v, %d visits", i, p.sends.first != nil,
				c.l.visits-before)
		}
	}
	if c.l.hosts.queued() || c.l.busy.first != nil {
		t.Error("peers are left in the list")
	}
}

// The end of a peer that waits, in each kind of wait and before or after the event that ends the
// wait, ends its sends, and no pass visits the peer any more.
func TestWaiterEnds(t *testing.T) {
	t.Parallel()
	for _, w := range waits {
		for _, woken := range []bool{false, true} {
			c := newWaiters(t, w, 20)
			var sends []*Request
			for _, p := range c.bads {
				sends = append(sends, c.send(t, p, make([]byte, 64), Standard))
			}
			c.settle(t)
			for _, p := range c.bads {
				if woken {
					c.l.onRoom(p.ep)
				}
				p.ep.Abort()
				if woken {
					c.l.onRoom(p.ep) // would be told for a call before Abort
				}
			}
			c.settle(t)
			before := c.l.visits
			c.settle(t)
			for i, r := range sends {
				if !r.Done() || !errors.Is(r.Err(), ErrPeer) {
					t.Fatalf("%s: send %d: done %v, %v", w.name, i, r.Done(), r.Err())
				}
			}
			if c.l.visits != before {
				t.Errorf("%s: peers that have ended are visited", w.name)
			}
			if err := c.l.CheckIdle(); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	}
}

// A message behind one that waits for credits leaves when the first one is abandoned, if its own
// mode needs fewer credits.
func TestAbandonWakesNext(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{UnexpectedBytes: 1000}, 1, false)
	to := c.bads[0]
	const size = 400
	for range 2 {
		c.send(t, to, make([]byte, size), Eager)
	}
	first := c.send(t, to, make([]byte, size), Eager)
	second := c.send(t, to, make([]byte, size), Announce)
	c.settle(t)
	if first.Done() || second.state != queued {
		t.Fatal("the messages do not wait")
	}
	if !c.l.Abandon(first, errTotal) {
		t.Fatal("not abandoned")
	}
	c.step(t, c.l)
	if second.state != announced {
		t.Errorf("the second message is in state %d", second.state)
	}
}

// A message that waits for a request id leaves when an id is free, and other peers are visited.
func TestWaitForRequestID(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, 2, false)
	c.l.requests.Init(requestsBits, 1)
	var sends []*Request
	for range 2 {
		for _, p := range c.bads {
			sends = append(sends, c.send(t, p, make([]byte, 100), Announce))
		}
	}
	for range sends {
		before := c.l.visits
		c.step(t, c.l)
		c.step(t, c.l)
		i := slices.IndexFunc(sends, func(r *Request) bool { return r.state == announced })
		if i < 0 || c.l.visits-before > 4 {
			t.Fatalf("message %d is announced, %d visits", i, c.l.visits-before)
		}
		c.l.finish(sends[i], nil)
		c.l.settle()
	}
	c.step(t, c.l)
	if c.l.busy.first != nil {
		t.Error("a peer without messages is visited")
	}
}

// BenchmarkPassBesideWaiting measures a pass beside peers to which messages wait.
func BenchmarkPassBesideWaiting(b *testing.B) {
	for _, w := range waits {
		for _, count := range []int{0, crowdPeers} {
			b.Run(fmt.Sprintf("%s/%d", w.name, count), func(b *testing.B) {
				c := newWaiters(b, w, count)
				for range 1000 {
					c.step(b, c.l)
				}
				for b.Loop() {
					c.now++
					if _, err := c.l.Progress(c.now); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
