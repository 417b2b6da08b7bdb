package queue_test

import (
	"context"
	"fmt"
	"log"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// exampleQueue makes a Queue on a network within the process. A program opens a Domain of its
// provider in its place.
func exampleQueue(network *mem.Network) (*queue.Queue, []byte) {
	var cfg btl.Config
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	check(err)
	sizes, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := network.Open(sizes)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	q, err := queue.New(module, queue.Config{Tag: 1})
	check(err)
	return q, module.Name()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A worker takes jobs when it has time for them. The queue keeps the others.
func ExampleQueue() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	worker, name := exampleQueue(network)
	working := worker.Start(runner.Config{}, nil)

	boss, _ := exampleQueue(network)
	run := boss.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	check(err)
	for i := range 3 {
		check(boss.Send(ctx, peer, fmt.Appendf(nil, "job %d", i)))
	}
	sum := 0
	for range 3 {
		job, err := worker.Take(ctx, nil) // of any peer
		check(err)
		sum += len(job.Data)
	}
	fmt.Println(sum, "bytes taken")

	check(boss.Close(ctx))
	check(run.Close(ctx))
	check(worker.Close(ctx))
	check(working.Close(ctx))
	// Output: 15 bytes taken
}
