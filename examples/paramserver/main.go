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
	s := &server{workers: workers, params: make([]byte, 4*size)}
	runner, name, err := start(s.listen)
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
func start(handle func(*btl.Module) error) (*btl.Runner, []byte, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, err
	}
	var cfg btl.Config
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
	return btl.NewRunner(module, btl.RunnerConfig{}, nil), name, nil
}

// server has the parameters. All of it belongs to its module's goroutine.
type server struct {
	workers   int
	params    []byte // float32 each
	region    *btl.Region
	gradients [][]byte
	peers     []*btl.Endpoint
	arrived   int
}

func (s *server) listen(m *btl.Module) (err error) {
	if s.region, err = m.Expose(s.params, btl.RemoteRead); err != nil {
		return err
	}
	if err := m.Handle(tagJoin, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
		gradient, own := make([]byte, len(s.params)), new(btl.Region)
		check(m.ExposeAs(own, gradient, btl.RemoteWrite|btl.RemoteNotify, ep))
		s.gradients, s.peers = append(s.gradients, gradient), append(s.peers, ep)
		place := binary.LittleEndian.AppendUint64(nil, uint64(own.Handle()))
		tell(ep, tagPlace, binary.LittleEndian.AppendUint64(place, uint64(s.region.Handle())))
	}); err != nil {
		return err
	}
	return m.Handle(tagGradient, func(*btl.Endpoint, btl.Tag, []byte) { s.onGradient() })
}

// onGradient counts the gradients of a step, and takes the step when all are there.
func (s *server) onGradient() {
	if s.arrived++; s.arrived < s.workers {
		return
	}
	s.arrived = 0
	for at := 0; at < len(s.params); at += 4 {
		sum := number(s.params[at:])
		for _, g := range s.gradients {
			sum += number(g[at:]) / float32(s.workers)
		}
		binary.LittleEndian.PutUint32(s.params[at:], math.Float32bits(sum))
	}
	for _, ep := range s.peers {
		tell(ep, tagStep, nil)
	}
}

// work is a worker: it computes gradients that make each parameter grow by one in a step.
func work(ctx context.Context, server []byte, steps, size int) (first float32, err error) {
	places, done := make(chan [2]btl.Handle, 1), make(chan struct{}, 1)
	runner, _, err := start(func(m *btl.Module) error {
		if err := m.Handle(tagPlace, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			places <- [2]btl.Handle{
				btl.Handle(binary.LittleEndian.Uint64(data)), btl.Handle(binary.LittleEndian.Uint64(data[8:])),
			}
		}); err != nil {
			return err
		}
		return m.Handle(tagStep, func(*btl.Endpoint, btl.Tag, []byte) { done <- struct{}{} })
	})
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
	place := <-places
	gradient, params := make([]byte, 4*size), make([]byte, 4*size)
	for step := range steps {
		for at := 0; at < len(gradient); at += 4 {
			g := float32(step+1) - number(params[at:])
			binary.LittleEndian.PutUint32(gradient[at:], math.Float32bits(g))
		}
		if err := runner.PutNotice(ctx, ep, gradient, place[0], 0, tagGradient, nil); err != nil {
			return 0, err
		}
		<-done
		if err := runner.Get(ctx, ep, params, place[1], 0); err != nil {
			return 0, err
		}
	}
	return number(params), runner.Close(ctx)
}

// tell sends a few bytes from a handler.
func tell(ep *btl.Endpoint, tag btl.Tag, data []byte) {
	f, err := ep.Alloc(tag, len(data))
	check(err)
	copy(f.Bytes(), data)
	_, err = ep.Send(ep.Now(), f)
	check(err)
}

func number(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
