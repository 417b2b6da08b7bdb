package fabric_test

import (
	"errors"
	"fmt"
	"log"
	"syscall"

	"gobtl/fabric"
	_ "gobtl/fabric/mem" // a provider within the process
)

// A program asks the registry for the networks of the providers that it imports, and opens one.
func ExampleOpen() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "mem/local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	domain, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer domain.Close()
	arena := domain.Arena()
	fmt.Println(domain.Info().Provider, "has", arena.Len(), "buffers")
	// Output: mem/local has 16 buffers
}

// An Endpoint sends and receives datagrams from the buffers of its domain's arena. Poll reports
// which buffers are the program's again.
func ExampleEndpoint() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "mem/local"})
	check(err)
	domain, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 4})
	check(err)
	endpoint, err := domain.OpenEndpoint(fabric.EndpointConfig{TxDepth: 2, RxDepth: 2})
	check(err)
	self, err := domain.Insert(endpoint.Name())
	check(err)

	const receive, send fabric.Buf = 0, 1
	_, err = endpoint.Recv([]fabric.Buf{receive})
	check(err)
	arena := domain.Arena()
	n := copy(arena.Bytes(send), "hello")
	_, err = endpoint.Post([]fabric.Send{{To: self, Buf: send, Len: uint32(n)}})
	check(err)
	completions := make([]fabric.Completion, 4)
	n, err = endpoint.Poll(completions)
	check(err)
	for _, c := range completions[:n] {
		if c.Op == fabric.OpRecv {
			fmt.Printf("%s, from buffer %d\n", arena.Bytes(c.Buf)[:c.Len], c.Buf)
		}
	}
	check(endpoint.Close())
	check(domain.Close())
	// Output: hello, from buffer 0
}

// Errors of a provider have the number of the system's error, and match it.
func ExampleError() {
	var err error = &fabric.Error{
		Provider: "udp", Op: "bind", Errno: int(syscall.EADDRINUSE), Text: "address already in use",
	}
	fmt.Println(err)
	fmt.Println(errors.Is(err, syscall.EADDRINUSE))
	// Output:
	// udp: bind: address already in use (errno 98)
	// true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
