package btl

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// crowdDomain is a domain that tells hosts apart. All nodes whose names begin with "crowd" are one
// host.
type crowdDomain struct {
	fabric.Domain
	nw *sim.Network
}

func (crowdDomain) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}

func (d crowdDomain) FormatName(name []byte) string {
	return net.JoinHostPort(string(d.Host(name)), "1")
}

func (d crowdDomain) Host(name []byte) []byte {
	p, err := sim.ParsePort(name)
	if err == nil && strings.HasPrefix(d.nw.Nodes()[p.Node].Name(), "crowd") {
		return []byte("crowd")
	}
	return name
}

// crowdNet is a simulated network of modules in crowdDomains.
type crowdNet struct {
	t  *testing.T
	nw *sim.Network
}

func (o *crowdNet) open(name string, cfg Config) (*sim.Node, *Module) {
	o.t.Helper()
	node := o.nw.Node(name)
	dc, err := cfg.DomainConfig(node.Info())
	if err != nil {
		o.t.Fatal(err)
	}
	dom, err := node.Open(dc)
	if err != nil {
		o.t.Fatal(err)
	}
	m, err := Open(crowdDomain{dom, o.nw}, cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	node.Run(m)
	o.t.Cleanup(func() { _ = m.Close() })
	return node, m
}

func (o *crowdNet) connect(node *sim.Node, m, to *Module) *Endpoint {
	o.t.Helper()
	ep, err := m.Connect(o.nw.Now(), to.Name())
	if err != nil {
		o.t.Fatal(err)
	}
	node.Kick()
	for end := o.nw.Now().Add(5 * time.Second); !ep.Connected(); {
		if o.nw.Now() > end || !o.nw.Step() {
			o.t.Fatal("not connected")
		}
	}
	return ep
}

// every runs f at an interval, and has the node make progress afterwards.
func (o *crowdNet) every(node *sim.Node, after, interval time.Duration, f func()) {
	var turn func()
	turn = func() {
		f()
		node.Kick()
		o.nw.After(interval, turn)
	}
	o.nw.After(after, turn)
}

// rateBesideCrowd returns how many bytes a second one peer sends to a module with the receive
// buffer that Linux gives by default, beside the connections of one other host. Each of these
// connections sends 8 bytes at the interval "every", or nothing if the interval is 0.
func rateBesideCrowd(t *testing.T, crowd int, every time.Duration) float64 {
	t.Helper()
	const queue = 138 // datagrams in a socket buffer of 212992 bytes
	nw, err := sim.New(sim.Config{Seed: 2, QueueDatagrams: queue})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nw.Close)
	o := &crowdNet{t, nw}
	server, m := o.open("server", Config{})
	got := 0
	for _, tag := range []Tag{3, 4} {
		mustHandleData(t, m, tag, &got)
	}
	for i := range crowd {
		node, b := o.open(fmt.Sprint("crowd", i), Config{
			SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 4,
		})
		ep := o.connect(node, b, m)
		if every > 0 {
			o.every(node, every*time.Duration(i)/time.Duration(crowd), every, func() {
				_ = ep.SendImmediate(nw.Now(), 4, make([]byte, 8))
			})
		}
	}
	node, b := o.open("peer", Config{})
	path := sim.Path{Delay: 400 * time.Microsecond, BytesPerSecond: 125e6, QueueBytes: 4 << 20}
	nw.SetPath(server, node, path)
	nw.SetPath(node, server, path)
	ep := o.connect(node, b, m)
	nw.RunUntil(nw.Now().Add(time.Second)) // the peer is idle like all others
	data := make([]byte, 256<<10)
	o.every(node, 0, time.Millisecond, func() {
		for _, waiting := ep.Outstanding(); waiting < 16; waiting++ {
			f, err := ep.Prepare(3, data)
			if err != nil {
				return
			}
			if _, err := ep.Send(nw.Now(), f); err != nil {
				_ = ep.Free(f)
				return
			}
		}
	})
	nw.RunUntil(nw.Now().Add(200 * time.Millisecond))
	before := got
	const took = time.Second / 2
	nw.RunUntil(nw.Now().Add(took))
	if ep.Err() != nil {
		t.Fatal(ep.Err())
	}
	return float64(got-before) / took.Seconds()
}

func mustHandleData(t *testing.T, m *Module, tag Tag, got *int) {
	t.Helper()
	err := m.Handle(tag, func(_ *Endpoint, _ Tag, data []byte) { *got += len(data) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestCreditsBesideCrowd checks that connections of one host, idle or barely active, do not take
// the receive credits of a peer of another host.
func TestCreditsBesideCrowd(t *testing.T) {
	alone := rateBesideCrowd(t, 0, 0)
	for _, c := range []struct {
		crowd int
		every time.Duration
		least float64 // of the rate without a crowd
	}{
		{130, 0, 0.9},
		{16, 15 * time.Millisecond, 0.5},
		{130, 15 * time.Millisecond, 0.5},
	} {
		rate := rateBesideCrowd(t, c.crowd, c.every)
		if rate < c.least*alone {
			t.Errorf("%.1f MB/s beside %d connections of one host that send every %v, alone %.1f MB/s",
				rate/1e6, c.crowd, c.every, alone/1e6)
		}
	}
}
