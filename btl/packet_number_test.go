package btl

import (
	"testing"
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// Somebody repeats a packet by the channel that it was not sent by, and the first copy is lost.
// What the peer says of it then is true, and counts while the packet is in flight and afterwards.
func TestSackOfOtherChannel(t *testing.T) {
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	s.hello.Features = frag.FeatureSack
	ep := s.connect()
	var sent []sentPacket
	for range 45 { // so that the numbers of the command channel are beyond those of the other one
		if err := ep.SendImmediate(s.l.now, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, kinds(s.run(1), frag.KindFrag)...)
		if n := len(sent); n > 0 && n <= 35 {
			s.ack(sent[n-1].hdr.Seq)
		}
	}
	s.run(5)
	if len(sent) != 45 || sent[39].hdr.Number <= ep.c.Numbers.Latest()[peer.ViaData] {
		t.Fatalf("%d packets: %+v", len(sent), ep.c.Numbers)
	}
	last := sent[39].hdr // the peer has taken over last
	say := func(number uint32, upTo int, want int) {
		t.Helper()
		b := make([]byte, frag.AckBytes+frag.SackHeadBytes)
		h := frag.Header{
			Kind: frag.KindAck, Flags: frag.FlagAck | frag.FlagSack, Conn: s.conn,
			Ack: sent[upTo].hdr.Seq, Credit: 64, CreditBytes: frag.CreditBytesAll,
			PayloadLen: frag.SackHeadBytes,
		}
		sack := frag.Sack{Last: last.Seq, LastNumber: number, LastData: true}
		sack.Encode(b[h.Encode(b):])
		s.raw(0, b)
		s.l.step(time.Microsecond)
		if got := flying(ep); got != want {
			t.Fatalf("number %d, up to packet %d: %d in flight, want %d", number, upTo, got, want)
		}
	}
	say(last.Number-1, 39, 10) // of another packet
	say(last.Number, 39, 5)
	say(last.Number+1000, 41, 5) // of none
	say(last.Number, 41, 3)      // which is in flight no more
}
