package frag

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/seq"
)

func goldenPacket(tb testing.TB, name string) []byte {
	tb.Helper()
	for _, v := range goldenVectors() {
		if v.name == name {
			return v.encode(tb)
		}
	}
	tb.Fatalf("no vector %s", name)
	return nil
}

// put returns a change that writes values at an offset.
func put(at int, values ...byte) func([]byte) []byte {
	return func(b []byte) []byte {
		copy(b[at:], values)
		return b
	}
}

// resize returns a change of the payload's length that also changes the packet.
func resize(n int) func([]byte) []byte {
	return func(b []byte) []byte {
		header := HeaderBytes(Kind(b[1]&0x0F), Flags(b[2]))
		le.PutUint16(b[24:], uint16(n))
		return append(b[:header], make([]byte, n)...)
	}
}

var ones = bytes.Repeat([]byte{0xFF}, 8)

// refusals are golden packets with a change that makes them invalid.
var refusals = []struct {
	about, base string
	change      func([]byte) []byte
	want        error
}{
	{"other magic", "frag", put(0, 0xB6), ErrMagic},
	{"version 0", "frag", put(1, 0x01), ErrVersion},
	{"version 1", "frag", put(1, 0x11), ErrVersion},
	{"version 3", "frag", put(1, 0x31), ErrVersion},
	{"kind 0", "frag", put(1, 0x20), ErrKind},
	{"kind 13", "frag", put(1, 0x2D), ErrKind},
	{"kind 15", "ack", put(1, 0x2F), ErrKind},
	{"reserved flag 3", "frag", put(2, 0x09), ErrFlags},
	{"dup without ack", "frag-empty", put(2, 4), ErrFlags},
	{"ack with only dup", "ack", put(2, 4), ErrFlags},
	{"hello with dup", "hello", put(2, 4), ErrFlags},
	{"hello with ack and dup", "hello", put(2, 5), ErrFlags},
	{"put with dup but no ack", "frag-put", put(2, 6), ErrFlags},
	{"later of a chunk", "chunk-first", put(2, 0x81), ErrFlags},
	{"later without ack", "frag-empty", put(2, 0x80), ErrFlags},
	{"later of a mark", "frag-bye", put(2, 0x81), ErrTag},
	{"ack without its flag", "ack", put(2, 0), ErrFlags},
	{"ack with put", "ack", put(2, 3), ErrFlags},
	{"nack with put", "nack", put(2, 2), ErrFlags},
	{"hello with ack", "hello", put(2, 1), ErrFlags},
	{"hello-ack with put", "hello-ack", put(2, 2), ErrFlags},
	{"reject with ack", "reject", put(2, 1), ErrFlags},
	{"put shorter than its header", "frag", put(2, 3), ErrShort},
	{"first reserved tag", "frag", put(3, 0xF0), ErrTag},
	{"last reserved tag", "frag", put(3, 0xFD), ErrTag},
	{"put with a tag", "frag-put", put(3, 1), ErrTag},
	{"put with a mark", "frag-put", put(3, TagBye), ErrTag},
	{"chunk with a mark", "chunk-first", put(3, TagVoid), ErrTag},
	{"chunk with a reserved tag", "chunk-first", put(3, 0xF0), ErrTag},
	{"chunk put with a tag", "chunk-put", put(3, 9), ErrTag},
	{"ack with a tag", "ack", put(3, 1), ErrTag},
	{"hello with a tag", "hello", put(3, 1), ErrTag},
	{"nack without reason", "nack", put(3, 0), ErrTag},
	{"nack with an unknown reason", "nack", put(3, 7), ErrTag},
	{"nack for a record of the transport's", "nack-record", put(32, TagUserMax+1), ErrTag},
	{"reject without reason", "reject", put(3, 0), ErrTag},
	{"reject without a reason", "reject", put(3, 0), ErrTag},
	{"bye with payload", "frag-bye", resize(1), ErrLength},
	{"bye with half a code", "frag-bye-owner", resize(1), ErrLength},
	{"bye with more than a code", "frag-bye-owner", resize(3), ErrLength},
	{"bye with the code of none", "frag-bye-owner", put(32, 0, 0), ErrReserved},
	{"void with a code", "frag-bye-owner", put(3, TagVoid), ErrLength},
	{"void with payload", "frag-void", resize(9), ErrLength},
	{"frag without connection", "frag", put(4, make([]byte, 8)...), ErrConn},
	{"hello-ack without connection", "hello-ack", put(4, make([]byte, 8)...), ErrConn},
	{"ack with a sequence number", "ack", put(19, 1), ErrReserved},
	{"reject with a sequence number", "reject", put(16, 1), ErrReserved},
	{"ack field without flag", "frag-put", put(23, 1), ErrReserved},
	{"credit without flag", "frag-put", put(27, 1), ErrReserved},
	{"hello with an ack field", "hello", put(20, 1), ErrReserved},
	{"ack with payload", "ack", resize(1), ErrLength},
	{"nack with payload", "nack", resize(2), ErrLength},
	{"nack for no record with a tag", "nack-record", put(3, NackNoHandler), ErrLength},
	{"nack for a record without its tag", "nack-record", resize(0), ErrLength},
	{"nack for two records", "nack-record", resize(2), ErrLength},
	{"reject too short", "reject", resize(1), ErrLength},
	{"reject too long", "reject", resize(3), ErrLength},
	{"hello too short", "hello", resize(helloFixedBytes - 1), ErrLength},
	{"payload length too small", "frag", put(24, 4), ErrLength},
	{"payload length too large", "frag", put(24, 6), ErrLength},
	{"payload length huge", "frag", put(24, 0xFF, 0xFF), ErrLength},
	{"empty chunk", "chunk-first", resize(0), ErrBounds},
	{"chunk past the end", "chunk-last", put(40, 9), ErrBounds},
	{"chunk of an empty fragment", "chunk-first", put(36, 0, 0, 0, 0), ErrBounds},
	{"chunk offset plus length wraps", "chunk-limits", put(40, ones[:4]...), ErrBounds},
	{"chunks of no size", "chunk-first", put(46, 0, 0), ErrBounds},
	{"chunks too small", "chunk-first", put(46, ChunkBytesMin-1, 0), ErrBounds},
	{"first chunk of no size", "chunk-last", put(44, 0, 0), ErrBounds},
	{"first chunk larger than the fragment", "chunk-first", put(44, 11, 0), ErrBounds},
	{"first chunk of another size", "chunk-first", put(44, 5, 0), ErrBounds},
	{"chunk off the grid", "chunk-last", put(44, 3, 0), ErrBounds},
	{"chunk that is short", "chunk-last", put(36, 11), ErrBounds},
	{"chunk put with a first chunk", "chunk-put", put(44, 1), ErrBounds},
	{"chunk put with a grid", "chunk-put", put(47, 1), ErrBounds},
	{"operation's last bytes", "frag-op", put(54, 1), ErrReserved},
	{"operation without a code", "frag-op", put(52, 0), ErrReserved},
	{"operation beyond the codes", "frag-op", put(52, 8), ErrReserved},
	{"notice in a part", "frag-op", put(53, 1), ErrReserved},
	{"notice longer than its packet", "frag-placed", put(53, 6), ErrLength},
	{"notice longer than any", "frag-placed", put(53, NoticeBytesMax+1), ErrReserved},
	{"part of a put with a tag", "frag-op", put(3, 1), ErrTag},
	{"get that is a put", "frag-op", put(52, byte(OpGet)), ErrFlags},
	{"put that is none", "frag-notice", put(36, byte(OpPart)), ErrFlags},
	{"notice with a mark", "frag-notice", put(3, TagVoid), ErrTag},
	{"placed with a mark", "frag-placed", put(3, TagBye), ErrTag},
	{"get with a tag", "frag-get", put(3, 1), ErrTag},
	{"get that is short", "frag-get", resize(GetBytes - 1), ErrLength},
	{"atomic that is long", "frag-atomic", resize(AtomicBytes + 1), ErrLength},
	{"result that is short", "frag-result", resize(ResultBytes - 1), ErrLength},
	{"failure without a reason", "frag-failed", resize(0), ErrLength},
	{"notice without what it waits for", "frag-notice", resize(NoticeHeadBytes - 1), ErrLength},
	{"notice that is long", "frag-notice", resize(NoticeHeadBytes + NoticeBytesMax + 1), ErrLength},
	{"operation of a pack", "pack", put(2, 0x11), ErrFlags},
	{"operation of a mark", "frag-bye", func(b []byte) []byte {
		b[2], b[30] = b[2]|byte(FlagOp), 2
		return append(b, 0, 0, 0, 0, byte(OpGet), 0, 0, 0)
	}, ErrTag},
	{"operation shorter than its header", "frag", put(2, 0x11), ErrShort},
	{"extras of another length", "chunk-first", put(30, 3), ErrReserved},
	{"extras that are not there", "frag", put(30, 4), ErrReserved},
	{"last byte of the header", "frag", put(31, 1), ErrReserved},
	{"protected", "frag", put(2, 0x41), ErrFlags},
	{"credit in bytes without flag", "frag-put", put(29, 1), ErrReserved},
	{"hello with a number, and no connection", "hello", put(12, 1), ErrConn},
	{"reject with a number", "reject", put(12, 1), ErrReserved},
	{"put end wraps", "frag-put-end", put(40, ones...), ErrBounds},
	{"chunk put end wraps", "chunk-put", put(56, ones...), ErrBounds},
	{"part with an ack", "part", put(2, 1), ErrFlags},
	{"part with a tag", "part", put(3, 1), ErrTag},
	{"part without a slice", "part", resize(partHeadBytes), ErrLength},
	{"part off its blocks", "part", put(32, 65), ErrBounds},
	{"part behind the end", "part", put(32, 128), ErrBounds},
	{"part past the end", "part", put(36, 69), ErrBounds},
	{"part that is short", "part", put(36, 71), ErrBounds},
	{"part that is all", "part", put(32, 0), ErrBounds},
	{"part of a datagram of no header", "part", put(32, 0, 0, 0, 0, 32), ErrBounds},
	{"part of a datagram beyond any", "part", put(38, 1), ErrBounds},
	{"ping with a sequence number", "ping", put(16, 1), ErrReserved},
	{"ping with a tag", "ping", put(3, 1), ErrTag},
	{"ping with an ack", "ping", put(2, 1), ErrFlags},
	{"ping with content", "ping", put(47, 1), ErrReserved},
	{"ping without a nonce", "ping", resize(7), ErrLength},
	{"pong without a nonce", "pong", resize(7), ErrLength},
	{"pong with content", "pong", resize(9), ErrLength},
	{"pong with a sequence number", "pong", put(19, 1), ErrReserved},
	{"reject of no version", "reject", put(32, 0), ErrBounds},
	{"reject of an empty range", "reject", put(32, 4), ErrBounds},
	{"reject of a large version", "reject", put(33, 16), ErrBounds},
}

