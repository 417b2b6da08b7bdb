package queue_test

import (
	"context"
	"fmt"

	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
)

// exampleQueue makes a Queue on a network within the process.
func exampleQueue(network *mem.Network) (*queue.Queue, []byte) {
	module := testnet.Module(network)
	q, err := queue.New(module, queue.Config{Tag: 1})
	testnet.Check(err)
	return q, module.Name()
}

// A worker takes jobs when it has time for them. The queue keeps the others.
func ExampleQueue() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	worker, name := exampleQueue(network)
	working := worker.Start(runner.Config{}, nil)

	boss, _ := exampleQueue(network)
	run := boss.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	for i := range 3 {
		testnet.Check(boss.Send(ctx, peer, fmt.Appendf(nil, "job %d", i)))
	}
	sum := 0
	for range 3 {
		job, err := worker.Take(ctx, nil) // of any peer
		testnet.Check(err)
		sum += len(job.Data)
	}
	fmt.Println(sum, "bytes taken")

	testnet.Check(boss.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(worker.Close(ctx))
	testnet.Check(working.Close(ctx))
	// Output: 15 bytes taken
}
