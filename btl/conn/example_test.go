package conn_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
)

// exampleNode makes a Node on a network within the process.
func exampleNode(network *mem.Network) (*conn.Node, []byte) {
	module := testnet.Module(network)
	node, err := conn.New(module, conn.Config{Tag: 1})
	testnet.Check(err)
	return node, module.Name()
}

// A Conn goes to a service, which a Listener of the peer has.
func ExampleConn() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	serving := server.Start(runner.Config{}, nil)
	listener, err := server.Listen("shout")
	testnet.Check(err)
	go func() {
		c, err := listener.Accept()
		testnet.Check(err)
		text, err := io.ReadAll(c) // until the client has closed its half
		testnet.Check(err)
		_, err = fmt.Fprintf(c, "%s!", text)
		testnet.Check(err)
		testnet.Check(c.Close())
	}()

	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	c, err := client.Dial(ctx, peer, "shout")
	testnet.Check(err)
	_, err = io.WriteString(c, "hello")
	testnet.Check(err)
	fmt.Println("to service", c.RemoteAddr().(conn.Addr).Service)
	testnet.Check(c.CloseWrite())
	answer, err := io.ReadAll(c)
	testnet.Check(err)
	testnet.Check(c.Close())
	fmt.Printf("%s\n", answer)

	testnet.Check(client.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output:
	// to service shout
	// hello!
}

// A Listener is a net.Listener, so net/http serves over the transport.
func ExampleListener() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	serving := server.Start(runner.Config{}, nil)
	listener, err := server.Listen("web")
	testnet.Check(err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "this is %s", r.URL.Path)
	})}
	go func() { _ = web.Serve(listener) }() // http.ErrServerClosed in the end

	node, _ := exampleNode(network)
	run := node.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return node.Dial(ctx, peer, "web")
		},
	}}
	answer, err := client.Get("http://any.name/page")
	testnet.Check(err)
	text, err := io.ReadAll(answer.Body)
	testnet.Check(err)
	testnet.Check(answer.Body.Close())
	fmt.Printf("%s\n", text)

	testnet.Check(web.Close())
	testnet.Check(node.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output: this is /page
}

// A Node has any number of connections to one peer, for example one for each request.
func ExampleNode() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	serving := server.Start(runner.Config{}, nil)
	listener, err := server.Listen("length")
	testnet.Check(err)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // The listener is closed.
			}
			text, err := io.ReadAll(c)
			testnet.Check(err)
			fmt.Fprint(c, len(text))
			testnet.Check(c.Close())
		}
	}()

	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	testnet.Check(err)
	for _, text := range []string{"one", "three"} {
		c, err := client.Dial(ctx, peer, "length")
		testnet.Check(err)
		_, err = io.WriteString(c, text)
		testnet.Check(err)
		testnet.Check(c.CloseWrite())
		answer, err := io.ReadAll(c)
		testnet.Check(err)
		testnet.Check(c.Close())
		fmt.Printf("%s: %s\n", text, answer)
	}
	testnet.Check(listener.Close())
	testnet.Check(client.Close(ctx))
	testnet.Check(run.Close(ctx))
	testnet.Check(server.Close(ctx))
	testnet.Check(serving.Close(ctx))
	// Output:
	// one: 3
	// three: 5
}