func TestDecodeRefuses(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.about, func(t *testing.T) {
			b := test.change(goldenPacket(t, test.base))
			var h Header
			if p, err := Decode(b, &h); !errors.Is(err, test.want) || p != nil {
				t.Fatalf("Decode(%x) = %x, %v, want %v", b, p, err, test.want)
			}
		})
	}
}

// TestTruncation checks that a truncated packet and a packet with trailing bytes are invalid.
func TestTruncation(t *testing.T) {
	for _, v := range packets() {
		b := v.encode(t)
		for n := range len(b) {
			var h Header
			if _, err := Decode(b[:n:n], &h); err == nil {
				t.Errorf("%s: the first %d of %d bytes decode", v.name, n, len(b))
			}
		}
		var h Header
		if _, err := Decode(append(b, 0), &h); !errors.Is(err, ErrLength) {
			t.Errorf("%s: with a byte behind it: %v", v.name, err)
		}
	}
}

// TestBitFlips checks that a packet with one inverted bit is refused, or is the only encoding of
// another packet.
func TestBitFlips(t *testing.T) {
	for _, v := range packets() {
		b := v.encode(t)
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			checkCanonical(t, b)
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// checkSplit checks DecodeSplit for each beginning of b that has the header. The result must be the
// result of Decode for the whole packet, which is h and err, or ErrKind.
func checkSplit(tb testing.TB, b []byte, h *Header, err error) {
	tb.Helper()
	if len(b) < FragHeaderBytes {
		return
	}
	header := min(len(b), HeaderBytes(Kind(b[1]&0x0F), Flags(b[2])))
	if err == nil && header > len(b) {
		tb.Fatalf("%x is taken for a packet", b)
	}
	for _, n := range []int{header, (header + len(b)) / 2, len(b)} {
		var part Header
		got, splitErr := DecodeSplit(b[:n:n], len(b), &part)
		plain := part.Kind <= KindAck && part.Flags&FlagSack == 0 &&
			(part.Tag != TagBye || part.PayloadLen == 0) ||
			part.Kind == KindNack && part.Tag != NackRecord
		switch {
		case splitErr != nil && got != 0:
			tb.Fatalf("%x: a header of %d bytes beside %v", b, got, splitErr)
		case errors.Is(splitErr, err) && (err != nil || plain && part == *h && got == header):
		case !plain && errors.Is(splitErr, ErrKind): // Decode of the whole packet decides
		default:
			tb.Fatalf("%d bytes of %x: %d, %v, %+v\nall of it: %v, %+v", n, b, got, splitErr, part, err, h)
		}
	}
	for _, n := range []int{0, FragHeaderBytes - 1, header - 1} {
		var part Header
		if _, splitErr := DecodeSplit(b[:n], len(b), &part); splitErr == nil {
			tb.Fatalf("%d bytes of %x are taken for a header", n, b)
		}
	}
}

// checkCanonical checks that b is refused, or decodes to a packet whose encoding is b.
func checkCanonical(tb testing.TB, b []byte) {
	tb.Helper()
	var h Header
	payload, err := Decode(b, &h)
	checkSplit(tb, b, &h, err)
	if err != nil {
		if payload != nil {
			tb.Fatalf("Decode(%x) returned a payload beside %v", b, err)
		}
		return
	}
	if again, _ := reencode(b); !bytes.Equal(again, b) {
		tb.Fatalf("decoded  %x\nencoded  %x", b, again)
	}
	if h.Kind == KindPack {
		checkPacked(tb, payload)
	}
	if h.Kind != KindHello && h.Kind != KindHelloAck {
		return
	}
	var m Hello
	if DecodeHello(payload, &m) != nil || m.Others > 0 {
		return
	}
	again := make([]byte, len(b))
	if m.Encode(again, &h); !bytes.Equal(again, b) {
		tb.Fatalf("decoded hello %x\nencoded hello %x", b, again)
	}
}

var drawnKinds = []Kind{KindFrag, KindChunk, KindAck, KindNack, KindPack}

// TestPutFrag checks that PutFrag writes the same header as Encode.
func TestPutFrag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Kind: KindFrag, Conn: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "conn"),
			Number: rapid.Uint32().Draw(t, "number"), Tag: rapid.Uint8Range(0, TagUserMax).Draw(t, "tag"),
			PayloadLen: rapid.Uint16().Draw(t, "payload"),
		}
		var want [FragHeaderBytes]byte
		got := [FragHeaderBytes]byte(bytes.Repeat([]byte{0xA5}, FragHeaderBytes))
		h.Encode(want[:])
		if n := PutFrag(got[:], h.Conn, h.Number, h.Tag, int(h.PayloadLen)); n != len(want) ||
			got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
	})
}

