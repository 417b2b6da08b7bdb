package frag

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// drawSack draws a random Sack.
func drawSack(t *rapid.T) Sack {
	s := Sack{
		Last: drawSeq(t, "last"), DelayUs: rapid.Uint16().Draw(t, "delay"),
		UnreadUs: rapid.Uint16().Draw(t, "unread"), Copies: rapid.Uint32().Draw(t, "copies"),
		LastNumber: rapid.Uint32().Draw(t, "number"), LastData: rapid.Bool().Draw(t, "data"),
		Marks: rapid.Uint32().Draw(t, "marks"),
	}
	count := rapid.IntRange(0, SackRangesMax).Draw(t, "count")
	for at := uint32(0); s.Count < count && at < WindowMax; s.Count++ {
		r := SackRange{Start: uint16(at) + uint16(rapid.IntRange(0, 150).Draw(t, "gap"))}
		if r.More = uint16(rapid.IntRange(0, 300).Draw(t, "more")); r.end() > WindowMax ||
			uint32(r.Start) < at {
			break
		}
		s.Ranges[s.Count] = r
		at = r.end() + 1
	}
	return s
}

func TestSackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawSack(t)
		b := make([]byte, SackBytesMax)
		n := want.Encode(b)
		if n != want.Bytes() || n != SackHeadBytes+4*want.Count || checkSack(b[:n]) != nil {
			t.Fatalf("%d bytes of %d ranges", n, want.Count)
		}
		var got Sack
		if DecodeSack(b[:n], &got); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		// The ranges are converted to bits and back.
		words := make([]uint64, WindowMax/64)
		count := want.Words(words)
		for i := range uint32(64 * count) {
			has := false
			for _, r := range want.Ranges[:want.Count] {
				has = has || i >= uint32(r.Start) && i < r.end()
			}
			if words[i/64]>>(i%64)&1 != 0 != has {
				t.Fatalf("bit %d of %+v is not %v", i, want.Ranges[:want.Count], has)
			}
		}
		if count > 0 && words[count-1] == 0 {
			t.Fatalf("the last of %d words is 0", count)
		}
		most := rapid.IntRange(0, want.Count+1).Draw(t, "most")
		back := want
		back.SetWords(words[:count], most)
		if back.Count != min(most, want.Count) || back.Ranges != want.Ranges {
			t.Fatalf("%+v of %+v, at most %d", back.Ranges[:back.Count], want.Ranges[:want.Count], most)
		}
	})
}

// TestSackRefused checks Acks with invalid Sacks.
func TestSackRefused(t *testing.T) {
	whole := func(kind Kind, flags Flags, payload []byte) []byte {
		h := Header{Kind: kind, Flags: flags, Conn: testConn, PayloadLen: uint16(len(payload))}
		return encodePacket(&h, payload)
	}
	of := func(ranges ...SackRange) []byte {
		s := Sack{Count: len(ranges)}
		copy(s.Ranges[:], ranges)
		return sackBytes(s)
	}
	one := of(SackRange{})
	most := Sack{Count: SackRangesMax}
	for i := range most.Ranges {
		most.Ranges[i] = SackRange{uint16(256 * i), 254}
	}
	channel := of()
	channel[20] = 2
	padding := of()
	padding[23] = 1
	for _, tc := range []struct {
		name string
		pkt  []byte
		want error
	}{
		{"one range", whole(KindAck, FlagAck|FlagSack, one), nil},
		{"with Dup", whole(KindAck, FlagAck|FlagDup|FlagSack, one), nil},
		{"all ranges", whole(KindAck, FlagAck|FlagSack, sackBytes(most)), nil},
		{"no body", whole(KindAck, FlagAck|FlagSack, nil), ErrLength},
		{"half a head", whole(KindAck, FlagAck|FlagSack, make([]byte, 20)), ErrLength},
		{"half a range", whole(KindAck, FlagAck|FlagSack, make([]byte, 26)), ErrLength},
		{"too many ranges", whole(KindAck, FlagAck|FlagSack, make([]byte, SackBytesMax+4)), ErrLength},
		{"touching", whole(KindAck, FlagAck|FlagSack, of(SackRange{0, 3}, SackRange{4, 0})), ErrBounds},
		{
			"overlapping", whole(KindAck, FlagAck|FlagSack, of(SackRange{5, 3}, SackRange{1, 0})),
			ErrBounds,
		},
		{"beyond all windows", whole(KindAck, FlagAck|FlagSack, of(SackRange{65535, 1})), ErrBounds},
		{"the last of all", whole(KindAck, FlagAck|FlagSack, of(SackRange{65535, 0})), nil},
		{"a third channel", whole(KindAck, FlagAck|FlagSack, channel), ErrReserved},
		{"padding", whole(KindAck, FlagAck|FlagSack, padding), ErrReserved},
		{"body without the flag", whole(KindAck, FlagAck, one), ErrLength},
		{"without Ack", whole(KindAck, FlagSack, one), ErrFlags},
		{"of a Frag", whole(KindFrag, FlagAck|FlagSack, one), ErrFlags},
		{"of a Nack", whole(KindNack, FlagAck|FlagSack, nil), ErrFlags},
	} {
		var h Header
		if _, err := Decode(tc.pkt, &h); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
