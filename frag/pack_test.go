package frag

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// packOf is a pack with the given payload.
func packOf(payload []byte) []byte {
	return encodePacket(&Header{Kind: KindPack, Conn: testConn, PayloadLen: uint16(len(payload))},
		payload)
}

// plainRecords reads the payload of a pack in the simplest way. The error is that of the first
// invalid record.
func plainRecords(p []byte) (list []record, err error) {
	var end []byte // the first record's data, if it is a piece
	for first := true; first || len(p) > 0; first = false {
		switch {
		case len(p) < 4:
			return nil, ErrLength
		case p[1]&^1 != 0:
			return nil, ErrReserved
		case p[0] > 0xEF:
			return nil, ErrTag
		}
		n := int(p[2]) + int(p[3])<<8
		if 4+n > len(p) {
			return nil, ErrLength
		}
		data, last := p[4:4+n], 4+n == len(p)
		if p[1] == 1 {
			if err := plainPiece(data, first, last, end); err != nil {
				return nil, err
			}
			if first {
				end = data
			}
		}
		list = append(list, record{p[0], data})
		p = p[4+n:]
	}
	return list, nil
}

// plainPiece checks a piece. The argument end is the earlier piece in the pack, or nil.
func plainPiece(data []byte, first, last bool, end []byte) error {
	number := func(b []byte, at int) int64 { return int64(le.Uint32(b[at:])) }
	half := func(at int) int64 { return int64(le.Uint16(data[at:])) }
	if len(data) < 17 {
		return ErrLength
	}
	if !first && !last {
		return ErrFlags
	}
	size, offset, n := number(data, 4), number(data, 8), int64(len(data)-16)
	head, chunk := half(12), half(14)
	onGrid := offset == 0 && n == head ||
		offset >= head && chunk >= 128 && (offset-head)%chunk == 0 && n == min(chunk, size-offset)
	if head == 0 || head > size || chunk < 128 || !onGrid {
		return ErrBounds
	}
	if end != nil && (offset != 0 || number(end, 0) == number(data, 0) ||
		number(end, 8)+int64(len(end)-16) != number(end, 4)) {
		return ErrBounds
	}
	return nil
}

// unpack reads the payload of a pack with NextRecord.
func unpack(payload []byte) (list []record) {
	for len(payload) > 0 {
		tag, data, rest := NextRecord(payload)
		list = append(list, record{tag, data})
		payload = rest
	}
	return list
}

// checkPacked checks that NextRecord splits the payload of a pack, which Decode has accepted, into
// records from which PutRecord makes the same payload, and that RecordAt finds the same records.
func checkPacked(tb rapid.TB, payload []byte) {
	tb.Helper()
	got := unpack(payload)
	want, err := plainRecords(payload)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		tb.Fatalf("records %v, want %v, %v", got, want, err)
	}
	for _, r := range got {
		if cap(r.data) != len(r.data) {
			tb.Fatalf("a record of %d bytes reaches into the next one, to %d", len(r.data), cap(r.data))
		}
	}
	if again := rewritten(payload); !bytes.Equal(again, payload) {
		tb.Fatalf("records %x, again %x", payload, again)
	}
	at := 0
	for rest := payload; len(rest) > 0; {
		isPiece := IsPiece(rest)
		var r record
		r.tag, r.data, rest = NextRecord(rest)
		tag, piece, end := RecordAt(payload, at)
		if tag != r.tag || piece != isPiece || end != len(payload)-len(rest) {
			tb.Fatalf("record at %d: tag %d, piece %v, up to %d, want %d, %v, %d", at, tag, piece, end,
				r.tag, isPiece, len(payload)-len(rest))
		}
		at = end
	}
}

// rewritten is the payload of a pack after reading and writing.
func rewritten(payload []byte) (again []byte) {
	for rest := payload; len(rest) > 0; {
		isPiece := IsPiece(rest)
		var r record
		r.tag, r.data, rest = NextRecord(rest)
		if !isPiece {
			again = append(again, records(r)...)
			continue
		}
		var h Header
		data := DecodePiece(r.tag, r.data, &h)
		again = append(again, pieceOf(h, string(data))...)
	}
	return again
}

