package impair_test

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/fabric/mem"
)

// A domain that loses every third datagram, about.
func Example() {
	faults, _ := impair.Parse("loss=33%,seed=1")
	infos, _ := fabric.GetInfo(fabric.Hints{Provider: mem.ProviderName})
	d, _ := impair.Open(infos[0], fabric.DomainConfig{Buffers: 64}, faults)
	defer d.Close()
	e, _ := d.OpenEndpoint(fabric.EndpointConfig{})
	self, _ := d.Insert(e.Name())

	var out [4]fabric.Completion
	for range 300 {
		e.Recv([]fabric.Buf{0})
		e.Post([]fabric.Send{{To: self, Buf: 1, Len: 8}})
		e.Poll(out[:])
	}
	c := d.Counts()
	fmt.Println(faults, "of", c.Arrived, "datagrams:", c.Lost > 70 && c.Lost < 130)
	// Output: loss=33%,seed=1 of 300 datagrams: true
}

func ExampleParse() {
	f, err := impair.Parse("loss=1%, reorder=0.05, delay=200us, seed=7")
	fmt.Println(f.Loss, f.Reorder, f.Delay, f.Seed, err)
	fmt.Println(f)
	// Output:
	// 0.01 0.05 200µs 7 <nil>
	// loss=1%,reorder=5%,delay=200µs,seed=7
}
