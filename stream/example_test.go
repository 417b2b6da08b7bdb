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

// A Port has all streams of a process. This one sends to a Meeting, at whose address the receiver
// asks for the sender's identity. The sender of this stream does not wait for its receivers.
func ExamplePort() {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	check(err)
	ctx := context.Background()
	port, err := stream.Open(infos[0], stream.PortConfig{})
	check(err)
	shape := stream.Geometry{MessageBytes: 1000, Regions: 2, RegionMessages: 4}
	cfg := stream.Config{Mode: stream.Unreliable, Overrun: stream.Drop, Messages: 8}
	from, err := stream.NewRing(shape, nil)
	check(err)
	into, err := stream.NewRing(shape, nil)
	check(err)
	tx, err := port.Send(from, cfg)
	check(err)
	rx, err := port.Receive(into, cfg)
	check(err)

	meeting, err := stream.Listen("127.0.0.1:0") // of the sender
	check(err)
	go func() {
		_, err := stream.ExchangeAt(meeting.Addr().String())(ctx, rx.Identity())
		check(err)
	}()
	receiver, err := meeting.Exchange(ctx, tx.Identity())
	check(err)
	check(port.Connect(tx, receiver))
	for range shape.Regions {
		_, err := tx.Next(ctx)
		check(err)
		check(tx.Populate(shape.RegionMessages))
	}
	check(tx.Wait(ctx))
	check(rx.Wait(ctx))
	stats := rx.Stats()
	fmt.Println("of 8 messages,", stats.Missing+stats.Received, "are known to be here or missing")
	refused := meeting.Refusals()
	fmt.Println(refused.Nonsense, "strangers,", stats.Refused.Total(), "refusals")
	check(meeting.Close())
	check(port.Close(ctx))
	// Output:
	// of 8 messages, 8 are known to be here or missing
	// 0 strangers, 0 refusals
}
