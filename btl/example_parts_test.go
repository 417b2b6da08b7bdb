package btl_test

import (
	"context"
	"errors"
	"fmt"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
)

// pair is two modules, each with a Runner, and their connection.
type pair struct {
	ctx            context.Context
	client, server *btl.Module
	run, serving   *runner.Runner
	peer           *btl.Endpoint // by which the client reaches the server
}

// connect makes a pair. The function prepare gets the server before the first packet.
func connect(prepare func(server *btl.Module)) *pair {
	network := mem.New(mem.Config{})
	p := &pair{
		ctx: context.Background(), client: testnet.Module(network), server: testnet.Module(network),
	}
	prepare(p.server)
	p.run = runner.New(p.client, runner.Config{}, nil)
	p.serving = runner.New(p.server, runner.Config{}, nil)
	var err error
	p.peer, err = p.run.Connect(p.ctx, p.server.Name())
	testnet.Check(err)
	return p
}

func (p *pair) close() {
	testnet.Check(p.run.Close(p.ctx))
	testnet.Check(p.serving.Close(p.ctx))
}

// A program lets its users set the parameters of a Config by environment variables.
func ExampleParam() {
	for _, p := range btl.Params() {
		if p.Name == "ack_delay" {
			fmt.Println(p.Env())
		}
	}
	var cfg btl.Config
	names, err := cfg.LoadEnv([]string{"GOBTL_ACK_DELAY=50us", "LANG=C"})
	fmt.Println(names, cfg.Rules.AckDelay, err)
	// Output:
	// GOBTL_ACK_DELAY
	// [ack_delay] 50µs <nil>
}

// A peer refuses an access outside of a region, and says why.
func ExampleAccessError() {
	var handle btl.Handle
	p := connect(func(server *btl.Module) {
		region, err := server.Expose(make([]byte, 16), btl.RemoteWrite)
		testnet.Check(err)
		handle = region.Handle()
	})
	err := p.run.Put(p.ctx, p.peer, []byte("too far"), handle, 12)
	var refused *btl.AccessError
	if errors.As(err, &refused) {
		fmt.Println("offset", refused.Offset, "refused:", refused.Reason == btl.ReasonBounds)
	}
	p.close()
	// Output: offset 12 refused: true
}

// The side that closes a connection may say why, by a number of the program.
func ExampleEndedError() {
	const busy = 7
	ended := make(chan error, 1)
	p := connect(func(server *btl.Module) {
		testnet.Check(server.Handle(1, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
			testnet.Check(ep.CloseWith(ep.Now(), busy))
		}))
	})
	testnet.Check(p.run.Do(p.ctx, func(m *btl.Module) error {
		m.OnEndpoint(func(_ *btl.Endpoint, event btl.Event, err error) {
			if event == btl.EventClosed {
				ended <- err
			}
		})
		return nil
	}))
	_ = p.run.Send(p.ctx, p.peer, 1, []byte("hello")) // The connection may end first.
	var reason *btl.EndedError
	fmt.Println(errors.As(<-ended, &reason), reason.Code)
	p.close()
	// Output: true 7
}

// A handler keeps its data beyond its end, often without a copy.
func ExampleKept() {
	var kept btl.Kept
	p := connect(func(server *btl.Module) {
		testnet.Check(server.Handle(1, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			testnet.Check(server.Keep(&kept, data))
		}))
	})
	testnet.Check(p.run.Send(p.ctx, p.peer, 1, []byte("for later")))
	testnet.Check(p.serving.Do(p.ctx, func(*btl.Module) error {
		fmt.Printf("%s\n", kept.Bytes())
		kept.Release()
		return nil
	}))
	p.close()
	// Output: for later
}

// Limits are the sizes that the network and the Config allow.
func ExampleLimits() {
	p := connect(func(*btl.Module) {})
	limits := p.client.Limits()
	fmt.Println(limits.SegmentBytes < limits.MTUBytes, limits.MTUBytes < limits.FragmentBytesMax)
	p.close()
	// Output: true true
}

// A Path is what a module knows of the way to a peer.
func ExamplePath() {
	p := connect(func(*btl.Module) {})
	testnet.Check(p.run.Do(p.ctx, func(*btl.Module) error {
		path := p.peer.Path()
		fmt.Println(path.MTUBytes <= path.MTUBytesMost, path.Holes)
		return nil
	}))
	p.close()
	// Output: true 0
}

// Each Counter has the name of a metric and a sentence about what it counts.
func ExampleCounter() {
	counter := btl.Counters()[0]
	fmt.Println(counter, counter.Metric())
	fmt.Println(counter.Help() != "")
	// Output:
	// gobtl_sends_total{path="fast"} gobtl_sends_total
	// true
}

// Registered memory is sent without a copy where the network can do that.
func ExampleRegistration() {
	p := connect(func(server *btl.Module) {
		testnet.Check(server.Handle(1, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
			fmt.Println(len(data), "bytes")
		}))
	})
	message := make([]byte, 1<<18)
	var registration *btl.Registration
	testnet.Check(p.run.Do(p.ctx, func(m *btl.Module) (err error) {
		registration, err = m.RegisterMemory(message)
		return err
	}))
	testnet.Check(p.run.Send(p.ctx, p.peer, 1, message))
	testnet.Check(p.run.Do(p.ctx, func(*btl.Module) error {
		registration.Close()
		return nil
	}))
	p.close()
	// Output: 262144 bytes
}
