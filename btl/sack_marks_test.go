package btl

import (
	"testing"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A selective ACK has nothing of a selective ACK that was received before.
func TestSackRepeatsNoMarks(t *testing.T) {
	s := newLab(t, mem.Config{}, 1, smallConfig()).newScript(0)
	s.hello.Features = frag.FeatureSack
	ep := s.connect()
	if err := ep.SendImmediate(s.l.now, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	sent := kinds(s.run(5), frag.KindFrag)
	if len(sent) != 1 {
		t.Fatalf("%d packets", len(sent))
	}
	h := frag.Header{
		Kind: frag.KindAck, Flags: frag.FlagAck | frag.FlagSack, Conn: s.conn, Ack: sent[0].hdr.Seq,
		Credit: 64, CreditBytes: frag.CreditBytesAll, PayloadLen: frag.SackHeadBytes,
	}
	sack := frag.Sack{Last: h.Ack, LastNumber: sent[0].hdr.Number, Marks: 9}
	b := make([]byte, frag.AckBytes+frag.SackHeadBytes)
	sack.Encode(b[h.Encode(b):])
	s.raw(0, b)
	s.l.step(1)
	if n := flying(ep); n != 0 {
		t.Fatalf("%d packets in flight behind the ACK", n)
	}
	void := frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next, Tag: frag.TagVoid}
	s.raw(0, encode(void, nil))
	acks := kinds(s.run(300), frag.KindAck)
	if len(acks) == 0 {
		t.Fatal("no ACK")
	}
	for _, a := range acks {
		var got frag.Sack
		if frag.DecodeSack(a.payload, &got); a.hdr.Flags&frag.FlagSack == 0 || got.Marks != 0 {
			t.Errorf("an ACK with the flags %#x has %d marks", a.hdr.Flags, got.Marks)
		}
	}
}