// drawHeader draws a header that Decode accepts, with its payload.
func drawHeader(t *rapid.T) (Header, []byte) {
	payload := rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "payload")
	h := Header{
		Kind: rapid.SampledFrom(drawnKinds).Draw(t, "kind"),
		Conn: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "conn"),
		Seq:  drawSeq(t, "seq"),
		Tag:  rapid.Uint8Range(0, TagUserMax).Draw(t, "tag"),

		Number: uint32(drawSeq(t, "number")),
	}
	if h.Kind == KindAck || rapid.Bool().Draw(t, "ack?") {
		h.Flags = FlagAck
		h.Ack, h.Credit = drawSeq(t, "ack"), rapid.Uint16().Draw(t, "credit")
		h.CreditBytes = rapid.Uint16().Draw(t, "credit bytes")
		if rapid.Bool().Draw(t, "dup?") {
			h.Flags |= FlagDup
		}
	}
	switch h.Kind {
	case KindAck:
		h.Seq, h.Tag = 0, 0
		if rapid.Bool().Draw(t, "sack?") {
			sack := sackBytes(drawSack(t))
			h.Flags, h.PayloadLen = h.Flags|FlagSack, uint16(len(sack))
			return h, sack
		}
		return h, nil
	case KindNack:
		h.Tag = rapid.Uint8Range(NackAccess, NackRecord).Draw(t, "reason")
		if h.Tag == NackRecord {
			h.PayloadLen = 1
			return h, []byte{rapid.Uint8Range(0, TagUserMax).Draw(t, "tag")}
		}
		return h, nil
	case KindPack:
		payload = records(drawRecords(t)...)
		h.Tag, h.PayloadLen = 0, uint16(len(payload))
		return h, payload
	case KindChunk:
		payload = drawChunk(t, &h, append(payload, 1))
	}
	if h.Kind == KindFrag && h.Flags&FlagAck != 0 && rapid.Bool().Draw(t, "later?") {
		h.Flags |= FlagLater
	}
	if h.Kind == KindFrag && rapid.IntRange(0, 3).Draw(t, "op?") == 0 {
		return drawOp(t, h)
	}
	if rapid.Bool().Draw(t, "put?") {
		h.FirstBytes, h.ChunkBytes = 0, 0
		h.Flags |= FlagPut
		h.Tag = 0
		h.Handle = rapid.Uint64().Draw(t, "handle")
		limit := math.MaxUint64 - uint64(len(payload))
		h.PutOffset = rapid.Uint64Range(0, limit).Draw(t, "put offset")
	}
	h.PayloadLen = uint16(len(payload))
	return h, payload
}

