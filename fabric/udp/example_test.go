//go:build linux

package udp_test

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/fabric/udp"
)

// Five datagrams of one size go to the kernel as one message, which comes out of the other socket
// as one message, each datagram in its buffer.
func Example() {
	provider := udp.New(udp.Options{})
	infos, err := provider.GetInfo(fabric.Hints{Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		fmt.Println("no loopback device:", err)
		return
	}
	dom, err := provider.Open(infos[0], fabric.DomainConfig{Buffers: 16, BufferBytes: 1472})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dom.Close()
	tx, _ := dom.OpenEndpoint(fabric.EndpointConfig{})
	rx, _ := dom.OpenEndpoint(fabric.EndpointConfig{})
	to, _ := dom.Insert(rx.Name())

	arena := dom.Arena()
	var sends []fabric.Send
	for i, word := range []string{"alpha", "gamma", "delta", "kappa", "omega"} {
		n := copy(arena.Bytes(fabric.Buf(i)), word)
		sends = append(sends, fabric.Send{To: to, Buf: fabric.Buf(i), Len: uint32(n)})
	}
	rx.Recv([]fabric.Buf{15, 14, 13, 12, 11, 10})
	tx.Post(sends) // complete: the kernel has copied them

	var done [8]fabric.Completion
	for got := 0; got < len(sends); {
		n, err := rx.Poll(done[:])
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, c := range done[:n] {
			fmt.Printf("%s\n", arena.Bytes(c.Buf)[:c.Len])
		}
		got += n
	}
	// Output:
	// alpha
	// gamma
	// delta
	// kappa
	// omega
}
