package reliability

import (
	"math/rand/v2"
	"testing"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// What packets take of a buffer in TestSmall: a full one 64 units, any other one 1 and twice its

const (
	smallFull  = 64 // units of a full packet, less than twice its length
	smallBytes = 50 // length of a full packet
)

func smallRoom(size int) int { return min(1+2*size, smallFull) }

// TestSmall checks peers that send packets of any sizes, as many as permitted, and change their
// behaviour. Unread packets must never exceed the buffer, and a sender of small packets may send
// many.
func TestSmall(t *testing.T) {
	dice := rand.New(rand.NewPCG(testenv.Seed(t, 1), 2))
	for round := range 40 {
		const places = 20
		pool := NewCredits(places)
		pool.Small(smallFull/2/1, smallFull/2/2)
		peers := make([]smallPeer, 1+round%4)
		for i := range peers {
			pool.Join()
			peers[i].join()
		}
		most := 0
		for pass := range 400 {
			pool.At(mono.Time(pass) * 1000) // too short for credits to lapse
			room := 0
			for i := range peers {
				peers[i].send(dice, pass/50%2 == i%2)
				room += peers[i].room()
				most = max(most, peers[i].snd.InFlight())
			}
			// Each peer that found the pool empty has one packet.
			if limit := (places + len(peers)) * smallFull; room > limit {
				t.Fatalf("%d peers, pass %d: %d of %d taken", len(peers), pass, room, limit)
			}
			for i := range peers {
				peers[i].read(t, dice, pool)
			}
			if err := pool.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if most < 2*places {
			t.Errorf("%d peers: no more than %d small packets in flight", len(peers), most)
		}
	}
}

// smallPeer is a sender that knows only its credits, with packets in flight, and a receiver.
type smallPeer struct {
	snd   Sender
	rcv   Receiver
	sizes []int
}

func (p *smallPeer) join() {
	const first = seq.Num(1<<32 - 100)
	p.snd.Init(0, first, 4096)
	p.rcv.Init(first, 4096)
	p.snd.Grant(1)
}

// send sends as many packets as permitted.
func (p *smallPeer) send(dice *rand.Rand, large bool) {
	for p.snd.Open() {
		size := dice.IntN(3)
		if large {
			size = smallBytes - dice.IntN(smallBytes/2)
		}
		p.snd.Admit(Token(len(p.sizes)))
		p.snd.Carry(size)
		p.sizes = append(p.sizes, size)
	}
}

func (p *smallPeer) room() (room int) {
	for _, size := range p.sizes {
		room += smallRoom(size)
	}
	return room
}

// read reads some of the packets, and acknowledges these packets.
func (p *smallPeer) read(t *testing.T, dice *rand.Rand, pool *Credits) {
	rules := Usnic()
	n := dice.IntN(len(p.sizes) + 1)
	for _, size := range p.sizes[:n] {
		p.rcv.Accept(0, p.rcv.Next(), &rules)
		p.rcv.Weigh(size)
		p.snd.Carry(-size)
	}
	p.sizes = p.sizes[n:]
	ack, credit, _ := p.rcv.TakeAck(pool)
	p.snd.Confirm(0, ack, credit)
	p.snd.BoundBytes(ack, credit, p.rcv.GrantedBytes())
	if len(p.sizes) != p.snd.InFlight() {
		t.Fatalf("%d packets in flight, %d unread", p.snd.InFlight(), len(p.sizes))
	}
}