// drawOp changes h, the header of a Frag, to the header of an operation.
func drawOp(t *rapid.T, h Header) (Header, []byte) {
	h.OpCode = OpCode(rapid.Uint8Range(uint8(OpPart), uint8(OpFailed)).Draw(t, "code"))
	rule := opPayload[h.OpCode]
	h.Flags |= FlagOp
	h.Op = rapid.Uint32().Draw(t, "op")
	if !rule.tag {
		h.Tag = 0
	}
	most := min(int(rule.most), 90)
	payload := rapid.SliceOfN(rapid.Byte(), int(rule.least), most).Draw(t, "payload of op")
	if rule.put {
		h.Flags |= FlagPut
		h.Handle = rapid.Uint64().Draw(t, "handle")
		h.PutOffset = rapid.Uint64Range(0, 1<<63).Draw(t, "put offset")
	}
	if h.OpCode == OpPlaced {
		h.OpBytes = rapid.Uint8Range(0, uint8(min(len(payload), NoticeBytesMax))).Draw(t, "notice")
	}
	h.PayloadLen = uint16(len(payload))
	return h, payload
}

// drawChunk draws the place of a payload on the grid of a fragment, as the first chunk, a middle
// chunk, or the last chunk. The returned payload may be longer than the argument.
func drawChunk(t *rapid.T, h *Header, payload []byte) []byte {
	h.FragID = rapid.Uint32().Draw(t, "id")
	n := uint32(len(payload))
	rest := rapid.Uint32Range(0, math.MaxUint32>>1).Draw(t, "rest")
	h.ChunkBytes = rapid.Uint16Min(ChunkBytesMin).Draw(t, "chunk")
	switch rapid.IntRange(0, 2).Draw(t, "which") {
	case 0:
		h.FirstBytes, h.SizeBytes = uint16(n), n+rest
		return payload
	case 1:
		for len(payload) < ChunkBytesMin {
			payload = append(payload, byte(len(payload)))
		}
		n = uint32(len(payload))
		h.ChunkBytes = uint16(n)
	default:
		h.ChunkBytes = max(h.ChunkBytes, uint16(n))
		rest = 0
	}
	h.FirstBytes = rapid.Uint16Min(1).Draw(t, "first")
	h.OffsetBytes = uint32(h.FirstBytes) +
		uint32(h.ChunkBytes)*rapid.Uint32Range(0, math.MaxUint32>>18).Draw(t, "index")
	h.SizeBytes = h.OffsetBytes + n + rest
	return payload
}

