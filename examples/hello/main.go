// Command hello is a first program: one side answers, the other one asks.
//
//	hello serve :4000
//	hello greet server:4000 Ada
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"gobtl"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("want: hello serve :4000, or: hello greet server:4000 NAME")
	}
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	} else {
		greet(os.Args[2], os.Args[3:])
	}
}

func serve(address string) {
	node, err := gobtl.Listen(address)
	if err != nil {
		log.Fatal(err)
	}
	err = node.Handle("greet", func(_ context.Context, req *gobtl.Request) ([]byte, error) {
		return append([]byte("hello "), req.Body...), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Address())
	select {} // until it is killed
}

func greet(address string, names []string) {
	node, err := gobtl.Open()
	if err != nil {
		log.Fatal(err)
	}
	server, err := node.Dial(context.Background(), address)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		answer, err := server.Call(context.Background(), "greet", []byte(name))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", answer)
	}
	if err := node.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}
