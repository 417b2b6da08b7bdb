package sim_test

import (
	"fmt"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// printer is a process that prints what arrives.
type printer struct {
	ep    fabric.Endpoint
	arena fabric.Arena
}

func (p *printer) Deadline() mono.Time { return mono.Never }

func (p *printer) Progress(now mono.Time) (int, error) {
	var out [1]fabric.Completion
	n, err := p.ep.Poll(out[:])
	if n > 0 {
		data := p.arena.Bytes(out[0].Buf)[:out[0].Len]
		fmt.Printf("%v: %s\n", time.Duration(now), data)
		_, err = p.ep.Recv([]fabric.Buf{out[0].Buf})
	}
	return n, err
}

// A datagram from one node to another that loses the first one of two.
func Example() {
	nw, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	open := func(name string) (*sim.Node, fabric.Domain, fabric.Endpoint) {
		node := nw.Node(name)
		dom, err := node.Open(fabric.DomainConfig{Buffers: 16})
		if err != nil {
			fmt.Println(err)
			return nil, nil, nil
		}
		ep, err := dom.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			fmt.Println(err)
		}
		return node, dom, ep
	}
	alice, from, tx := open("alice")
	bob, to, rx := open("bob")

	nw.SetPath(alice, bob, sim.Path{Delay: 3 * time.Millisecond})
	nw.SetFilter(func(d *sim.Datagram) sim.Verdict { return sim.Verdict{Drop: d.ID == 1} })
	if _, err := rx.Recv([]fabric.Buf{0, 1}); err != nil {
		fmt.Println(err)
	}
	bob.Run(&printer{ep: rx, arena: to.Arena()})

	addr, err := from.Insert(sim.Port{Node: bob.Index()}.Name())
	if err != nil {
		fmt.Println(err)
	}
	arena := from.Arena()
	for i, text := range []string{"anybody there?", "hello, Bob"} {
		n := copy(arena.Bytes(fabric.Buf(i)), text)
		if _, err := tx.Post([]fabric.Send{{To: addr, Buf: fabric.Buf(i), Len: uint32(n)}}); err != nil {
			fmt.Println(err)
		}
	}
	nw.RunUntil(mono.Time(time.Second))
	counts := nw.Counts()
	fmt.Println(counts[sim.KindSent], "sent,", counts[sim.KindFiltered], "filtered,",
		counts[sim.KindDelivered], "delivered")
	// Output:
	// 3.000001ms: hello, Bob
	// 2 sent, 1 filtered, 1 delivered
}

// A node may have faults of its own. Observe tells what has happened.
func ExampleNodeFaults() {
	var memory sim.Memory // for the networks of many short runs, one after the other
	nw, err := sim.New(sim.Config{Seed: 1, Memory: &memory, Observe: func(event *sim.Event) {
		if event.Kind == sim.KindSendError {
			fmt.Println("a send of node", event.From.Node, "has failed")
		}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	node := nw.Node("alice")
	node.SetFaults(sim.NodeFaults{SendError: 1})
	dom, err := node.Open(fabric.DomainConfig{Buffers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	self, err := dom.Insert(ep.Name())
	if err != nil {
		fmt.Println(err)
	}
	_, err = ep.Post([]fabric.Send{{To: self, Buf: 0, Len: 5}})
	fmt.Println(err)
	nw.RunUntil(mono.Time(time.Second))
	// Output:
	// a send of node 0 has failed
	// sim/net: fi_send: injected fault (errno 5)
}
