// Command memory is a store of one process, which keeps its values in its memory.
//
//	memory serve 127.0.0.1:4000
//	memory put 127.0.0.1:4000 colour blue
//	memory get 127.0.0.1:4000 colour
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"gobtl"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("want: memory serve ADDRESS, memory put ADDRESS KEY VALUE, memory get ADDRESS KEY")
	}
	command, address, words := os.Args[1], os.Args[2], os.Args[3:]
	if command == "serve" {
		serve(address)
	} else {
		ask(address, command, strings.Join(words, "="))
	}
}

// store has the values. Handlers run on goroutines of their own, so it needs a lock.
type store struct {
	mu     sync.Mutex
	values map[string]string
}

func (s *store) put(_ context.Context, req *gobtl.Request) ([]byte, error) {
	key, value, _ := strings.Cut(string(req.Body), "=")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	return nil, nil
}

func (s *store) get(_ context.Context, req *gobtl.Request) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[string(req.Body)]
	if !ok {
		return nil, errors.New("no such key")
	}
	return []byte(value), nil
}

func serve(address string) {
	s := &store{values: map[string]string{}}
	setup := func(n *gobtl.Node) error {
		return errors.Join(n.Handle("put", s.put), n.Handle("get", s.get))
	}
	node, err := gobtl.Config{Setup: setup}.Listen(address)
	check(err)
	fmt.Println(node.Address())
	select {} // until it is killed
}

// ask sends one request and prints the answer.
func ask(address, method, request string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node, err := gobtl.Open()
	check(err)
	peer, err := node.Dial(ctx, address)
	check(err)
	answer, err := peer.Call(ctx, method, []byte(request))
	check(err)
	fmt.Printf("%s\n", answer)
	check(node.Close(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
