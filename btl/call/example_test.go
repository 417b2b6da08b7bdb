package call_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// exampleNode makes a Node on a network within the process. A program opens a Domain of its
// provider in its place.
func exampleNode(network *mem.Network) (*call.Node, []byte) {
	var cfg btl.Config
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	check(err)
	sizes, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := network.Open(sizes)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	node, err := call.New(module, call.Config{Tag: 1})
	check(err)
	return node, module.Name()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A server halves even numbers, and a client gets its answers and its errors.
func ExampleNode() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	const half uint16 = 1
	server.Handle(half, func(_ context.Context, _ *btl.Endpoint, request []byte) ([]byte, error) {
		if request[0]%2 != 0 {
			return nil, errors.New("odd")
		}
		return []byte{request[0] / 2}, nil
	})
	serving := server.Start(runner.Config{}, nil)

	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	check(err)
	answer, err := client.Call(ctx, peer, half, []byte{42})
	fmt.Println(answer[0], err)
	_, err = client.Call(ctx, peer, half, []byte{41})
	var remote call.RemoteError
	fmt.Println(errors.As(err, &remote), string(remote))

	check(client.Close(ctx))
	check(run.Close(ctx))
	check(server.Close(ctx))
	check(serving.Close(ctx))
	// Output:
	// 21 <nil>
	// true odd
}
