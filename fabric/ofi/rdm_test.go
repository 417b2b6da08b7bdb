//go:build linux && cgo

package ofi

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

// crowd stands for the processes that the domains of a test would belong to: while one endpoint
// cannot send, the others work on their connections, as they do when their owners poll.
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
		return &crowdDomain{open(tb, name, cfg).(*domain), c}
	}
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

// connectTime is how long a Post waits for others: after it, its own queue is full.
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

// rdmProviders are the reliable providers that need no hardware, and why they skip subtests.
var rdmProviders = []struct {
	name string
	skip map[string]string
}{
	{"ofi/shm", map[string]string{
		"RandomTraffic": unread,
	}},
	{"ofi/net", map[string]string{"RandomTraffic": unread}},
	{"ofi/tcp", nil},
}

func TestConformanceRDM(t *testing.T) {
	for _, p := range rdmProviders {
		t.Run(p.name, func(t *testing.T) {
			skip := map[string]string{
				"EqualBursts": unread, "RecvCapacity": unread, "RecvCapacityBursts": unread,
				"Overflow": unread,
			}
			maps.Copy(skip, p.skip)
			fabrictest.Run(t, fabrictest.Fixture{Name: p.name, Open: new(crowd).open(p.name), Skip: skip})
		})
	}
}

// TestReliableByName: the name alone decides whether an endpoint is reliable.
func TestReliableByName(t *testing.T) {
	for _, tt := range []struct {
		name, opened string
		reliable     bool
	}{
		{"ofi/udp", "ofi/udp", false},
		{"ofi/sockets", "ofi/sockets", false},
		{"ofi/sockets+rdm", "ofi/sockets+rdm", true},
		{"ofi/udp;ofi_rxd", "ofi/udp;ofi_rxd", true},
		{"ofi/tcp", "ofi/tcp;ofi_rxm", true},
		{"ofi/tcp;ofi_rxm", "ofi/tcp;ofi_rxm", true},
		{"ofi/shm", "ofi/shm", true},
		{"ofi/net", "ofi/net", true},
		{"ofi/net;ofi_rxm", "ofi/net;ofi_rxm", true},
	} {
		info := open(t, tt.name, fabric.DomainConfig{Buffers: 4}).Info()
		if info.Reliable != tt.reliable || info.Ordered != tt.reliable || info.Provider != tt.opened {
			t.Errorf("%s opened %s, reliable %v, ordered %v", tt.name, info.Provider, info.Reliable,
				info.Ordered)
		}
	}
}