func drawSeq(t *rapid.T, label string) seq.Num {
	if rapid.Bool().Draw(t, label+" at a wrap point?") {
		return rapid.SampledFrom(wrapPoints).Draw(t, label)
	}
	return seq.Num(rapid.Uint32().Draw(t, label))
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, payload := drawHeader(t)
		b := encodePacket(&h, payload)
		if len(b) != HeaderBytes(h.Kind, h.Flags)+len(payload) {
			t.Fatalf("%d bytes for %+v", len(b), h)
		}
		if SeqOf(b) != h.Seq {
			t.Fatalf("SeqOf gives %d, want %d", SeqOf(b), h.Seq)
		}
		var got Header
		p, err := Decode(b, &got)
		if err != nil || got != h || !bytes.Equal(p, payload) {
			t.Fatalf("decoded %+v, %x, %v\nwant    %+v, %x", got, p, err, h, payload)
		}
		if len(p) > 0 && &p[0] != &b[len(b)-len(p)] {
			t.Fatal("the payload was copied")
		}
	})
}

// TestSetAckClearAck checks that changing an ACK in place gives the same bytes as encoding.
func TestSetAckClearAck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, payload := drawHeader(t)
		if h.Kind == KindAck {
			t.Skip("always carries an ACK")
		}
		b := encodePacket(&h, payload)
		h.Flags = h.Flags&^FlagLater | FlagAck
		h.Ack, h.Credit = drawSeq(t, "new ack"), rapid.Uint16().Draw(t, "new credit")
		if rapid.Bool().Draw(t, "new dup?") {
			h.Flags |= FlagDup
		} else {
			h.Flags &^= FlagDup
		}
		h.CreditBytes, h.Number = rapid.Uint16().Draw(t, "new credit bytes"), uint32(drawSeq(t, "again"))
		SetAck(b, h.Ack, h.Credit, h.CreditBytes, h.Flags&FlagDup != 0)
		SetNumber(b, h.Number)
		if !bytes.Equal(b, encodePacket(&h, payload)) {
			t.Fatalf("SetAck gave %x", b)
		}
		h.Flags &^= FlagAck | FlagDup | FlagLater
		if ClearAck(b); !bytes.Equal(b, encodePacket(&h, payload)) {
			t.Fatalf("ClearAck gave %x", b)
		}
	})
}

