package btl_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// openModule opens a module on an in-process network. A program imports a provider's package for
// its name instead, and asks fabric.GetInfo for it.
func openModule(net *mem.Network, cfg btl.Config) (*btl.Module, error) {
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		return nil, err
	}
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	domain, err := net.Open(sizes)
	if err != nil {
		return nil, err
	}
	return btl.Open(domain, cfg)
}

// Embedding under a layer that owns the thread and the clock, as an MPI's progress engine does: the
// module does nothing but in Progress.
func Example() {
	network := mem.New(mem.Config{})
	server, err := openModule(network, btl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := openModule(network, btl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	const echo, answer = 1, 2
	if err := server.Handle(echo, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		f, err := ep.Alloc(answer, len(data))
		if err != nil {
			return // out of resources: a real server would queue it
		}
		copy(f.Bytes(), data)
		if _, err := ep.Send(ep.Now(), f); err != nil {
			_ = ep.Free(f)
		}
	}); err != nil {
		log.Fatal(err)
	}
	done := false
	if err := client.Handle(answer, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		fmt.Printf("echo of %d bytes: %.13s\n", len(data), data)
		done = true
	}); err != nil {
		log.Fatal(err)
	}

	// The server's name travels out of band: a launcher's key-value store, a file, a command line.
	start := time.Now()
	clock := func() btl.Time { return btl.Time(time.Since(start)) }
	ep, err := client.Connect(clock(), server.Name())
	if err != nil {
		log.Fatal(err)
	}
	f, err := ep.Prepare(echo, append([]byte("hello, world "), make([]byte, 100_000)...))
	if err != nil {
		log.Fatal(err)
	}
	f.OnDone = func(_ *btl.Fragment, err error) { fmt.Println("acknowledged:", err == nil) }
	if _, err := ep.Send(clock(), f); err != nil { // waits in the queue until the connection stands
		log.Fatal(err)
	}
	for !done {
		now := clock()
		for _, m := range []*btl.Module{client, server} {
			if _, err := m.Progress(now); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// acknowledged: true
	// echo of 100013 bytes: hello, world
}

// A put writes into memory that the peer has exposed; no handler of the peer takes part.
func ExampleEndpoint_PreparePut() {
	network := mem.New(mem.Config{})
	target, err := openModule(network, btl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	origin, err := openModule(network, btl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer target.Close()
	region, err := target.Expose(make([]byte, 16), btl.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	run := runner.New(origin, runner.Config{}, nil)
	passive := runner.New(target, runner.Config{}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	ep, err := run.Connect(ctx, target.Name())
	if err != nil {
		log.Fatal(err)
	}
	// The handle is told to the origin by a message of the program's own.
	if err := run.Put(ctx, ep, []byte("written"), region.Handle(), 4); err != nil {
		log.Fatal(err)
	}
	// Puts happen on the loop of the target, which must stand still while its memory is read.
	if err := passive.Do(ctx, func(*btl.Module) error {
		fmt.Printf("%q\n", region.Bytes()[2:12])
		return nil
	}); err != nil {
		log.Fatal(err)
	}
	if err := run.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := passive.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// "\x00\x00written\x00"
}

// A loop without callbacks, as one in another language has it: after each pass it takes what has
// arrived and what has ended, in one call each.
func ExampleModule_PullArrivals() {
	network := mem.New(mem.Config{})
	var ends [2]*btl.Module
	for i := range ends {
		m, err := openModule(network, btl.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close()
		m.PullCompletions(true)
		if err := m.HandlePulled(1); err != nil {
			log.Fatal(err)
		}
		ends[i] = m
	}
	ep, err := ends[0].Connect(0, ends[1].Name())
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		f, err := ep.Prepare(1, []byte(text))
		if err != nil {
			log.Fatal(err)
		}
		f.Signal = true // or Send may say that it is done, and nothing is left to be told
		if _, err := ep.Send(0, f); err != nil {
			log.Fatal(err)
		}
	}
	arrivals, completions := make([]btl.Arrival, 8), make([]btl.Completion, 8)
	sent, now := 0, btl.Time(0)
	for sent < 2 {
		now = now.Add(10 * time.Microsecond)
		for _, m := range ends {
			if _, err := m.Progress(now); err != nil {
				log.Fatal(err)
			}
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
