// Command web runs net/http over streams of gobtl: one side serves files, the other one fetches.
//
//	web serve :4000 FOLDER
//	web get server:4000 /notes.txt
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"gobtl"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("want: web serve :4000 FOLDER, or: web get server:4000 /PATH")
	}
	run := get
	if os.Args[1] == "serve" {
		run = serve
	}
	if err := run(os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func serve(address, folder string) error {
	node, err := gobtl.Listen(address)
	if err != nil {
		return err
	}
	fmt.Println(node.Address())
	return http.Serve(node.Listener(), http.FileServer(http.Dir(folder)))
}

func get(address, path string) error {
	node, err := gobtl.Open()
	if err != nil {
		return err
	}
	defer func() { _ = node.Close(context.Background()) }() // The answer is here, or get has failed.
	server, err := node.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return server.OpenStream(ctx)
		},
	}}
	answer, err := client.Get("http://server" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
