package inbound

import (
	"slices"
	"testing"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

func chunk(id, offset uint32) *frag.Header {
	return &frag.Header{
		Kind: frag.KindChunk, FragID: id, SizeBytes: 3 * roomBytes, OffsetBytes: offset,
		PayloadLen: roomBytes,
	}
}

// On a counted link the chunks of one fragment arrive in order, and no chunk of another fragment
// arrives between them.
func TestCountedOrder(t *testing.T) {
	var c Counted
	if err := c.Next(chunk(1, roomBytes), false); err == nil {
		t.Error("a fragment begins in its middle")
	}
	if err := c.Next(chunk(1, 0), false); err != nil {
		t.Fatal(err)
	}
	c.Came(chunk(1, 0))
	for _, h := range []*frag.Header{chunk(1, 0), chunk(1, 2*roomBytes), chunk(2, roomBytes)} {
		if err := c.Next(h, true); err == nil {
			t.Errorf("chunk of fragment %d at %d is the next one", h.FragID, h.OffsetBytes)
		}
	}
	if err := c.Next(chunk(1, roomBytes), true); err != nil {
		t.Error(err)
	}
}

// After a refused chunk all later chunks of the fragment are refused. Only the last chunk, which
// asks for an ACK, is told to the peer.
func TestCountedRefusal(t *testing.T) {
	var c Counted
	c.Refuse(7, chunk(1, 0), frag.NackMemory)
	if !c.Refuses() || c.WhyRefused(1) != frag.NackMemory || c.WhyRefused(2) != 0 {
		t.Errorf("the chunks of fragment 1 are refused for %d", c.WhyRefused(1))
	}
	last := chunk(1, 2*roomBytes)
	last.Seq = 9
	c.Refuse(9, last, frag.NackMemory)
	if c.Refuses() || c.WhyRefused(1) != 0 {
		t.Error("chunks are refused after the last one")
	}
	var refused Tags
	c.RefuseRecords(10, &refused)
	for _, tag := range []uint8{6, 5, 6} {
		refused.Add(tag)
	}
	c.RefuseRecords(10, &refused)
	want := []Refusal{
		{Seq: 9, Reason: frag.NackMemory},
		{Seq: 10, Reason: frag.NackRecord, Tag: 5},
		{Seq: 10, Reason: frag.NackRecord, Tag: 6},
	}
	var told []Refusal
	for room := range 4 { // the channel has room for a few Nacks at a time
		left := room
		all := c.Tell(func(r Refusal) bool {
			if left == 0 {
				return false
			}
			left--
			told = append(told, r)
			return true
		})
		if all != (len(told) == len(want)) {
			t.Errorf("all are told: %v, of %v", all, told)
		}
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// The refusals of all records of a packet take the place of one packet, and Nacks for which the
// channel has no room stay in their order.
func TestCountedRefusalsOfPacks(t *testing.T) {
	var c Counted
	var all Tags
	for tag := range uint8(frag.TagUserMax + 1) {
		all.Add(tag)
	}
	const packets = 50
	for n := range uint32(packets) {
		c.RefuseRecords(seq.Num(n), &all)
	}
	if len(c.refusals) > packets {
		t.Errorf("%d refusals are stored for %d packets", len(c.refusals), packets)
	}
	told := 0
	for left := 0; !c.Tell(func(r Refusal) bool {
		if left == 0 {
			return false
		}
		left--
		want := Refusal{Reason: frag.NackRecord, Tag: uint8(told % (frag.TagUserMax + 1))}
		if want.Seq = seq.Num(told / (frag.TagUserMax + 1)); r != want {
			t.Fatalf("Nack %d is %+v, want %+v", told, r, want)
		}
		told++
		return true
	}); left = 7 {
		if len(c.refusals) > packets {
			t.Fatalf("%d refusals are stored", len(c.refusals))
		}
	}
	if told != packets*(frag.TagUserMax+1) || len(c.refusals) != 0 {
		t.Errorf("%d Nacks, %d refusals are left", told, len(c.refusals))
	}
}

// A header whose count is not the next one, a packet without a credit, and an ACK of a packet that
// was not sent, show that the fabric has lost packets.
func TestWhyLost(t *testing.T) {
	var rcv reliability.Receiver
	var snd reliability.Sender
	rcv.Init(1<<20, 64)
	snd.Init(0, 0, 64)
	next := rcv.Expected()
	for _, c := range []struct {
		what string
		h    frag.Header
		lost bool
	}{
		{"a packet without a credit", frag.Header{Kind: frag.KindFrag, Seq: next}, true},
		{"another packet", frag.Header{Kind: frag.KindFrag, Tag: frag.TagVoid, Seq: next + 1}, true},
		{"a Void", frag.Header{Kind: frag.KindFrag, Tag: frag.TagVoid, Seq: next}, false},
		{"a Void without a count", frag.Header{Kind: frag.KindFrag, Tag: frag.TagVoid}, false},
		{"an ACK of nothing sent", frag.Header{Kind: frag.KindAck, Flags: frag.FlagAck, Ack: 9}, true},
	} {
		if err := WhyLost(&c.h, &rcv, &snd); (err != nil) != c.lost {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
