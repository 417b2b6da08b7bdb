// Command restart watches a value of the store in examples/guide/memory. It goes on when the store
// ends and starts again.
//
//	restart 127.0.0.1:4000 colour
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"gobtl"
	"gobtl/btl/call"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("want: restart ADDRESS KEY")
	}
	address, key := os.Args[1], os.Args[2]
	ctx := context.Background()
	node, err := gobtl.Open()
	if err != nil {
		log.Fatal(err)
	}
	for {
		peer, err := node.Dial(ctx, address)
		if err == nil {
			fmt.Println("connected")
			err = watch(ctx, peer, key)
		}
		fmt.Println(err)
		time.Sleep(100 * time.Millisecond)
	}
}

// watch prints the value whenever it has changed, until the connection ends.
func watch(ctx context.Context, peer *gobtl.Peer, key string) error {
	last := ""
	for {
		value, err := peer.Call(ctx, "get", []byte(key))
		text := string(value)
		if answer := call.RemoteError(""); errors.As(err, &answer) {
			text = string(answer) // The handler has returned this error: the connection works.
		} else if err != nil {
			return err
		}
		if text != last {
			fmt.Printf("%s: %s\n", key, text)
			last = text
		}
		time.Sleep(20 * time.Millisecond)
	}
}
