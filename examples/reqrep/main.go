package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the provider that this program uses
)

func main() {
	clients := flag.Int("clients", 4, "how many clients")
	searches := flag.Int("searches", 16, "how many numbers each of them has found")
	bits := flag.Int("bits", 12, "how many zero bits their hashes have, at most")
	patience := flag.Duration("patience", 50*time.Millisecond, "how long a hopeless search may take")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := demonstrate(ctx, *clients, *searches, *bits, *patience); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d clients had %d numbers each, and the server rests\n", *clients, *searches)
}

// demonstrate runs a server and its clients, and returns the errors of all of them.
func demonstrate(ctx context.Context, clients, searches, bits int, patience time.Duration,
) (err error) {
	s := &server{busy: map[*btl.Endpoint]uint64{}}
	node, runner, name, err := start(s.register)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, node.Close(ctx), runner.Close(ctx))
	}()
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := &client{text: fmt.Appendf(nil, "client %d", i)}
			errs[i] = c.run(ctx, name, searches, bits, patience)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// start opens a module with a Node over it, and returns them and the module's name.
func start(register func(*call.Node)) (*call.Node, *runner.Runner, []byte, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, nil, err
	}
	var cfg btl.Config
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, nil, nil, err
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		return nil, nil, nil, err
	}
	module, err := btl.Open(domain, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	node, err := call.New(module, call.Config{Tag: 1})
	if err != nil {
		return nil, nil, nil, err
	}
	register(node)
	name := module.Name()
	return node, node.Start(runner.Config{}, nil), name, nil
}
