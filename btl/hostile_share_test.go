package btl_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// crowdTown is a domain in which all nodes whose names begin with "crowd" belong to one host.
type crowdTown struct {
	fabric.Domain
	nw *sim.Network
}

func (crowdTown) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}

func (d crowdTown) FormatName(name []byte) string {
	return net.JoinHostPort(string(d.Host(name)), "1")
}

func (d crowdTown) Host(name []byte) []byte {
	p, err := sim.ParsePort(name)
	if err == nil && strings.HasPrefix(d.nw.Nodes()[p.Node].Name(), "crowd") {
		return []byte("crowd")
	}
	return name
}

// crowdLab is a module with default settings, to which a crowd of one host connects.
type crowdLab struct {
	t     *testing.T
	nw    *sim.Network
	node  *sim.Node
	m     *btl.Module
	crowd []*btl.Endpoint // of m
	nodes []*sim.Node     // of the crowd
}

func newCrowdLab(t *testing.T, count int) *crowdLab {
	t.Helper()
	nw, err := sim.New(sim.Config{Seed: 1, QueueDatagrams: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nw.Close)
	l := &crowdLab{t: t, nw: nw}
	l.node, l.m = l.open("server", btl.Config{PackBytes: 1})
	l.m.OnRoom(func(*btl.Endpoint) {})
	l.m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, _ error) {
		if ev == btl.EventConnected {
			l.crowd = append(l.crowd, ep)
		}
	})
	small := btl.Config{SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 4, PackBytes: 1}
	for i := range count {
		node, m := l.open(fmt.Sprintf("crowd%d", i), small)
		l.nodes = append(l.nodes, node)
		if err := m.Handle(5, func(*btl.Endpoint, btl.Tag, []byte) {}); err != nil {
			t.Fatal(err)
		}
		ep, err := m.Connect(nw.Now(), l.m.Name())
		if err != nil {
			t.Fatal(err)
		}
		l.path(node, sim.Path{Delay: 5 * time.Millisecond})
		node.Kick()
		l.until(ep.Connected)
	}
	l.run(100 * time.Millisecond)
	return l
}

func (l *crowdLab) open(name string, cfg btl.Config) (*sim.Node, *btl.Module) {
	l.t.Helper()
	node := l.nw.Node(name)
	dc, err := cfg.DomainConfig(node.Info())
	if err != nil {
		l.t.Fatal(err)
	}
	dom, err := node.Open(dc)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := btl.Open(crowdTown{dom, l.nw}, cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	node.Run(m)
	l.t.Cleanup(func() { _ = m.Close() })
	return node, m
}

func (l *crowdLab) path(other *sim.Node, p sim.Path) {
	l.nw.SetPath(other, l.node, p)
	l.nw.SetPath(l.node, other, p)
}

func (l *crowdLab) run(d time.Duration) { l.nw.RunUntil(l.nw.Now().Add(d)) }

func (l *crowdLab) until(cond func() bool) {
	l.t.Helper()
	for end := l.nw.Now().Add(5 * time.Second); !cond(); {
		if l.nw.Now() > end || !l.nw.Step() {
			l.t.Fatal("it takes too long")
		}
	}
}

// slowDown makes the crowd look at its sockets every 4 s, for 20 ms, and the module send messages
// of 1000 bytes to each of the crowd.
func (l *crowdLab) slowDown() {
	const cycle, awake = 4 * time.Second, 20 * time.Millisecond
	for i, node := range l.nodes {
		var sleep func()
		sleep = func() {
			node.Pause(cycle - awake)
			l.nw.After(cycle, sleep)
		}
		l.nw.After(cycle*time.Duration(i)/time.Duration(len(l.nodes)), sleep)
	}
	crowd := l.crowd
	var tell func()
	tell = func() {
		for _, ep := range crowd {
			for n := 0; n < 16 && l.send(ep); n++ {
			}
		}
		l.node.Kick()
		l.nw.After(50*time.Millisecond, tell)
	}
	tell()
	l.run(2 * cycle)
}

func (l *crowdLab) send(ep *btl.Endpoint) bool {
	f, err := ep.Alloc(5, 1000)
	if err != nil {
		return false
	}
	if _, err := ep.Send(l.nw.Now(), f); err != nil {
		_ = ep.Free(f)
		return false
	}
	return true
}

// honestRate is the number of bytes a second that the module sends to a peer of another host, over
// a path with a round trip of 20 ms.
func (l *crowdLab) honestRate() float64 {
	l.t.Helper()
	node, m := l.open("honest", btl.Config{})
	l.path(node, sim.Path{Delay: 10 * time.Millisecond, BytesPerSecond: 125e6, QueueBytes: 4 << 20})
	got := 0
	err := m.Handle(3, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { got += len(data) })
	if err != nil {
		l.t.Fatal(err)
	}
	ep, err := l.m.Connect(l.nw.Now(), m.Name())
	if err != nil {
		l.t.Fatal(err)
	}
	l.node.Kick()
	l.until(ep.Connected)
	mem := make([]byte, 256<<10)
	var pump func()
	pump = func() {
		for {
			if _, waiting := ep.Outstanding(); waiting >= 32 {
				break
			}
			f, err := ep.Prepare(3, mem)
			if err != nil {
				break
			}
			if _, err := ep.Send(l.nw.Now(), f); err != nil {
				l.t.Error(err)
				break
			}
		}
		l.node.Kick()
		l.nw.After(time.Millisecond, pump)
	}
	pump()
	l.run(2 * time.Second)
	before := got
	l.run(time.Second)
	return float64(got - before)
}

// All slow connections of a host together have the share of one: beside them, a peer of another
// host gets a third of what it gets alone, or more.
func TestSendBuffersOfOneHost(t *testing.T) {
	alone := newCrowdLab(t, 0).honestRate()
	for _, count := range []int{64, 192} {
		l := newCrowdLab(t, count)
		l.slowDown()
		rate := l.honestRate()
		t.Logf("beside %d slow connections of one host %.2f MB/s, alone %.2f", count, rate/1e6, alone/1e6)
		if rate < alone/3 {
			t.Errorf("beside %d slow connections of one host %.2f MB/s, alone %.2f", count, rate/1e6,
				alone/1e6)
		}
		for i, ep := range l.crowd[:count] {
			if ep.Err() != nil {
				t.Errorf("slow connection %d: %v", i, ep.Err())
			}
		}
	}
}
