package pml

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// crowd is a Layer with a peer that receives and many connected peers that receive nothing.
type crowd struct {
	now     btl.Time
	l, good *Layer
	to      *Peer // the good one, as a peer of l
	bads    []*Peer
}

const crowdPeers = 6 * busyVisits

// newCrowd connects a Layer to a good peer, and to bad peers that then vanish without a word.
func newCrowd(t testing.TB, lc Config, count int) *crowd {
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
	name string
	room bool
}

var waits = []wait{{"credits", false}, {"room", true}}

// waitForCredits makes a peer wait for credits.
func (c *crowd) waitForCredits(t testing.TB, p *Peer) (sends []*Request) {
	t.Helper()
	for range 3 {
		sends = append(sends, c.send(t, p, make([]byte, 64), Eager))
	}
	return sends
}

// fewCredits is the configuration of a Layer that accepts two messages of 64 bytes.
var fewCredits = Config{UnexpectedBytes: 2 * (64 + messageOverhead)}

// newWaiters is a crowd whose bad peers wait.
func newWaiters(t testing.TB, w wait, count int) *crowd {
	t.Helper()
	if !w.room {
		c := newCrowd(t, fewCredits, count)
		for _, p := range c.bads {
			c.waitForCredits(t, p)
		}
		return c
	}
	c := newCrowd(t, Config{}, count)
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

// order returns the busy peers, in the order of their turns.
func (c *crowd) order() (peers []*Peer) {
	for p := c.l.busy.peers.first; p != nil; p = p.busy.next {
		peers = append(peers, p)
	}
	return peers
}

// One call of Progress visits busyVisits of many waiting peers, a round visits all of them, and
// messages to another peer arrive.
func TestVisitsOfMany(t *testing.T) {
	t.Parallel()
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			c := newWaiters(t, w, crowdPeers)
			c.settle(t)
			for range 50 {
				before := c.order()
				c.step(t, c.l)
				if want := slices.Concat(before[busyVisits:], before[:busyVisits]); len(before) != crowdPeers ||
					!slices.Equal(c.order(), want) {
					t.Fatalf("a pass beside %d peers has not visited the next %d", len(before), busyVisits)
				}
			}
			for i := range 20 {
				var recv Request
				if err := c.good.Recv(c.now, &recv, nil, 1, ^uint64(0), make([]byte, 64)); err != nil {
					t.Fatal(err)
				}
				send := c.send(t, c.to, make([]byte, 64), Eager)
				for passes := 0; !recv.Done() || !send.Done(); passes++ {
					if c.step(t, c.l, c.good); passes > 100 {
						t.Fatalf("message %d does not arrive", i)
					}
				}
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

// A peer whose credits arrive in the middle of a round, after its turn, is visited again before the
// Layer sleeps.
func TestCreditsBehindTurn(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, fewCredits, 2*busyVisits)
	sends := c.waitForCredits(t, c.to)
	for _, p := range c.bads {
		c.waitForCredits(t, p)
	}
	c.settle(t)
	if sends[2].Done() || c.order()[0] != c.to {
		t.Fatal("the good peer does not have the first turn")
	}
	c.step(t, c.l)
	for range sends {
		var recv Request
		if err := c.good.Recv(c.now, &recv, nil, 1, ^uint64(0), make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	c.step(t, c.good)
	c.settle(t)
	if c.to.sends.first != nil {
		t.Error("the message waits, although its credits have arrived")
	}
}

// When peers end, the room that they held is free, and all other peers that wait send what there is
// room for, although no packet arrives.
func TestWaitersFillFreedRoom(t *testing.T) {
	t.Parallel()
	const count = 2*busyVisits + 10
	c := newWaiters(t, wait{room: true}, count)
	for _, p := range c.bads {
		for range 100 {
			c.send(t, p, make([]byte, 1000), Standard)
		}
	}
	c.settle(t)
	for i, ended := range c.bads {
		c.step(t, c.l) // in the middle of a round, if many peers are left
		ended.ep.Abort()
		c.settle(t)
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

// BenchmarkPassBesideWaiting measures a pass beside peers to which messages wait.
func BenchmarkPassBesideWaiting(b *testing.B) {
	for _, w := range waits {
		for _, count := range []int{0, 1000} {
			b.Run(fmt.Sprintf("%s/%d", w.name, count), func(b *testing.B) {
				c := newWaiters(b, w, count)
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
