package conn_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// exampleNode makes a Node on a network within the process. A program opens a Domain of its
// provider in its place.
func exampleNode(network *mem.Network) (*conn.Node, []byte) {
	var cfg btl.Config
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	check(err)
	sizes, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := network.Open(sizes)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	node, err := conn.New(module, conn.Config{Tag: 1})
	check(err)
	return node, module.Name()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A Conn goes to a service, which a Listener of the peer has.
func ExampleConn() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	serving := server.Start(runner.Config{}, nil)
	listener, err := server.Listen("shout")
	check(err)
	go func() {
		c, err := listener.Accept()
		check(err)
		text, err := io.ReadAll(c) // until the client has closed its half
		check(err)
		_, err = fmt.Fprintf(c, "%s!", text)
		check(err)
		check(c.Close())
	}()

	client, _ := exampleNode(network)
	run := client.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	check(err)
	c, err := client.Dial(ctx, peer, "shout")
	check(err)
	_, err = io.WriteString(c, "hello")
	check(err)
	check(c.CloseWrite())
	answer, err := io.ReadAll(c)
	check(err)
	check(c.Close())
	fmt.Printf("%s\n", answer)

	check(client.Close(ctx))
	check(run.Close(ctx))
	check(server.Close(ctx))
	check(serving.Close(ctx))
	// Output: hello!
}

// A Listener is a net.Listener, so net/http serves over the transport.
func ExampleListener() {
	ctx, network := context.Background(), mem.New(mem.Config{})
	server, name := exampleNode(network)
	serving := server.Start(runner.Config{}, nil)
	listener, err := server.Listen("web")
	check(err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "this is %s", r.URL.Path)
	})}
	go func() { _ = web.Serve(listener) }() // http.ErrServerClosed in the end

	node, _ := exampleNode(network)
	run := node.Start(runner.Config{}, nil)
	peer, err := run.Connect(ctx, name)
	check(err)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return node.Dial(ctx, peer, "web")
		},
	}}
	answer, err := client.Get("http://any.name/page")
	check(err)
	text, err := io.ReadAll(answer.Body)
	check(err)
	check(answer.Body.Close())
	fmt.Printf("%s\n", text)

	check(web.Close())
	check(node.Close(ctx))
	check(run.Close(ctx))
	check(server.Close(ctx))
	check(serving.Close(ctx))
	// Output: this is /page
}
