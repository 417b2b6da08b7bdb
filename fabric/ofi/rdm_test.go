//go:build linux && cgo

package ofi

import (
	"errors"
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
	for end := time.Now().Add(100 * time.Millisecond); errors.Is(err, fabric.ErrAgain); {
		if !e.in.work() || time.Now().After(end) {
			break
		}
		var more int
		more, err = e.Endpoint.Post(sends[n:])
		n += more
	}
	return n, err
}

// work says whether the others' work can help: not if a queue of this side is full.
func (c *crowd) work() bool {
	for _, e := range c.all {
		e.progress()
	}
	return true
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

// The reliable providers that need no hardware.
var rdmProviders = []string{"ofi/shm", "ofi/net", "ofi/tcp"}

func TestConformanceRDM(t *testing.T) {
	for _, name := range rdmProviders {
		t.Run(name, func(t *testing.T) {
			fabrictest.Run(t, fabrictest.Fixture{
				Name: name, Open: new(crowd).open(name), Patience: time.Second})
		})
	}
}
