package main

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the fabric that is measured
)

// The constants below are the methods of the server.
const (
	methodEcho   uint16 = 1 // by a goroutine of its own, as the other systems do
	methodInline uint16 = 2 // by the one that drives
)

type gobtlCaller struct {
	node   *call.Node
	runner *runner.Runner
	peer   *btl.Endpoint
	method uint16
}

// openGobtl opens a node, and returns its address.
func openGobtl() (*call.Node, *runner.Runner, string, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, "", err
	}
	var cfg btl.Config
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, nil, "", err
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		return nil, nil, "", err
	}
	module, err := btl.Open(domain, cfg)
	if err != nil {
		return nil, nil, "", err
	}
	node, err := call.New(module, call.Config{})
	if err != nil {
		return nil, nil, "", err
	}
	addr := hex.EncodeToString(module.Name())
	node.Handle(methodEcho, func(_ context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
		return reply(q), nil
	})
	node.HandleInline(methodInline, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
		return append(a, reply(q)...), nil
	})
	return node, node.Start(runner.Config{}, nil), addr, nil
}

func serveGobtl() (string, error) {
	_, _, addr, err := openGobtl()
	return addr, err
}

func dialGobtl(method uint16) func(string) (caller, error) {
	return func(addr string) (caller, error) {
		name, err := hex.DecodeString(addr)
		if err != nil {
			return nil, err
		}
		node, runner, _, err := openGobtl()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		peer, err := runner.Connect(ctx, name)
		return &gobtlCaller{node, runner, peer, method}, err
	}
}

func (c *gobtlCaller) call(request []byte) ([]byte, error) {
	return c.node.Call(context.Background(), c.peer, c.method, request)
}

func (c *gobtlCaller) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(c.node.Close(ctx), c.runner.Close(ctx))
}
