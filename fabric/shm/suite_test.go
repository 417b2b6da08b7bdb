//go:build linux

package shm

import (
	"sync"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
)

func openAny(tb testing.TB, cfg fabric.DomainConfig) *domain {
	tb.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: ProviderName})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := fabric.Open(infos[0], cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return d.(*domain)
}

// crowd simulates the processes of the domains of a test. While one domain polls without success,
// the other domains send their waiting datagrams.
type crowd struct {
	mu  sync.Mutex // the suite uses domains from several goroutines
	all map[*domain]bool
}

type crowdDomain struct {
	*domain
	in *crowd
}

type crowdEndpoint struct {
	*endpoint
	in *crowd
}

func (c *crowd) open(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := openAny(tb, cfg)
	c.all[d] = true
	return &crowdDomain{d, c}
}

func (d *crowdDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	e, err := d.domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &crowdEndpoint{e.(*endpoint), d.in}, nil
}

func (d *crowdDomain) Close() error {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	delete(d.in.all, d.domain)
	return d.domain.Close()
}

func (e *crowdEndpoint) Poll(out []fabric.Completion) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	n, err := e.endpoint.Poll(out)
	if n > 0 || err != nil {
		return n, err
	}
	for d := range e.in.all {
		for _, other := range d.endpoints {
			if other != nil {
				other.sendStalled()
			}
		}
	}
	return 0, nil
}

func (e *crowdEndpoint) Post(sends []fabric.Send) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	return e.endpoint.Post(sends)
}

func (e *crowdEndpoint) Recv(bufs []fabric.Buf) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	return e.endpoint.Recv(bufs)
}

func (e *crowdEndpoint) Close() error {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	return e.endpoint.Close()
}

// TestConformance runs the suite. A send completes when it is in its ring, and therefore a flood to
// a receiver that does not poll does not complete.
func TestConformance(t *testing.T) {
	const unread = "what a ring does not hold waits at the sender until the receiver polls"
	c := &crowd{all: map[*domain]bool{}}
	fabrictest.Run(t, fabrictest.Fixture{
		Name: ProviderName, Open: c.open,
		Skip: map[string]string{
			"Overflow": unread, "RecvCapacity": unread, "RecvCapacityBursts": unread,
		},
	})
}

func BenchmarkFabric(b *testing.B) {
	c := &crowd{all: map[*domain]bool{}}
	fabrictest.Bench(b, fabrictest.Fixture{Name: ProviderName, Open: c.open})
}
