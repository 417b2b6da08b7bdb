package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// system is a way to call another process. The server answers a request with the same bytes, and an
// empty request with the CPU time that the server has used.
type system struct {
	name, title string
	// serve starts a server on the loopback interface, and returns its address.
	serve func() (addr string, err error)
	dial  func(addr string) (caller, error)
}

// caller is a connection, which any number of goroutines may use.
type caller interface {
	// call sends a request, and returns the reply, which the caller may keep.
	call(request []byte) (answer []byte, err error)
	close() error
}

var systems = []*system{
	{"gobtl", "gobtl btl/call", serveGobtl, dialGobtl(methodEcho)},
	{"gobtl-inline", "gobtl, answered inline", serveGobtl, dialGobtl(methodInline)},
	{"net-rpc", "net/rpc over TCP", serveNetRPC, dialNetRPC},
	{"grpc", "gRPC over TCP", serveGRPC, dialGRPC},
}

// base is the system with which the other systems are compared.
const base = "net-rpc"

func systemOf(name string) (*system, error) {
	var names []string
	for _, s := range slices.Concat(systems, floors) {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("no system %q; there are %s", name, strings.Join(names, ", "))
}

// reply is the server's answer to a request.
func reply(request []byte) []byte {
	if len(request) > 0 {
		return request
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(cpuNs()))
}

// cpuNs is the CPU time that this process has used, in nanoseconds.
func cpuNs() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // it cannot fail with these arguments
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// serverCPUNs asks a server for its CPU time.
func serverCPUNs(c caller) (int64, error) {
	answer, err := c.call(nil)
	if err != nil {
		return 0, err
	}
	if len(answer) != 8 {
		return 0, fmt.Errorf("%d bytes of processor time", len(answer))
	}
	return int64(binary.LittleEndian.Uint64(answer)), nil
}
