package pml_test

import (
	"fmt"
	"log"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/pml"
)

func exampleModule(network *mem.Network) *btl.Module {
	var cfg btl.Config
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	check(err)
	sizes, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := network.Open(sizes)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	return module
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A receive is matched by the bits of the tag in its mask, here the lower eight.
func ExampleLayer() {
	network := mem.New(mem.Config{})
	sender, receiver := exampleModule(network), exampleModule(network)
	defer sender.Close()
	defer receiver.Close()
	out, err := pml.New(sender, pml.Config{}, nil)
	check(err)
	in, err := pml.New(receiver, pml.Config{}, nil)
	check(err)

	now := btl.Time(1)
	ep, err := sender.Connect(now, receiver.Name())
	check(err)
	var sends [2]pml.Request
	check(out.Send(now, &sends[0], out.Peer(ep), 0x101, []byte("one"), pml.Standard))
	check(out.Send(now, &sends[1], out.Peer(ep), 0x102, []byte("two"), pml.Standard))
	var receive pml.Request
	memory := make([]byte, 8)
	check(in.Recv(now, &receive, nil, 0x02, 0xff, memory)) // nil: of any peer
	for !receive.Done() || !sends[0].Done() || !sends[1].Done() {
		now = now.Add(10 * time.Microsecond)
		for _, l := range []*pml.Layer{out, in} {
			_, err := l.Progress(now)
			check(err)
		}
	}
	fmt.Printf("%s, tag %#x\n", memory[:receive.Len()], receive.Tag())
	info, ok := in.Probe(nil, 0x101, ^uint64(0))
	fmt.Println("waiting:", ok, info.Size)
	// Output:
	// two, tag 0x102
	// waiting: true 3
}
