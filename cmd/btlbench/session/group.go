package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// Group is the streams of one run. Each has a connection, a side and a thread of its own, at the
// client and at the server, and all run the same round at the same time.
type Group struct{ clients []*Client }

// Open connects as many streams as the flags ask for.
func Open(ctx context.Context, addr string, f *plan.Flags, o Options) (*Group, error) {
	g := &Group{}
	run := rand.Text()
	for i := range f.Streams() {
		c, err := open(ctx, addr, run, f, o, i)
		if err != nil {
			g.Close()
			if i > 0 {
				err = fmt.Errorf("stream %d of %d: %w", i+1, f.Streams(), err)
			}
			return nil, err
		}
		g.clients = append(g.clients, c)
	}
	return g, nil
}

// Close ends all streams in good order.
func (g *Group) Close() {
	var all sync.WaitGroup
	for _, c := range g.clients {
		all.Go(c.Close)
	}
	all.Wait()
}

// First is the first stream; the others are like it.
func (g *Group) First() *Client { return g.clients[0] }

// Sides are those of the streams at the client.
func (g *Group) Sides() (list []*layers.Side) {
	for _, c := range g.clients {
		list = append(list, c.Side)
	}
	return list
}

// errOther is how a stream ends because another one failed, which has the reason.
var errOther = errors.New("another stream failed")

// RunRound runs a round on all streams, with meters of their own, and returns their outcomes.
// Messages to count are shared between the streams.
func (g *Group) RunRound(spec *plan.Spec, meters []Meters) ([]*Outcome, error) {
	n := len(g.clients)
	outcomes, errs := make([]*Outcome, n), make([]error, n)
	gate := newGate(n)
	var all sync.WaitGroup
	for i, c := range g.clients {
		own := *spec
		own.Messages = plan.Amount{Messages: spec.Messages}.Split(i, n).Messages
		m := meters[i]
		m.start = gate.wait
		all.Go(func() {
			outcomes[i], errs[i] = c.runRound(&own, m)
			if errs[i] == nil {
				return
			}
			gate.shut()
			for _, other := range g.clients {
				if other != c {
					other.fail(errOther)
				}
			}
		})
	}
	all.Wait()
	return outcomes, firstReason(errs)
}

// firstReason is the first error that does not follow from another stream's.
func firstReason(errs []error) (found error) {
	for _, err := range errs {
		if err != nil && (found == nil || errors.Is(found, errOther)) {
			found = err
		}
	}
	return found
}

// gate opens when so many wait at it.
type gate struct {
	lock           sync.Mutex
	missing        int
	opened, closed chan struct{}
	once           sync.Once
}

func newGate(n int) *gate {
	return &gate{missing: n, opened: make(chan struct{}), closed: make(chan struct{})}
}

// wait returns when all wait, or with an error when one never will.
func (g *gate) wait() error {
	g.lock.Lock()
	if g.missing--; g.missing == 0 {
		close(g.opened)
	}
	g.lock.Unlock()
	select {
	case <-g.opened:
		return nil
	case <-g.closed:
		return errOther
	}
}

// shut says that not all will come.
func (g *gate) shut() { g.once.Do(func() { close(g.closed) }) }

// Sum puts the outcomes of the streams of a round together. Its histogram is that of the first,
// with the round trips of all. CPU time is a process', so it is not added.
func Sum(outcomes []*Outcome) *Outcome {
	sum := *outcomes[0]
	for _, o := range outcomes[1:] {
		sum.Meter.Add(&o.Meter)
		sum.Client.add(&o.Client)
		sum.Server.add(&o.Server)
	}
	return &sum
}

// add adds what another stream of the same round had.
func (r *RoundResult) add(o *RoundResult) {
	r.Tally.Add(&o.Tally)
	r.Usage.AddThread(&o.Usage)
	r.Counters.Add(o.Counters)
	r.Sent += o.Sent
}

// Offers are what both sides of the first stream can do.
func (g *Group) Offers() []layers.Offer {
	c := g.First()
	return append(c.Side.Offers(), c.Peer...)
}
