package btl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
)

// Embedding under a layer that owns the thread and the clock, as an MPI's progress engine does: the
// module does nothing but in Progress.
func Example() {
	network := mem.New(mem.Config{})
	server := testnet.Module(network)
	defer server.Close()
	client := testnet.Module(network)
	defer client.Close()

	const echo, answer = 1, 2
	testnet.Check(server.Handle(echo, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		f, err := ep.Alloc(answer, len(data))
		if err != nil {
			return // out of resources: a real server would queue it
		}
		copy(f.Bytes(), data)
		if _, err := ep.Send(ep.Now(), f); err != nil {
			_ = ep.Free(f)
		}
	}))
	done := false
	testnet.Check(client.Handle(answer, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		fmt.Printf("echo of %d bytes: %.13s\n", len(data), data)
		done = true
	}))

	// The server's name travels out of band: a launcher's key-value store, a file, a command line.
	start := time.Now()
	clock := func() btl.Time { return btl.Time(time.Since(start)) }
	ep, err := client.Connect(clock(), server.Name())
	testnet.Check(err)
	f, err := ep.Prepare(echo, append([]byte("hello, world "), make([]byte, 100_000)...))
	testnet.Check(err)
	f.OnDone = func(_ *btl.Fragment, err error) { fmt.Println("acknowledged:", err == nil) }
	_, err = ep.Send(clock(), f) // waits in the queue until the connection is open
	testnet.Check(err)
	for !done {
		now := clock()
		for _, m := range []*btl.Module{client, server} {
			_, err := m.Progress(now)
			testnet.Check(err)
		}
	}
	// Output:
	// acknowledged: true
	// echo of 100013 bytes: hello, world
}

