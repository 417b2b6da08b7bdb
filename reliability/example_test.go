package reliability_test

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A peer's credits grow with the use that it makes of them. What it has it keeps while it is idle,
// and a newcomer gets what is free.
func ExampleCredits() {
	rules := reliability.Usnic()
	credits := reliability.NewCredits(100)
	credits.Join()
	var first, newcomer reliability.Receiver
	first.Init(0, rules.WindowPackets)
	fmt.Println("first:", first.Grant(credits), "and idle:", first.Grant(credits))
	for range 3 {
		for range 16 {
			first.Accept(0, first.Next(), &rules)
		}
		_, credit, _ := first.TakeAck(credits)
		fmt.Println("first, after 16 packets:", credit)
	}

	credits.Join()
	newcomer.Init(0, rules.WindowPackets)
	fmt.Println("newcomer:", newcomer.Grant(credits))
	first.Leave(credits)
	credits.Leave()
	fmt.Println("newcomer, as the only one:", newcomer.Grant(credits), "granted:", credits.Granted())
	// Output:
	// first: 25 and idle: 25
	// first, after 16 packets: 64
	// first, after 16 packets: 100
	// first, after 16 packets: 100
	// newcomer: 1
	// newcomer, as the only one: 25 granted: 25
}

// Four packets are sent and the second is lost. The ACKs for the others say so, the packet is sent
// again before its timer ends, and one more ACK covers everything.
func Example() {
	rules := reliability.Usnic()
	segments, err := reliability.NewRecovery(16, 1, rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	credits := reliability.NewCredits(32) // capacity of the receiving side
	credits.Join()

	const first = seq.Num(1<<32 - 2) // chosen by the sender; the numbers wrap during the example
	var snd reliability.Sender
	var rcv reliability.Receiver
	snd.Init(0, first, rules.WindowPackets)
	segments.Join(&snd, rules.AckDelay, false)
	rcv.Init(first, rules.WindowPackets)
	snd.Grant(rcv.Grant(credits)) // in the handshake

	now := mono.Time(0)
	arrive := func(n seq.Num) {
		if rcv.Check(n) == reliability.Accept {
			rcv.Accept(now, n, &rules) // after the packet's bytes are stored
		}
	}
	acknowledge := func() {
		ack, credit, dup := rcv.TakeAck(credits)
		freed, verdict := snd.OnAck(now, ack, credit, dup, nil)
		duplicate := verdict == reliability.AckDuplicate
		resend := segments.ResendsWaiting() > 0
		fmt.Printf("ACK of packet %d: freed %v, duplicate %v, resend %v\n",
			ack.Sub(first), freed, duplicate, resend)
	}

	for packet := range 4 {
		segment := reliability.Token(10 + packet) // names the buffer with the packet's bytes
		n := snd.Admit(segment)
		snd.Post(now, segment, n, reliability.Data, time.Hour)
		if packet != 1 {
			arrive(n)
		}
		if packet == 0 || packet == 2 {
			acknowledge()
		}
	}
	fmt.Println("received beyond the gap:", rcv.Held())

	now = now.Add(30 * time.Microsecond)
	segment, _, _ := segments.PopResend()
	_, n := segments.Owner(segment)
	fmt.Printf("send packet %d again, from buffer %d\n", n.Sub(first), segment)
	arrive(n)
	snd.Repost(now, segment, time.Hour)

	acknowledge()
	fmt.Println("in flight:", snd.InFlight(), "room:", snd.Room())
	// Output:
	// ACK of packet 0: freed [10], duplicate false, resend false
	// ACK of packet 0: freed [], duplicate true, resend true
	// received beyond the gap: 2
	// send packet 1 again, from buffer 11
	// ACK of packet 3: freed [11 12 13], duplicate false, resend false
	// in flight: 0 room: 8
}
