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

// column is a column of a matrix of bytes in rows of equal width.
type column struct {
	matrix    []byte
	at, width int
}

func (c column) Bytes() int { return len(c.matrix) / c.width }

func (c column) Gather(to []byte, at int) {
	for i := range to {
		to[i] = c.matrix[(at+i)*c.width+c.at]
	}
}

func (c column) Scatter(from []byte, at int) {
	for i := range from {
		c.matrix[(at+i)*c.width+c.at] = from[i]
	}
}

func (c column) Run(at int) []byte { return c.matrix[at*c.width+c.at:][:1] }

// layers returns the layers of two modules, and the peer by which the first reaches the second.
func layers() (a, b *pml.Layer, toB *pml.Peer, end func()) {
	network := mem.New(mem.Config{})
	one, other := testnet.Module(network), testnet.Module(network)
	a, err := pml.New(one, pml.Config{}, nil)
	testnet.Check(err)
	b, err = pml.New(other, pml.Config{}, nil)
	testnet.Check(err)
	ep, err := one.Connect(1, other.Name())
	testnet.Check(err)
	return a, b, a.Peer(ep), func() { one.Close(); other.Close() }
}

// progress lets two layers work until a condition is true.
func progress(a, b *pml.Layer, done func() bool) {
	for now := btl.Time(1); !done(); now = now.Add(10 * time.Microsecond) {
		for _, l := range []*pml.Layer{a, b} {
			_, err := l.Progress(now)
			testnet.Check(err)
		}
	}
}

// A Layout is memory that does not lie side by side. Here the first column of one matrix arrives as
// the last column of another.
func ExampleLayout() {
	a, b, toB, end := layers()
	defer end()
	from := column{matrix: []byte("x..y..z.."), at: 0, width: 3}
	into := column{matrix: []byte("---------"), at: 2, width: 3}
	send, receive := pml.Request{Layout: from}, pml.Request{Layout: into}
	testnet.Check(a.Send(1, &send, toB, 7, nil, pml.Standard))
	testnet.Check(b.Recv(1, &receive, nil, 7, ^uint64(0), nil))
	progress(a, b, func() bool { return send.Done() && receive.Done() })
	fmt.Printf("%s\n", into.matrix)
	// Output: --x--y--z
}

// The handler of an active message gets its header and its data.
func ExampleMessage() {
	a, b, toB, end := layers()
	defer end()
	const id = 3
	got := false
	b.HandleActive(id, func(_ btl.Time, m *pml.Message) {
		fmt.Printf("%s: %s\n", m.Header(), m.Data())
		got = true
	})
	var send pml.Request
	testnet.Check(a.SendActive(1, &send, toB, id, []byte("greeting"), []byte("hello"), pml.Standard))
	progress(a, b, func() bool { return send.Done() && got })
	fmt.Println(a.Stats().SentEager, "sent")
	// Output:
	// greeting: hello
	// 1 sent
}

// A receive from any peer of a set does not match the messages of other peers.
func ExampleMembers() {
	a, b, toB, end := layers()
	defer end()
	var send pml.Request
	testnet.Check(a.Send(1, &send, toB, 7, []byte("hello"), pml.Standard))
	arrived := func() bool { _, ok := b.Probe(nil, 7, ^uint64(0)); return ok }
	progress(a, b, func() bool { return arrived() && send.Done() })
	found, _ := b.Probe(nil, 7, ^uint64(0))
	found.Peer.Number = 12 // a number of the program for its peer
	both, other := new(pml.Members), new(pml.Members)
	both.Add(12)
	both.Add(13)
	other.Add(13)
	fmt.Println(both.Has(found.Peer), other.Has(found.Peer))
	receive := pml.Request{Among: other}
	testnet.Check(b.Recv(2, &receive, nil, 7, ^uint64(0), make([]byte, 5)))
	fmt.Println("received:", receive.Done(), "dropped:", b.Stats().Refused)
	// Output:
	// true false
	// received: false dropped: 1
}
