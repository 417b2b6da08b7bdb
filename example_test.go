package gobtl_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/btl/call"
)

// ready returns a node that listens, and the peer that another node has for it. A real program has
// one of the two.
func ready(cfg gobtl.Config) (server *gobtl.Node, peer *gobtl.Peer, end func()) {
	server, err := cfg.Listen("127.0.0.1:0")
	check(err)
	client, err := gobtl.Open()
	check(err)
	peer, err = client.Dial(context.Background(), server.Address())
	check(err)
	return server, peer, func() {
		check(client.Close(context.Background()))
		check(server.Close(context.Background()))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// One node answers, another one asks.
func ExampleNode() {
	ctx := context.Background()
	server, err := gobtl.Listen("127.0.0.1:0")
	check(err)
	check(server.Handle("greet", func(_ context.Context, req *gobtl.Request) ([]byte, error) {
		return append([]byte("hello "), req.Body...), nil
	}))

	client, err := gobtl.Open()
	check(err)
	peer, err := client.Dial(ctx, server.Address())
	check(err)
	answer, err := peer.Call(ctx, "greet", []byte("Ada"))
	check(err)
	fmt.Printf("%s\n", answer)
	check(client.Close(ctx))
	check(server.Close(ctx))
	// Output: hello Ada
}

// A message is acknowledged when its handler has returned.
func ExamplePeer_Send() {
	server, peer, end := ready(gobtl.Config{})
	defer end()
	const tagTemperature = 1
	check(server.HandleMessage(tagTemperature, func(_ *gobtl.Peer, data []byte) {
		fmt.Printf("%s degrees\n", data) // data is valid during the call only
	}))
	check(peer.Send(context.Background(), tagTemperature, []byte("21")))
	// Output: 21 degrees
}

// A queued message waits until the program takes it. Its sender does not wait.
func ExampleNode_Take() {
	server, peer, end := ready(gobtl.Config{})
	defer end()
	ctx := context.Background()
	check(peer.Enqueue(ctx, []byte("job 1")))
	message, err := server.Take(ctx)
	check(err)
	fmt.Printf("%s\n", message.Data)
	// Output: job 1
}

// A stream is a net.Conn: bytes in order, both ways.
func ExamplePeer_OpenStream() {
	server, peer, end := ready(gobtl.Config{})
	defer end()
	out, err := peer.OpenStream(context.Background())
	check(err)
	go func() {
		_, err := io.WriteString(out, "a line\n")
		check(err)
		check(out.Close())
	}()
	in, err := server.Accept()
	check(err)
	text, err := io.ReadAll(in)
	check(err)
	check(in.Close())
	fmt.Printf("%s", text)
	// Output: a line
}

// A peer writes into memory that this side exposes to it, without any work of this side.
func ExampleRegion() {
	ctx, regions := context.Background(), make(chan *gobtl.Region, 1)
	server, peer, end := ready(gobtl.Config{})
	defer end()
	memory := make([]byte, 8)
	// The server exposes memory to the peer that asks for it. The answer is the handle.
	check(server.Handle("place", func(ctx context.Context, req *gobtl.Request) ([]byte, error) {
		region, err := req.Peer.Expose(ctx, memory, btl.RemoteWrite)
		if err != nil {
			return nil, err
		}
		regions <- region
		return binary.LittleEndian.AppendUint64(nil, uint64(region.Handle())), nil
	}))
	answer, err := peer.Call(ctx, "place", nil)
	check(err)
	handle := btl.Handle(binary.LittleEndian.Uint64(answer))
	check(peer.Put(ctx, handle, 2, []byte("here")))
	check((<-regions).Close(ctx)) // From here on the memory is the server's alone.
	fmt.Printf("%q\n", memory)
	// Output: "\x00\x00here\x00\x00"
}

// The zero Config is a good default. This one notices a dead peer after a second, and prints who
// comes.
func ExampleConfig() {
	came := make(chan btl.Event, 1)
	cfg := gobtl.Config{
		Transport: btl.Config{PeerTimeout: time.Second},
		Calls:     call.Config{Concurrent: 100},
		OnPeer: func(_ *gobtl.Peer, event btl.Event, _ error) {
			if event == btl.EventConnected {
				came <- event
			}
		},
	}
	_, _, end := ready(cfg)
	defer end()
	fmt.Println(<-came)
	// Output: connected
}

// A Link gives access to the packages below, here to the limits of the transport.
func ExampleLink() {
	_, peer, end := ready(gobtl.Config{Transport: btl.Config{FragmentBytesMax: 1 << 20}})
	defer end()
	err := peer.Link().Runner().Do(context.Background(), func(m *btl.Module) error {
		fmt.Println("a lone small message has its own channel:", m.Limits().TinyBytes > 0)
		return nil
	})
	check(err)
	// Output: a lone small message has its own channel: true
}
