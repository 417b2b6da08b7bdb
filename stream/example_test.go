package stream_test

import (
	"context"
	"fmt"
	"log"

	"gobtl/fabric"
	_ "gobtl/fabric/udp"
	"gobtl/stream"
)

// An instrument sends a hundred messages, and a reader in another process, here the same, counts
// them.
func Example() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	check(err)
	ctx := context.Background()
	shape := stream.Geometry{MessageBytes: 8192, Regions: 4, RegionMessages: 8}

	reader, err := stream.Open(infos[0], stream.PortConfig{})
	check(err)
	into, err := stream.NewRing(shape, nil)
	check(err)
	rx, err := reader.Receive(into, stream.Config{})
	check(err)
	line := rx.Identity().String() // to be carried to the instrument

	instrument, err := stream.Open(infos[0], stream.PortConfig{})
	check(err)
	from, err := stream.NewRing(shape, nil)
	check(err)
	tx, err := instrument.Send(from, stream.Config{})
	check(err)
	id, err := stream.ParseIdentity(line)
	check(err)
	check(instrument.Connect(tx, id))
	go func() {
		for sent := 0; sent < 100; {
			region, err := tx.Next(ctx) // memory to fill
			check(err)
			n := min(region.Messages, 100-sent)
			check(tx.Populate(n))
			sent += n
		}
		tx.Finish()
	}()

	messages := 0
	for region := range rx.Completed() {
		messages += region.Received
		rx.Release(region)
	}
	check(rx.Wait(ctx))
	check(tx.Wait(ctx))
	fmt.Println(messages, "messages,", rx.Stats().Missing, "missing")
	check(instrument.Close(ctx))
	check(reader.Close(ctx))
	// Output: 100 messages, 0 missing
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A ring has regions of messages. A program without data of its own fills it with a pattern.
func ExampleRing() {
	ring, err := stream.NewRing(stream.Geometry{MessageBytes: 4, Regions: 2, RegionMessages: 3}, nil)
	check(err)
	ring.Fill()
	message := ring.Message(1, 1) // message 1 of region 1
	fmt.Println(ring.Geometry().Bytes(), "bytes; that message begins with", message[0])
	check(ring.Close())
	// Output: 24 bytes; that message begins with 16
}
