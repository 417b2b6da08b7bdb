package pml_test

import (
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
	"gobtl/internal/testnet"
	"gobtl/pml"
)

// A receive is matched by the bits of the tag in its mask, here the lower eight.
func ExampleLayer() {
	network := mem.New(mem.Config{})
	sender, receiver := testnet.Module(network), testnet.Module(network)
	defer sender.Close()
	defer receiver.Close()
	out, err := pml.New(sender, pml.Config{}, nil)
	testnet.Check(err)
	in, err := pml.New(receiver, pml.Config{}, nil)
	testnet.Check(err)

	now := btl.Time(1)
	ep, err := sender.Connect(now, receiver.Name())
	testnet.Check(err)
	var sends [2]pml.Request
	testnet.Check(out.Send(now, &sends[0], out.Peer(ep), 0x101, []byte("one"), pml.Standard))
	testnet.Check(out.Send(now, &sends[1], out.Peer(ep), 0x102, []byte("two"), pml.Standard))
	var receive pml.Request
	memory := make([]byte, 8)
	testnet.Check(in.Recv(now, &receive, nil, 0x02, 0xff, memory)) // nil: of any peer
	for !receive.Done() || !sends[0].Done() || !sends[1].Done() {
		now = now.Add(10 * time.Microsecond)
		for _, l := range []*pml.Layer{out, in} {
			_, err := l.Progress(now)
			testnet.Check(err)
		}
	}
	fmt.Printf("%s, tag %#x\n", memory[:receive.Len()], receive.Tag())
	info, ok := in.Probe(nil, 0x101, ^uint64(0))
	fmt.Println("waiting:", ok, info.Size)
	// Output:
	// two, tag 0x102
	// waiting: true 3
}
