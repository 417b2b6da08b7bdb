//go:build linux && cgo

package ofi

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

// crowd simulates the processes of the domains of a test. While one endpoint cannot send, the other
// endpoints poll for their connections.
type crowd struct {
	mu  sync.Mutex // the suite uses domains from several goroutines
	all []*endpoint
}

type crowdDomain struct {
	*domain
	in *crowd
}

type crowdEndpoint struct {
	fabric.Endpoint
	in *crowd
}

func (c *crowd) open(name string) func(testing.TB, fabric.DomainConfig) fabric.Domain {
	return func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
		d := open(tb, name, cfg)
		if text, ok := d.(fabric.Addresser); ok {
			return &inetCrowdDomain{&crowdDomain{plain(d), c}, text}
		}
		return &crowdDomain{plain(d), c}
	}
}

// inetCrowdDomain is a crowdDomain of a provider that implements fabric.Addresser.
type inetCrowdDomain struct {
	*crowdDomain
	fabric.Addresser
}

// The function "plain" returns the domain without the methods of fabric.Addresser.
func plain(d fabric.Domain) *domain {
	switch d := d.(type) {
	case *inetCrowdDomain:
		return d.domain
	case *crowdDomain:
		return d.domain
	case inetDomain:
		return d.domain
	}
	return d.(*domain)
}

func (d *crowdDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	e, err := d.domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	d.in.all = append(d.in.all, e.(*endpoint))
	return &crowdEndpoint{e, d.in}, nil
}

func (d *crowdDomain) Close() error {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	err := d.domain.Close()
	d.in.forget()
	return err
}

func (c *crowd) forget() {
	c.all = slices.DeleteFunc(c.all, func(e *endpoint) bool { return e.c == nil })
}

func (e *crowdEndpoint) Post(sends []fabric.Send) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	n, err := e.Endpoint.Post(sends)
	for end := time.Now().Add(connectTime); errors.Is(err, fabric.ErrAgain); {
		if time.Now().After(end) {
			break
		}
		e.in.work()
		var more int
		more, err = e.Endpoint.Post(sends[n:])
		n += more
	}
	return n, err
}

// connectTime is how long a Post waits for the other endpoints. After that time the endpoint's own
// queue is full.
const connectTime = 100 * time.Millisecond

func (c *crowd) work() {
	for _, e := range c.all {
		e.progress()
	}
}

func (e *crowdEndpoint) Poll(out []fabric.Completion) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	n, err := e.Endpoint.Poll(out)
	if n == 0 {
		e.in.work()
	}
	return n, err
}

func (e *crowdEndpoint) Recv(bufs []fabric.Buf) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	return e.Endpoint.Recv(bufs)
}

func (e *crowdEndpoint) Close() error {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	err := e.Endpoint.Close()
	e.in.forget()
	return err
}

const unread = "sends complete when their receiver has taken them: none can be left unread"

// netIsTCP reports whether the library is 1.18 or later. In 1.16 and 1.17 the provider net has the
// role that tcp has later for reliable endpoints, without the layer rxm.
func netIsTCP(tb testing.TB) bool {
	tb.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/tcp", Node: "127.0.0.1"})
	return err == nil && infos[0].Provider == "ofi/tcp"
}

func TestConformanceRDM(t *testing.T) {
	notRaced(t)
	for _, name := range []string{"ofi/shm", "ofi/net", "ofi/tcp", "ofi/udp;ofi_rxd"} {
		t.Run(name, func(t *testing.T) {
			if name == "ofi/net" && netIsTCP(t) {
				t.Skip("libfabric 1.18 and later call it tcp")
			}
			fabrictest.Run(t, fabrictest.Fixture{
				Name: name, Open: new(crowd).open(name),
				Skip: map[string]string{
					"EqualBursts": unread, "RecvCapacity": unread, "RecvCapacityBursts": unread,
					"Overflow": unread,
				},
			})
		})
	}
}

// TestReliableByName checks that the name alone decides whether an endpoint is reliable.
func TestReliableByName(t *testing.T) {
	type named struct {
		name, opened string
		reliable     bool
	}
	names := []named{
		{"ofi/udp", "ofi/udp", false},
		{"ofi/sockets", "ofi/sockets", false},
		{"ofi/sockets+rdm", "ofi/sockets+rdm", true},
		{"ofi/udp;ofi_rxd", "ofi/udp;ofi_rxd", true},
		{"ofi/tcp;ofi_rxm", "ofi/tcp;ofi_rxm", true},
		{"ofi/shm", "ofi/shm", true},
	}
	if netIsTCP(t) {
		names = append(names, named{"ofi/tcp", "ofi/tcp", true})
	} else {
		names = append(names, named{"ofi/tcp", "ofi/tcp;ofi_rxm", true},
			named{"ofi/net", "ofi/net", true}, named{"ofi/net;ofi_rxm", "ofi/net;ofi_rxm", true})
	}
	for _, tt := range names {
		info := open(t, tt.name, fabric.DomainConfig{Buffers: 4}).Info()
		if info.Reliable != tt.reliable || info.Ordered != tt.reliable || info.Provider != tt.opened {
			t.Errorf("%s opened %s, reliable %v, ordered %v", tt.name, info.Provider, info.Reliable,
				info.Ordered)
		}
	}
}

// TestPeerAgainAndAgain inserts a peer, sends first, and removes the peer, more often than shm's
// table has places. The shm provider of libfabric 2 crashes if it is told of the removals.
func TestPeerAgainAndAgain(t *testing.T) {
	group := new(crowd)
	opened := group.open("ofi/shm")
	cfg := fabric.DomainConfig{Buffers: 8}
	a, b := opened(t, cfg), opened(t, cfg)
	from := openEndpoint(t, a, fabric.EndpointConfig{})
	to := openEndpoint(t, b, fabric.EndpointConfig{})
	for i := range shmPeers + 50 {
		addr := insert(t, a, to.Name())
		mustRecv(t, to, 1)
		mustPost(t, from, fabric.Send{To: addr, Len: uint32(1 + i%100)})
		if c := poll(t, to); c.Buf != 1 || c.Len != uint32(1+i%100) {
			t.Fatalf("round %d: %+v arrived", i, c)
		}
		if err := a.Remove(addr); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// TestKeptPeers checks a provider whose peers cannot be removed. The number of peers is bounded,
// and removed peers can be inserted again.
func TestKeptPeers(t *testing.T) {
	d := plain(open(t, "ofi/shm", fabric.DomainConfig{Buffers: 1}))
	name := func(i int) []byte { return fmt.Appendf(nil, "fi_shm://nobody:%d\x00", i) }
	for i := range shmPeers {
		if err := d.Remove(insert(t, d, name(i))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Insert(name(shmPeers))
	if full := errors.Is(err, fabric.ErrAgain); full != (d.limits.quirks.keptPeers > 0) {
		t.Errorf("one name more than %d: %v, with quirks %+v", shmPeers, err, d.limits.quirks)
	}
	for range 2 {
		insert(t, d, name(7))
	}
}