func TestKindString(t *testing.T) {
	want := map[Kind]string{
		0: "unknown", KindFrag: "frag", KindHelloAck: "hello-ack",
		KindReject: "reject", KindPack: "pack",
		KindPart: "part", KindPing: "ping", KindPong: "pong", KindRetry: "retry", 13: "unknown",
		16: "unknown", 255: "unknown",
	}
	for kind, name := range want {
		if kind.String() != name {
			t.Errorf("Kind(%d) is %q, want %q", uint8(kind), kind, name)
		}
	}
}

func TestHasSeq(t *testing.T) {
	for n := range 256 {
		kind := Kind(n)
		if want := kind == 1 || kind == 2 || kind == 8; kind.HasSeq() != want {
			t.Errorf("kind %d has a number: %v", n, !want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range packets() {
		f.Add(v.encode(f))
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		kept := bytes.Clone(pkt)
		checkCanonical(t, pkt)
		if f, ok := ForeignHello(pkt); ok && (f.Version == Version || len(f.CommandName) > AddrBytesMax) {
			t.Fatalf("%+v taken for a foreign hello", f)
		}
		var h Header
		if payload, err := Decode(pkt, &h); err == nil && h.Kind == KindReject {
			r := DecodeReject(&h, payload)
			if r.VersionMin < 1 || r.VersionMin > r.VersionMax || r.VersionMax > VersionLimit {
				t.Fatalf("a reject that tells of %+v", r)
			}
		}
		if !bytes.Equal(pkt, kept) {
			t.Fatal("decoding changed the packet")
		}
	})
}

func TestCodecAllocatesNothing(t *testing.T) {
	b := make([]byte, 2048)
	chunk := Header{Kind: KindChunk, Flags: FlagAck | FlagPut, Conn: 1, SizeBytes: 9, PayloadLen: 4}
	data := []byte("abc")
	pack := Header{Kind: KindPack, Conn: 1, PayloadLen: 2 * (RecordHeaderBytes + 3)}
	hello := testHello()
	allocs := testing.AllocsPerRun(100, func() {
		h := chunk
		n := h.Encode(b)
		var got Header
		if _, err := Decode(b[:n+4], &got); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeSplit(b[:n], n+4, &got); err != nil {
			t.Fatal(err)
		}
		SetAck(b, 1, 2, 3, true)
		SetNumber(b, 4)
		ClearAck(b)
		n = pack.Encode(b)
		n += PutRecord(b[n:], 7, data)
		n += PutRecord(b[n:], 8, data)
		rest, err := Decode(b[:n], &got)
		for len(rest) > 0 {
			_, _, rest = NextRecord(rest)
		}
		if err != nil {
			t.Fatal(err)
		}
		h = Header{Kind: KindHello, Seq: 1}
		n = hello.Encode(b, &h)
		p, err := Decode(b[:n], &got)
		var m Hello
		if err != nil || DecodeHello(p, &m) != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b[:100], &got); err == nil {
			t.Fatal("no error")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"frag", "chunk-last", "chunk-put", "ack", "pack"} {
		b.Run(name, func(b *testing.B) {
			var h Header
			if _, err := Decode(goldenPacket(b, name), &h); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, HeaderBytesMax)
			for b.Loop() {
				h.Seq++
				h.Encode(buf)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"frag", "chunk-last", "chunk-put", "ack", "pack"} {
		b.Run(name, func(b *testing.B) {
			pkt := goldenPacket(b, name)
			var h Header
			for b.Loop() {
				if _, err := Decode(pkt, &h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSetAck(b *testing.B) {
	pkt := goldenPacket(b, "frag")
	ack := seq.Num(0)
	for b.Loop() {
		ack++
		SetAck(pkt, ack, 7, 8, false)
	}
}

func ExampleDecode() {
	buf := make([]byte, 64)
	out := Header{
		Kind: KindFrag, Flags: FlagAck, Tag: 7, Conn: 0xC0, Seq: 41, Ack: 12,
		PayloadLen: 5,
	}
	n := out.Encode(buf)
	n += copy(buf[n:], "hello")

	var in Header
	payload, err := Decode(buf[:n], &in)
	fmt.Println(in.Kind, in.Seq, in.Ack, string(payload), err)
	_, err = Decode(buf[:n-1], &in)
	fmt.Println(err)
	// Output:
	// frag 41 12 hello <nil>
	// frag: packet length does not match its header
}
