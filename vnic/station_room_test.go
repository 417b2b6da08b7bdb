package vnic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// crowd is a party that sends the messages of the test.
type crowd struct{ out []Outgoing }

func (*crowd) Receive(mono.Time, int, []byte) {}

func (*crowd) Disconnect(int) {}

func (c *crowd) Outbox() []Outgoing {
	out := c.out
	c.out = nil
	return out
}

// stationLab has a Station with peers. The connection to peer i has the number i+1.
type stationLab struct {
	*Station

	t      *testing.T
	nw     *sim.Network
	node   *sim.Node
	crowd  *crowd
	passes int
	got    []map[uint32]bool // messages that have arrived, by peer
}

// Progress implements sim.Process.
func (l *stationLab) Progress(now mono.Time) (int, error) {
	l.passes++
	return l.Station.Progress(now)
}

func (l *stationLab) module(node *sim.Node, cfg btl.Config) *btl.Module {
	l.t.Helper()
	cfg.Random = rand.New(rand.NewPCG(uint64(node.Index()), 5)).Uint64
	dc, err := cfg.DomainConfig(fabric.Info{MTUBytes: 1472, Provider: sim.ProviderName})
	if err != nil {
		l.t.Fatal(err)
	}
	dom, err := node.Open(dc)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// newStationLab connects a Station to peers whose acknowledgements are lost from then on.
func newStationLab(t *testing.T, peers int) *stationLab {
	t.Helper()
	nw, err := sim.New(sim.Config{Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	l := &stationLab{
		t: t, nw: nw, node: nw.Node("station"), crowd: new(crowd), got: make([]map[uint32]bool, peers),
	}
	m := l.module(l.node, btl.Config{SendBuffers: 64})
	if l.Station, err = newStation(&Station{m: m, party: l.crowd}); err != nil {
		t.Fatal(err)
	}
	l.node.Run(l)
	for i := range peers {
		node := nw.Node(fmt.Sprintf("peer%d", i))
		peer := l.module(node, btl.Config{})
		err := peer.HandleUpTo(TagManagement, MessageBytesMax,
			func(_ *btl.Endpoint, _ btl.Tag, b []byte) { l.got[i][le.Uint32(b)] = true })
		if err != nil {
			t.Fatal(err)
		}
		l.got[i] = make(map[uint32]bool)
		node.Run(peer)
		ep, err := m.Connect(nw.Now(), peer.Name())
		if err != nil {
			t.Fatal(err)
		}
		l.add(ep)
	}
	l.node.Kick()
	l.until(func() bool {
		for ep := range l.conns {
			if !ep.Connected() {
				return false
			}
		}
		return true
	})
	nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: d.To.Node == l.node.Index()}
	})
	return l
}

// until runs the network until cond holds.
func (l *stationLab) until(cond func() bool) {
	l.t.Helper()
	for end := l.nw.Now().Add(time.Minute); !cond(); {
		if l.nw.Now() > end || !l.nw.Step() {
			l.t.Fatal("not within a minute")
		}
	}
}

// post gives the Station messages for a peer, each of which fills most of a packet.
func (l *stationLab) post(peer, count int) {
	for n := range count {
		b := make([]byte, 1000)
		le.PutUint32(b, uint32(n))
		l.crowd.out = append(l.crowd.out, Outgoing{peer + 1, b})
	}
}

// pass makes the Station pass so many times.
func (l *stationLab) pass(times int) {
	for range times {
		l.node.Kick()
		l.nw.RunUntil(l.nw.Now().Add(time.Millisecond))
	}
}

// A pass of a Station does not look at the messages that wait for slow peers. When the peers take
// messages again, the module gets the messages for each peer in their order.
func TestStationBesideSlowPeers(t *testing.T) {
	const peers, each = 40, 100
	l := newStationLab(t, peers)
	for peer := range peers {
		l.post(peer, each)
	}
	l.pass(10)
	if len(l.waiting) != peers {
		t.Fatalf("messages to %d peers wait", len(l.waiting))
	}
	offers, passes := l.offers, l.passes
	l.pass(100)
	if passes = l.passes - passes; passes < 100 {
		t.Fatalf("%d passes", passes)
	}
	if n := l.offers - offers; n > uint64(passes) {
		t.Errorf("%d waiting messages are offered in %d passes", n, passes)
	}
	l.nw.SetFilter(nil)
	l.until(func() bool {
		for conn, waiting := range l.waiting {
			for i, b := range waiting {
				if n := int(le.Uint32(b)); n != each-len(waiting)+i {
					t.Fatalf("message %d on connection %d, place %d of %d", n, conn, i, len(waiting))
				}
			}
		}
		return !slices.ContainsFunc(l.got, func(got map[uint32]bool) bool { return len(got) < each })
	})
	if len(l.waiting) != 0 {
		t.Errorf("messages to %d peers wait at the end", len(l.waiting))
	}
}

// A peer for which too many messages wait is disconnected, and the messages of another peer arrive.
func TestStationEndsSlowPeer(t *testing.T) {
	l := newStationLab(t, 2)
	l.post(0, waitingMax+64)
	l.post(1, 10)
	l.pass(10)
	if l.Alive(1) || len(l.waiting[1]) != 0 || !l.Alive(2) {
		t.Errorf("connected: %v, %v; %d messages wait", l.Alive(1), l.Alive(2), len(l.waiting[1]))
	}
	l.nw.SetFilter(nil)
	l.until(func() bool { return len(l.got[1]) == 10 })
}
