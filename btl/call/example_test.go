package call_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
)

// exampleNode makes a Node on a network within the process.
func exampleNode(network *mem.Network) (*call.Node, []byte) {
	module := testnet.Module(network)
	node, err := call.New(module, call.Config{Tag: 1})
	testnet.Check(err)
	return node, module.Name()
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
	testnet.Check(err)
	answer, err := client.Call(ctx, peer, half, []byte{42})
	fmt.Println(answer[0], err)
	_, err = client.Call(ctx, peer, half, []byte{41})
	var remote call.RemoteError
	fmt.Println(errors.As(err, &remote), string(remote))

	testnet.Check(client.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output:
	// 21 <nil>
	// true odd
}

// A body may be larger than memory: CallStream reads and writes it in pieces.
func ExampleStreamHandler() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	const upper uint16 = 2
	var handler call.StreamHandler = func(
		_ context.Context, _ *btl.Endpoint, request io.Reader, answer io.Writer,
	) error {
		lines := bufio.NewScanner(request)
		for lines.Scan() {
			if _, err := fmt.Fprintln(answer, strings.ToUpper(lines.Text())); err != nil {
				return err
			}
		}
		return lines.Err()
	}
	server.HandleStream(upper, handler)
	serving := server.Start(runner.Config{}, nil)

	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	var answer strings.Builder
	request := strings.NewReader("one\ntwo\n")
	testnet.Check(client.CallStream(ctx, peer, upper, request, &answer))
	fmt.Print(answer.String())
	testnet.Check(client.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output:
	// ONE
	// TWO
}

// An Inline answers small requests on the goroutine that drives the network.
func ExampleInline() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	const twice uint16 = 1
	server.HandleInline(twice, func(_ *btl.Endpoint, request, answer []byte) ([]byte, error) {
		return append(answer, request[0]*2), nil
	})
	serving := server.Start(runner.Config{}, nil)
	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	answer, err := client.Call(ctx, peer, twice, []byte{21})
	testnet.Check(err)
	fmt.Println(answer[0])

	testnet.Check(client.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output: 42
}
