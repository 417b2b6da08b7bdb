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

// Group is the streams of one run. Each stream has its own connection, side and thread, at the
// client and at the server, and all streams run the same round at the same time.
type Group struct{ clients []*Client }

// Open connects as many streams as the flags request.
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

// Close ends all streams in order.
func (g *Group) Close() {
	var all sync.WaitGroup
	for _, c := range g.clients {
		all.Go(c.Close)
	}
	all.Wait()
}

// First returns the first stream, which is like all other streams.
func (g *Group) First() *Client { return g.clients[0] }

// Sides returns the client's sides of the streams.
func (g *Group) Sides() (list []*layers.Side) {
	for _, c := range g.clients {
		list = append(list, c.Side)
	}
	return list
}

// errOther is the error of a stream that ends because another stream has failed.
var errOther = errors.New("another stream failed")

// RunRound runs a round on all streams, with separate meters, and returns their outcomes. If a
// number of messages is requested, it is divided among the streams.
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

// firstReason is the first error that does not follow from the error of another stream.
func firstReason(errs []error) (found error) {
	for _, err := range errs {
		if err != nil && (found == nil || errors.Is(found, errOther)) {
			found = err
		}
	}
	return found
}

// gate opens when the given number of goroutines wait.
type gate struct {
	lock           sync.Mutex
	missing        int
	opened, closed chan struct{}
	once           sync.Once
}

func newGate(n int) *gate {
	return &gate{missing: n, opened: make(chan struct{}), closed: make(chan struct{})}
}

// wait returns when all streams have called wait, or with an error if a stream will never do so.
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

// shut records that not all goroutines will arrive.
func (g *gate) shut() { g.once.Do(func() { close(g.closed) }) }

// Sum combines the outcomes of the streams of a round. The histogram of the first outcome then
// contains the round trips of all streams. CPU times are not added, because they are those of the
// process.
func Sum(outcomes []*Outcome) *Outcome {
	sum := *outcomes[0]
	for _, o := range outcomes[1:] {
		sum.Meter.Add(&o.Meter)
		sum.Client.add(&o.Client)
		sum.Server.add(&o.Server)
	}
	return &sum
}

// add adds the outcome of another stream of the same round.
func (r *RoundResult) add(o *RoundResult) {
	r.Tally.Add(&o.Tally)
	r.Usage.AddThread(&o.Usage)
	r.Counters.Add(o.Counters)
	r.Sent += o.Sent
}

// Offers are the offers of both sides of the first stream.
func (g *Group) Offers() []layers.Offer {
	c := g.First()
	return append(c.Side.Offers(), c.Peer...)
}
