package frag

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// drawSack draws any Sack: its last word, if it has one, is not zero.
func drawSack(t *rapid.T) Sack {
	s := Sack{
		Last: drawSeq(t, "last"), DelayUs: rapid.Uint16().Draw(t, "delay"),
		UnreadUs: rapid.Uint16().Draw(t, "unread"), Copies: rapid.Uint32().Draw(t, "copies"),
		Count: rapid.IntRange(0, SackWordsMax).Draw(t, "count"),
	}
	for i := range s.Count {
		s.Words[i] = rapid.Uint64().Draw(t, "word")
	}
	if s.Count > 0 && s.Words[s.Count-1] == 0 {
		s.Words[s.Count-1] = 1
	}
	return s
}

func TestSackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawSack(t)
		b := make([]byte, SackBytesMax)
		n := want.Encode(b)
		if n != want.Bytes() || n != SackHeadBytes+8*want.Count {
			t.Fatalf("%d bytes of %d words", n, want.Count)
		}
		var got Sack
		if DecodeSack(b[:n], &got); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestSackRefused: what Decode does not take for an Ack with a Sack.
func TestSackRefused(t *testing.T) {
	whole := func(kind Kind, flags Flags, payload []byte) []byte {
		h := Header{Kind: kind, Flags: flags, Conn: testConn, PayloadLen: uint16(len(payload))}
		return encodePacket(&h, payload)
	}
	one := Sack{Words: [SackWordsMax]uint64{1}, Count: 1}
	zero := Sack{Words: [SackWordsMax]uint64{1}, Count: 2}
	most := Sack{Count: SackWordsMax}
	most.Words[SackWordsMax-1] = 1
	for _, tc := range []struct {
		name string
		pkt  []byte
		want error
	}{
		{"one word", whole(KindAck, FlagAck|FlagSack, sackBytes(one)), nil},
		{"with Dup", whole(KindAck, FlagAck|FlagDup|FlagSack, sackBytes(one)), nil},
		{"all words", whole(KindAck, FlagAck|FlagSack, sackBytes(most)), nil},
		{"no body", whole(KindAck, FlagAck|FlagSack, nil), ErrLength},
		{"half a head", whole(KindAck, FlagAck|FlagSack, make([]byte, 8)), ErrLength},
		{"half a word", whole(KindAck, FlagAck|FlagSack, make([]byte, 16)), ErrLength},
		{"too many words", whole(KindAck, FlagAck|FlagSack, make([]byte, SackBytesMax+8)), ErrLength},
		{"last word zero", whole(KindAck, FlagAck|FlagSack, sackBytes(zero)), ErrReserved},
		{"body without the flag", whole(KindAck, FlagAck, sackBytes(one)), ErrLength},
		{"without Ack", whole(KindAck, FlagSack, sackBytes(one)), ErrFlags},
		{"of a Frag", whole(KindFrag, FlagAck|FlagSack, sackBytes(one)), ErrFlags},
		{"of a Nack", whole(KindNack, FlagAck|FlagSack, nil), ErrFlags},
	} {
		var h Header
		if _, err := Decode(tc.pkt, &h); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