// A put writes into memory that the peer has exposed; no handler of the peer takes part.
func ExampleEndpoint_PreparePut() {
	network := mem.New(mem.Config{})
	target := testnet.Module(network)
	origin := testnet.Module(network)
	defer target.Close()
	region, err := target.Expose(make([]byte, 16), btl.RemoteWrite)
	testnet.Check(err)
	run := runner.New(origin, runner.Config{}, nil)
	passive := runner.New(target, runner.Config{}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	ep, err := run.Connect(ctx, target.Name())
	testnet.Check(err)
	// The handle is told to the origin by a message of the program's own.
	testnet.Check(run.Put(ctx, ep, []byte("written"), region.Handle(), 4))
	// Puts happen on the loop of the target, which must stand still while its memory is read.
	testnet.Check(passive.Do(ctx, func(*btl.Module) error {
		fmt.Printf("%q\n", region.Bytes()[2:12])
		return nil
	}))
	testnet.Check(run.Close(ctx))
	testnet.Check(passive.Close(ctx))
	// Output:
	// "\x00\x00written\x00"
}

// A loop without callbacks, as one in another language has it: after each pass it takes what has
// arrived and what has ended, in one call each.
func ExampleModule_PullArrivals() {
	network := mem.New(mem.Config{})
	var ends [2]*btl.Module
	for i := range ends {
		m := testnet.Module(network)
		defer m.Close()
		m.PullCompletions(true)
		testnet.Check(m.HandlePulled(1))
		ends[i] = m
	}
	ep, err := ends[0].Connect(0, ends[1].Name())
	testnet.Check(err)
	for _, text := range []string{"one", "two"} {
		f, err := ep.Prepare(1, []byte(text))
		testnet.Check(err)
		f.Signal = true // Report the completion even if Send returns Done.
		_, err = ep.Send(0, f)
		testnet.Check(err)
	}
	arrivals, completions := make([]btl.Arrival, 8), make([]btl.Completion, 8)
	sent, now := 0, btl.Time(0)
	for sent < 2 {
		now = now.Add(10 * time.Microsecond)
		for _, m := range ends {
			_, err := m.Progress(now)
			testnet.Check(err)
			for i := range m.PullArrivals(arrivals) {
				fmt.Printf("arrived: %s\n", arrivals[i].Bytes())
			}
			for i := range m.Pull(completions) {
				if c := &completions[i]; c.Kind == btl.CompletionSend && c.Err == nil {
					sent++
				}
			}
		}
	}
	fmt.Println("sent:", sent)
	// Output:
	// arrived: one
	// arrived: two
	// sent: 2
}

// A server decides which peers may connect. The label of a peer comes with its request.
func ExampleModule_Admit() {
	network := mem.New(mem.Config{})
	server, client := testnet.Module(network), testnet.Module(network)
	const full = 7 // a code of the program
	server.Admit(func(btl.Request) btl.Verdict { return btl.Refuse(full) })
	serving := runner.New(server, runner.Config{}, nil)
	asking := runner.New(client, runner.Config{}, nil)
	ctx := context.Background()

	_, err := asking.Connect(ctx, server.Name())
	var refused *btl.RefusedError
	if errors.As(err, &refused) {
		fmt.Println("refused with code", refused.Code)
	}
	testnet.Check(asking.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output: refused with code 7
}

// An atomic operation changes one number in the memory of a peer, and returns the old value.
func ExampleAtomic() {
	network := mem.New(mem.Config{})
	owner, other := testnet.Module(network), testnet.Module(network)
	region, err := owner.Expose(make([]byte, 8), btl.RemoteAtomic)
	testnet.Check(err)
	owning := runner.New(owner, runner.Config{}, nil)
	run := runner.New(other, runner.Config{}, nil)
	ctx := context.Background()
	ep, err := run.Connect(ctx, owner.Name())
	testnet.Check(err)
	for range 3 {
		old, err := run.Atomic(ctx, ep, btl.Atomic{
			Target: region.Handle(), Action: btl.ActionAdd, WidthBytes: 8, Operand: 10, Fetch: true,
		})
		testnet.Check(err)
		fmt.Println("it was", old)
	}
	testnet.Check(run.Close(ctx))
	testnet.Check(owning.Close(ctx))
	// Output:
	// it was 0
	// it was 10
	// it was 20
}

// The counters of a module are always on.
func ExampleStats() {
	network := mem.New(mem.Config{})
	server, client := testnet.Module(network), testnet.Module(network)
	testnet.Check(server.Handle(1, func(*btl.Endpoint, btl.Tag, []byte) {}))
	serving := runner.New(server, runner.Config{}, nil)
	run := runner.New(client, runner.Config{}, nil)
	ctx := context.Background()
	ep, err := run.Connect(ctx, server.Name())
	testnet.Check(err)
	testnet.Check(run.Send(ctx, ep, 1, []byte("hello")))
	stats := run.Stats()
	fmt.Println("resent:", stats.Retransmits(), "peers:", stats.Endpoints)
	testnet.Check(run.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output: resent: 0 peers: 1
}

// A server keeps a connection request, asks somebody else, and decides when it knows the answer.
// The client waits meanwhile, without sending anything.
func ExampleKeep() {
	network := mem.New(mem.Config{})
	server := testnet.Module(network)
	defer server.Close()
	client := testnet.Module(network)
	defer client.Close()

	var asked []btl.Request
	server.Admit(func(r btl.Request) btl.Verdict {
		asked = append(asked, r)
		return btl.Keep(10 * time.Second)
	})
	connected := false
	client.OnEndpoint(func(_ *btl.Endpoint, ev btl.Event, _ error) {
		connected = ev == btl.EventConnected
	})
	start := time.Now()
	clock := func() btl.Time { return btl.Time(time.Since(start)) }
	_, err := client.Connect(clock(), server.Name())
	testnet.Check(err)
	progress := func() {
		for _, m := range []*btl.Module{client, server} {
			_, err := m.Progress(clock())
			testnet.Check(err)
		}
	}
	for len(asked) == 0 {
		progress()
	}
	fmt.Println("kept, connected:", connected)
	testnet.Check(asked[0].Decide(clock(), btl.Accept()))
	for !connected {
		progress()
	}
	fmt.Println("decided, connected:", connected)
	// Output:
	// kept, connected: false
	// decided, connected: true
}
