//go:build linux && cgo

package ofi_test

import (
	"fmt"

	"gobtl/fabric"
	_ "gobtl/fabric/ofi" // registers the providers
)

// A datagram from one endpoint to another over libfabric's udp provider.
func Example() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "ofi/udp", Node: "127.0.0.1"})
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
	sender, err := domain.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver, err := domain.OpenEndpoint(fabric.EndpointConfig{Source: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Names travel out of band; here both ends are in one process.
	to, err := domain.Insert(receiver.Name())
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := receiver.Recv([]fabric.Buf{0}); err != nil {
		fmt.Println(err)
		return
	}
	arena := domain.Arena()
	n := copy(arena.Bytes(1), "hello, fabric")
	if _, err := sender.Post([]fabric.Send{{To: to, Buf: 1, Len: uint32(n)}}); err != nil {
		fmt.Println(err)
		return
	}
	var done [1]fabric.Completion
	for {
		n, err := receiver.Poll(done[:])
		if err != nil {
			fmt.Println(err)
			return
		}
		if n == 1 {
			break
		}
	}
	fmt.Printf("%s\n", arena.Bytes(done[0].Buf)[:done[0].Len])
	fmt.Println("MTU", sender.Caps().MTUBytes)
	// Output:
	// hello, fabric
	// MTU 1472
}
