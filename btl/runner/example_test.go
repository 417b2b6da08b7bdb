package runner_test

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

// A Runner sends and receives for all goroutines of a program.
func ExampleRunner() {
	network := mem.New(mem.Config{})
	server, client := testnet.Module(network), testnet.Module(network)
	const tag = 1
	got := make(chan string, 1)
	testnet.Check(server.Handle(tag, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		got <- string(data) // data is valid during the call only
	}))
	receiving := runner.New(server, runner.Config{}, nil)
	sending := runner.New(client, runner.Config{}, nil)

	ctx := context.Background()
	peer, err := sending.Connect(ctx, server.Name())
	testnet.Check(err)
	testnet.Check(sending.Send(ctx, peer, tag, []byte("hello"))) // until the peer has it
	fmt.Println(<-got)
	testnet.Check(sending.Close(ctx))
	testnet.Check(receiving.Close(ctx))
	// Output: hello
}

// The context of a send may end while the transport still reads the message. The error then tells
// when the memory of the message is free.
func ExampleInUse() {
	network := mem.New(mem.Config{})
	server, client := testnet.Module(network), testnet.Module(network)
	testnet.Check(server.Handle(1, func(*btl.Endpoint, btl.Tag, []byte) {}))
	receiving := runner.New(server, runner.Config{}, nil)
	sending := runner.New(client, runner.Config{}, nil)
	ctx := context.Background()
	peer, err := sending.Connect(ctx, server.Name())
	testnet.Check(err)

	network.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop }) // The cable is cut.
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	message := make([]byte, 1<<18)
	err = sending.Send(short, peer, 1, message)
	var inUse *runner.InUse
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.As(err, &inUse))

	network.SetFilter(nil) // The cable is back.
	<-inUse.Free()
	message[0] = 1 // The peer has the message. The memory is the program's again.
	testnet.Check(sending.Close(ctx))
	testnet.Check(receiving.Close(ctx))
	// Output: true true
}

// A Pending is a send that goes on while its caller does something else.
func ExamplePending() {
	network := mem.New(mem.Config{})
	server, client := testnet.Module(network), testnet.Module(network)
	testnet.Check(server.Handle(1, func(*btl.Endpoint, btl.Tag, []byte) {}))
	receiving := runner.New(server, runner.Config{}, nil)
	wait, err := runner.ParseWaiting("event") // sleeps at once when it has nothing to do
	testnet.Check(err)
	sending := runner.New(client, runner.Config{Wait: wait}, nil)
	ctx := context.Background()
	peer, err := sending.Connect(ctx, server.Name())
	testnet.Check(err)
	pending, err := sending.Start(ctx, peer, 1, []byte("hello"))
	testnet.Check(err)
	testnet.Check(pending.Wait(ctx))
	fmt.Println("sent:", pending.Done())
	testnet.Check(sending.Close(ctx))
	testnet.Check(receiving.Close(ctx))
	// Output: sent: true
}
