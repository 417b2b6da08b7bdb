package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the provider that this program uses
)

// Tags of messages.
const (
	tagBlock  = 1 // a large or a small block
	tagUrgent = 2
	tagDone   = 3 // the receiver has all messages
)

// blocks is the number of blocks that are sent. Every second one has blockBytes, the others are
// tiny, and overtake them on the wire.
const blocks, blockBytes = 100, 100_000

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("want: matching listen ADDRESS, or: matching send ADDRESS")
	}
	if os.Args[1] == "listen" {
		listen(os.Args[2])
	} else {
		send(os.Args[2])
	}
}

// loop owns a module: it is the progress engine of this program.
type loop struct {
	module *btl.Module
	layer  *Layer
	begun  time.Time
}

// open opens a module at an address of this host; port 0 chooses one.
func open(address string) *loop {
	var cfg btl.Config // The zero value is a good default.
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: address})
	check(err)
	buffers, err := cfg.DomainConfig(infos[0])
	check(err)
	domain, err := fabric.Open(infos[0], buffers)
	check(err)
	module, err := btl.Open(domain, cfg)
	check(err)
	layer, err := NewLayer(module)
	check(err)
	return &loop{module, layer, time.Now().Add(-time.Second)} // Instants are greater than 0.
}

func (l *loop) now() btl.Time { return btl.Time(time.Since(l.begun)) }

// until drives the module until a condition holds. It sleeps while there is nothing to do.
func (l *loop) until(over func() bool) {
	for !over() {
		received, err := l.module.Progress(l.now())
		check(err)
		idle := time.Duration(l.module.Deadline() - l.now())
		if received == 0 && idle > 0 {
			check(l.module.Wait(min(idle, time.Second)))
		}
	}
}

// send sends a message, when there is room for it.
func (l *loop) send(to *btl.Endpoint, tag uint64, data []byte) {
	err := l.layer.Send(l.now(), to, tag, data)
	for ; errors.Is(err, btl.ErrAgain); err = l.layer.Send(l.now(), to, tag, data) {
		_, err := l.module.Progress(l.now())
		check(err)
	}
	check(err)
}

func listen(address string) {
	l := open(address)
	fmt.Println(l.module.Address())
	// The receive for the urgent message is matched first, although that message comes last.
	var from *btl.Endpoint
	l.layer.Recv(&Receive{Tag: tagUrgent, Mask: ^uint64(0), Done: func(
		ep *btl.Endpoint, _ uint64, data []byte, _ error,
	) {
		fmt.Printf("urgent: %s\n", data)
		from = ep
	}})
	l.until(func() bool { return from != nil })
	next, bad := 0, 0
	var receive Receive
	receive = Receive{From: from, Tag: tagBlock, Mask: ^uint64(0), Done: func(
		_ *btl.Endpoint, _ uint64, data []byte, err error,
	) {
		check(err)
		if !bytes.Equal(data, block(next)) {
			bad++
		}
		if next++; next < blocks {
			l.layer.Recv(&receive)
		}
	}}
	l.layer.Recv(&receive)
	l.until(func() bool { return next == blocks })
	fmt.Printf("%d blocks, %d out of order\n", next, bad)
	l.send(from, tagDone, nil)
	l.module.Drain(l.now(), l.now().Add(time.Second))
	l.until(l.module.Drained)
}

// block is the content of a block.
func block(i int) []byte {
	text := fmt.Appendf(nil, "block %d ", i)
	if i%2 == 1 {
		return text
	}
	return bytes.Repeat(text, blockBytes/len(text))
}

func send(address string) {
	l := open("127.0.0.1")
	to, err := l.module.Dial(l.now(), address)
	check(err)
	for i := range blocks {
		l.send(to, tagBlock, block(i))
	}
	l.send(to, tagUrgent, []byte("all blocks are on their way"))
	done := false
	l.layer.Recv(&Receive{From: to, Tag: tagDone, Mask: ^uint64(0), Done: func(
		_ *btl.Endpoint, _ uint64, _ []byte, err error,
	) {
		check(err)
		done = true
	}})
	l.until(func() bool { return done })
	fmt.Println("the receiver has all messages")
	l.module.Drain(l.now(), l.now().Add(time.Second))
	l.until(l.module.Drained)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