// drawPiece is a piece, which the changes of the test make invalid or leave valid.
func drawPiece(t *rapid.T, id uint32) []byte {
	first := rapid.IntRange(1, 3).Draw(t, "first")
	h := Header{
		Tag: 7, FragID: id, SizeBytes: uint32(first) + 130, FirstBytes: uint16(first),
		ChunkBytes: ChunkBytesMin,
	}
	n := first
	if rapid.Bool().Draw(t, "end") {
		h.OffsetBytes, n = h.SizeBytes-2, 2
	}
	return pieceOf(h, string(make([]byte, n)))
}

// drawPack is the payload of a pack, with pieces at its ends or without.
func drawPack(t *rapid.T) (b []byte) {
	if rapid.Bool().Draw(t, "end of one") {
		b = drawPiece(t, 6)
	}
	if len(b) == 0 || rapid.Bool().Draw(t, "whole ones") {
		b = append(b, records(drawRecords(t)...)...)
	}
	if rapid.Bool().Draw(t, "beginning of one") {
		b = append(b, drawPiece(t, rapid.Uint32Range(6, 7).Draw(t, "id"))...)
	}
	return b
}

func drawRecords(t *rapid.T) (list []record) {
	for range rapid.IntRange(1, 5).Draw(t, "records") {
		list = append(list, record{
			tag:  rapid.Uint8Range(0, TagUserMax).Draw(t, "tag"),
			data: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "data"),
		})
	}
	return list
}

func TestPackRefuses(t *testing.T) {
	for _, test := range []struct {
		about  string
		change func([]byte) []byte
		want   error
	}{
		{"with put", put(2, 3), ErrFlags},
		{"with only dup", put(2, 4), ErrFlags},
		{"with a reserved flag", put(2, 9), ErrFlags},
		{"with a tag", put(3, 1), ErrTag},
		{"with a mark", put(3, TagVoid), ErrTag},
		{"without connection", put(4, make([]byte, 8)...), ErrConn},
		{"without records", resize(0), ErrLength},
		{"less than a record's header", resize(3), ErrLength},
		{"padding", resize(22), ErrLength},
		{"first reserved tag", put(32, TagUserMax+1), ErrTag},
		{"a mark in the last record", put(41, TagBye), ErrTag},
		{"reserved byte", put(33, 2), ErrReserved},
		{"reserved byte of the last record", put(42, 0x80), ErrReserved},
		{"record one byte short", put(43, 7), ErrLength},
		{"record one byte long", put(43, 9), ErrLength},
		{"record beyond all", put(34, 0xFF, 0xFF), ErrLength},
		{"a piece without an extra", put(33, 1), ErrLength},
	} {
		t.Run(test.about, func(t *testing.T) {
			refuses(t, test.change(goldenPacket(t, "pack")), test.want)
		})
	}
}

func refuses(t *testing.T, b []byte, want error) {
	t.Helper()
	var h Header
	if p, err := Decode(b, &h); !errors.Is(err, want) || p != nil {
		t.Fatalf("Decode(%x) = %x, %v, want %v", b, p, err, want)
	}
}

