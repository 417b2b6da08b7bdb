package main

import (
	"net"
	"net/rpc"
)

// Echo is the service of net/rpc.
type Echo struct{}

// Answer answers a request.
func (Echo) Answer(request []byte, answer *[]byte) error {
	*answer = reply(request)
	return nil
}

func serveNetRPC() (string, error) {
	server := rpc.NewServer()
	if err := server.Register(Echo{}); err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go server.Accept(l)
	return l.Addr().String(), nil
}

type netRPCCaller struct{ client *rpc.Client }

func dialNetRPC(addr string) (caller, error) {
	client, err := rpc.Dial("tcp", addr)
	return netRPCCaller{client}, err
}

func (c netRPCCaller) call(request []byte) (answer []byte, err error) {
	err = c.client.Call("Echo.Answer", request, &answer)
	return answer, err
}

func (c netRPCCaller) close() error { return c.client.Close() }
