// Command echo embeds the transport: without arguments it prints its name and echoes what peers
// send; with a name and a text it sends the text there and prints what comes back.
package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the provider that this program uses
)

func main() {
	var cfg btl.Config // the zero value is a good default
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	check(err)
	buffers, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := fabric.Open(infos[0], buffers)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	if len(os.Args) == 1 {
		check(module.Handle(1, echo))
		fmt.Println(hex.EncodeToString(module.Name()))
		server := runner.New(module, runner.Config{}, nil)
		<-server.Done()
		check(server.Err())
		return
	}
	texts := make(chan string, 1)
	check(module.Handle(1, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { texts <- string(data) }))
	runner := runner.New(module, runner.Config{}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	name, err := hex.DecodeString(os.Args[1])
	check(err)
	peer, err := runner.Connect(ctx, name)
	check(err)
	check(runner.Send(ctx, peer, 1, []byte(os.Args[2])))
	fmt.Println(<-texts)
	check(runner.Close(ctx))
}

// echo runs on the module's goroutine and may use the module directly. data is valid only now.
func echo(peer *btl.Endpoint, tag btl.Tag, data []byte) {
	if reply, err := peer.Alloc(tag, len(data)); err == nil {
		copy(reply.Bytes(), data)
		_, err = peer.Send(peer.Now(), reply)
		check(err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