// TestPieceRefuses changes a golden vector. The vector has the end of a fragment at 32, a whole
// fragment at 55, and the beginning of another fragment at 64.
func TestPieceRefuses(t *testing.T) {
	for _, test := range []struct {
		about  string
		change func([]byte) []byte
		want   error
	}{
		{"a reserved flag", put(33, 5), ErrReserved},
		{"a piece between others", put(56, 1), ErrLength},
		{"no payload", put(34, 16), ErrLength},
		{"a mark", put(64, TagVoid), ErrTag},
		{"beyond the fragment", put(40, 131), ErrBounds},
		{"not to the end of the fragment", put(40, 133), ErrBounds},
		{"off the grid", put(44, 128), ErrBounds},
		{"chunks too small", put(50, 127), ErrBounds},
		{"no first chunk", put(48, 0), ErrBounds},
		{"a first chunk of another size", put(80, 3), ErrBounds},
		{"the same fragment twice", put(68, 6), ErrBounds},
	} {
		t.Run(test.about, func(t *testing.T) {
			refuses(t, test.change(goldenPacket(t, "pack-pieces")), test.want)
		})
	}
	end := pieceOf(Header{FragID: 1, SizeBytes: 130, OffsetBytes: 129, FirstBytes: 1, ChunkBytes: 128},
		"e")
	middle := pieceOf(
		Header{FragID: 1, SizeBytes: 400, OffsetBytes: 1, FirstBytes: 1, ChunkBytes: 128},
		string(make([]byte, 128)))
	begin := pieceOf(Header{FragID: 2, SizeBytes: 400, FirstBytes: 1, ChunkBytes: 128}, "b")
	whole := records(record{1, nil})
	refuses(t, packOf(slices.Concat(whole, end, whole)), ErrFlags)
	refuses(t, packOf(slices.Concat(middle, begin)), ErrBounds)
	refuses(t, packOf(slices.Concat(begin, end)), ErrBounds)
	refuses(t, packOf(slices.Concat(end, middle)), ErrBounds)
	for _, sound := range [][]byte{
		end, middle, begin, slices.Concat(end, begin), slices.Concat(end, whole),
		slices.Concat(whole, begin), slices.Concat(whole, end), slices.Concat(middle, whole),
	} {
		var h Header
		if _, err := Decode(packOf(sound), &h); err != nil {
			t.Errorf("%x: %v", sound, err)
		}
		checkPacked(t, sound)
	}
}

// TestPackModel checks that Decode accepts the same packs as plainRecords, with the same errors and
// the same records.
func TestPackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawPack(t)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] = rapid.SampledFrom([]byte{0, 1, 2, 4, 0xEF, 0xF0, 0xFF}).Draw(t, "value")
		}
		b = b[:len(b)-rapid.SampledFrom([]int{0, 0, 0, 1, 3, 4}).Draw(t, "cut")]
		_, want := plainRecords(b)
		var h Header
		p, err := Decode(packOf(b), &h)
		if !errors.Is(err, want) {
			t.Fatalf("%x: %v, want %v", b, err, want)
		}
		if err == nil {
			checkPacked(t, p)
		}
	})
}

// TestRecordLimits checks the largest record, the largest number of records, and a record that does
// not fit.
func TestRecordLimits(t *testing.T) {
	large := make([]byte, PayloadBytesMax-RecordHeaderBytes)
	empty := make([]record, PayloadBytesMax/RecordHeaderBytes)
	for _, list := range [][]record{{{1, large}}, empty} {
		var h Header
		p, err := Decode(packOf(records(list...)), &h)
		got := unpack(p)
		if err != nil || len(got) != len(list) || len(got[0].data) != len(list[0].data) {
			t.Errorf("%d records, want %d: %v", len(got), len(list), err)
		}
	}
	b := bytes.Repeat([]byte{0xCC}, 16)
	if n := PutRecord(b[:7], 3, []byte("abc")); n != 7 || string(b[4:8]) != "abc\xCC" {
		t.Errorf("PutRecord wrote %d bytes: %x", n, b)
	}
	defer func() {
		if recover() == nil {
			t.Error("a record was cut to the buffer's length")
		}
	}()
	PutRecord(b[:6], 3, []byte("abc"))
}

// BenchmarkDecodePack measures checking and splitting a full packet of 62 small messages.
func BenchmarkDecodePack(b *testing.B) {
	const count = 62
	list := make([]record, count)
	for i := range list {
		list[i] = record{uint8(i), []byte("12345678")}
	}
	pkt := packOf(records(list...))
	for _, apart := range []bool{false, true} {
		b.Run(fmt.Sprintf("apart=%v", apart), func(b *testing.B) {
			var h Header
			sum := 0
			for b.Loop() {
				p, err := Decode(pkt, &h)
				if err != nil {
					b.Fatal(err)
				}
				for apart && len(p) > 0 {
					tag, data, rest := NextRecord(p)
					sum += int(tag) + len(data)
					p = rest
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/record")
		})
	}
}

func BenchmarkPutRecord(b *testing.B) {
	buf, data := make([]byte, 16), []byte("12345678")
	for b.Loop() {
		PutRecord(buf, 1, data)
	}
}
