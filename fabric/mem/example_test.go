package mem_test

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// Two domains on a private network: one sends a datagram, the other receives it in a posted buffer.
func Example() {
	nw := mem.New(mem.Config{})
	sender, _ := nw.Open(fabric.DomainConfig{Buffers: 8})
	receiver, _ := nw.Open(fabric.DomainConfig{Buffers: 8})
	defer sender.Close()
	defer receiver.Close()
	tx, _ := sender.OpenEndpoint(fabric.EndpointConfig{})
	rx, _ := receiver.OpenEndpoint(fabric.EndpointConfig{})

	rx.Recv([]fabric.Buf{0, 1})
	to, _ := sender.Insert(rx.Name())
	arena := sender.Arena()
	n := copy(arena.Bytes(0), "hello")
	tx.Post([]fabric.Send{{To: to, Buf: 0, Len: uint32(n)}})

	var done [4]fabric.Completion
	got, _ := rx.Poll(done[:])
	arena = receiver.Arena()
	for _, c := range done[:got] {
		fmt.Printf("%q in buffer %d\n", arena.Bytes(c.Buf)[:c.Len], c.Buf)
	}
	// Output: "hello" in buffer 0
}

// A filter loses the second datagram and holds back the third until Release.
func ExampleNetwork_SetFilter() {
	nw := mem.New(mem.Config{})
	d, _ := nw.Open(fabric.DomainConfig{Buffers: 8})
	defer d.Close()
	e, _ := d.OpenEndpoint(fabric.EndpointConfig{})
	self, _ := d.Insert(e.Name())
	arena := d.Arena()

	count := 0
	nw.SetFilter(func(from, to, pkt []byte) mem.Verdict {
		count++
		return []mem.Verdict{mem.Deliver, mem.Drop, mem.Hold, mem.Deliver}[count-1]
	})
	for i, word := range []string{"one", "two", "three", "four"} {
		b := fabric.Buf(i)
		n := copy(arena.Bytes(b), word)
		e.Post([]fabric.Send{{To: self, Buf: b, Len: uint32(n)}})
	}
	nw.Release()

	e.Recv([]fabric.Buf{4, 5, 6, 7})
	var done [4]fabric.Completion
	n, _ := e.Poll(done[:])
	for _, c := range done[:n] {
		fmt.Println(string(arena.Bytes(c.Buf)[:c.Len]))
	}
	counts := nw.Counts()
	fmt.Println(counts.Sent, "sent,", counts.Filtered, "lost")
	// Output:
	// one
	// four
	// three
	// 4 sent, 1 lost
}
