// Command paramserver trains a model of nothing with remote memory: workers put their gradients
// into memory of a server, notices tell it when one is all there, and workers read the parameters
// without asking its code.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the provider that this program uses
)

// The tags of messages.
const (
	tagJoin     btl.Tag = 1 // a worker: where may I write and read?
	tagPlace    btl.Tag = 2 // the server: handles of the worker's gradient and of the parameters
	tagGradient btl.Tag = 3 // the notice of a gradient
	tagStep     btl.Tag = 4 // the server: the parameters of the next step are there
)

func main() {
	workers := flag.Int("workers", 3, "how many workers")
	steps := flag.Int("steps", 10, "how many steps they take")
	size := flag.Int("parameters", 100_000, "how many parameters the model has")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, err := train(ctx, *workers, *steps, *size)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("after %d steps of %d workers the first parameter is %g\n", *steps, *workers, first)
}

// train runs a server and workers and returns the first parameter, as the first worker has it.
func train(ctx context.Context, workers, steps, size int) (first float32, err error) {
	s := newServer(workers, size)
	runner, name, err := s.start(ctx, btl.Config{})
	if err != nil {
		return 0, err
	}
	firsts, errs := make([]float32, workers), make(chan error)
	for i := range workers {
		go func() {
			var err error
			firsts[i], err = work(ctx, name, steps, size)
			errs <- err
		}()
	}
	for range workers {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if e := runner.Close(ctx); err == nil {
		err = e
	}
	return firsts[0], err
}

// start opens a module, has handle register its handlers, and returns its runner and its name.
// ended is told of each endpoint that ends, and why.
func start(cfg btl.Config, handle func(*btl.Module) error, ended func(*btl.Endpoint, error)) (
	*runner.Runner, []byte, error,
) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, err
	}
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, nil, err
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		return nil, nil, err
	}
	module, err := btl.Open(domain, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := handle(module); err != nil {
		return nil, nil, err
	}
	name := module.Name()
	onEvent := func(ep *btl.Endpoint, ev btl.Event, why error) {
		if ev != btl.EventConnected {
			ended(ep, why)
		}
	}
	return runner.New(module, runner.Config{}, onEvent), name, nil
}

// server has the parameters. All of it belongs to its module's goroutine, but for tell.
type server struct {
	workers int    // that are to join; then those that are there count
	joined  int    // that have
	params  []byte // float32 each
	region  *btl.Region
	members map[*btl.Endpoint]*member
	tell    func(ep *btl.Endpoint, tag btl.Tag, data []byte)
}

// member is a worker, as the server knows it.
type member struct {
	gradient []byte
	region   btl.Region
	arrived  bool // the gradient of this step
}

func newServer(workers, size int) *server {
	return &server{
		workers: workers, params: make([]byte, 4*size), members: make(map[*btl.Endpoint]*member),
	}
}

// start opens the server's module. A handler must not wait, and there may be no room for a message
// at the moment (ErrAgain), so each message has a goroutine that does: two a worker at the most.
func (s *server) start(ctx context.Context, cfg btl.Config) (*runner.Runner, []byte, error) {
	var runner *runner.Runner
	ready := make(chan struct{})
	s.tell = func(ep *btl.Endpoint, tag btl.Tag, data []byte) {
		go func() {
			<-ready
			_ = runner.Send(ctx, ep, tag, data) // If the worker is gone, ended is told.
		}()
	}
	r, name, err := start(cfg, s.listen, s.ended)
	runner = r
	close(ready)
	return r, name, err
}

func (s *server) listen(m *btl.Module) (err error) {
	if s.region, err = m.Expose(s.params, btl.RemoteRead); err != nil {
		return err
	}
	if err := m.Handle(tagJoin, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
		w := &member{gradient: make([]byte, len(s.params))}
		rights := btl.RemoteWrite | btl.RemoteNotify
		if s.members[ep] != nil || m.ExposeAs(&w.region, w.gradient, rights, ep) != nil {
			ep.Abort() // It joins twice, or there is no room for it.
			return
		}
		s.members[ep] = w
		s.joined++
		place := binary.LittleEndian.AppendUint64(nil, uint64(w.region.Handle()))
		s.tell(ep, tagPlace, binary.LittleEndian.AppendUint64(place, uint64(s.region.Handle())))
	}); err != nil {
		return err
	}
	return m.Handle(tagGradient, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
		if w := s.members[ep]; w != nil {
			w.arrived = true
			s.step()
		}
	})
}

// ended records that a worker has gone, so that the other workers do not wait for it.
func (s *server) ended(ep *btl.Endpoint, _ error) {
	if w := s.members[ep]; w != nil {
		w.region.Close()
		delete(s.members, ep)
		s.step()
	}
}

// step takes a step when the gradients of all workers are there.
func (s *server) step() {
	if s.joined < s.workers || len(s.members) == 0 {
		return
	}
	for _, w := range s.members {
		if !w.arrived {
			return
		}
	}
	for at := 0; at < len(s.params); at += 4 {
		sum := number(s.params[at:])
		for _, w := range s.members {
			sum += number(w.gradient[at:]) / float32(len(s.members))
		}
		binary.LittleEndian.PutUint32(s.params[at:], math.Float32bits(sum))
	}
	for ep, w := range s.members {
		w.arrived = false
		s.tell(ep, tagStep, nil)
	}
}

// work is a worker: it computes gradients that make each parameter grow by one in a step.
func work(ctx context.Context, server []byte, steps, size int) (first float32, err error) {
	places, done := make(chan [2]btl.Handle, 1), make(chan struct{}, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runner, _, err := start(btl.Config{}, func(m *btl.Module) error {
		if err := m.Handle(tagPlace, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			places <- [2]btl.Handle{
				btl.Handle(binary.LittleEndian.Uint64(data)), btl.Handle(binary.LittleEndian.Uint64(data[8:])),
			}
		}); err != nil {
			return err
		}
		return m.Handle(tagStep, func(*btl.Endpoint, btl.Tag, []byte) { done <- struct{}{} })
	}, func(_ *btl.Endpoint, why error) { cancel(fmt.Errorf("the server is gone: %w", why)) })
	if err != nil {
		return 0, err
	}
	ep, err := runner.Connect(ctx, server)
	if err != nil {
		return 0, err
	}
	if err := runner.Send(ctx, ep, tagJoin, nil); err != nil {
		return 0, err
	}
	place, err := next(ctx, places)
	if err != nil {
		return 0, err
	}
	gradient, params := make([]byte, 4*size), make([]byte, 4*size)
	for step := range steps {
		for at := 0; at < len(gradient); at += 4 {
			g := float32(step+1) - number(params[at:])
			binary.LittleEndian.PutUint32(gradient[at:], math.Float32bits(g))
		}
		if err := runner.PutNotice(ctx, ep, gradient, place[0], 0, tagGradient, nil); err != nil {
			return 0, err
		}
		if _, err := next(ctx, done); err != nil {
			return 0, err
		}
		if err := runner.Get(ctx, ep, params, place[1], 0); err != nil {
			return 0, err
		}
	}
	return number(params), runner.Close(context.WithoutCancel(ctx))
}

// next waits for the next item from a handler.
func next[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

func number(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
