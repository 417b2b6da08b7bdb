package pack

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gobtl/frag"
)

// record is a fragment of a test.
type record struct {
	tag     uint8
	payload []byte
}

// A Pack never exceeds its limit, and its payload has the fragments in order. A Pack of one
// fragment has the layout of an ordinary packet.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(frag.FragHeaderBytes+40, 600).Draw(t, "most")
		buffer := make([]byte, most)
		var p Pack
		var want []record
		for range rapid.IntRange(1, 30).Draw(t, "fragments") {
			r := record{
				uint8(rapid.IntRange(0, 3).Draw(t, "tag")),
				bytes.Repeat([]byte{byte(1 + len(want))}, rapid.IntRange(0, 40).Draw(t, "size")),
			}
			if !p.Fits(len(r.payload), most) {
				continue
			}
			if p.Open() {
				p.Append(buffer, r.tag, r.payload)
			} else {
				p.Begin(r.tag, len(r.payload))
				copy(buffer[frag.FragHeaderBytes:], r.payload)
			}
			want = append(want, r)
			if err := p.Check(most); err != nil {
				t.Fatal(err)
			}
		}
		var h frag.Header
		p.Header(&h)
		payload := buffer[frag.FragHeaderBytes:p.Bytes()]
		if p.Records() != len(want) || int(h.PayloadLen) != len(payload) {
			t.Fatalf("%d records in %d bytes, want %d in %d", p.Records(), h.PayloadLen, len(want),
				len(payload))
		}
		if len(want) == 1 {
			if h.Kind != frag.KindFrag || h.Tag != want[0].tag || !bytes.Equal(payload, want[0].payload) {
				t.Fatalf("%v: % x, want one fragment: %v", h, payload, want)
			}
			return
		}
		if h.Kind != frag.KindPack || Count(payload) != len(want) {
			t.Fatalf("%v with %d records, want %d", h, Count(payload), len(want))
		}
		tags := map[uint8]int{}
		rest := payload
		for i, r := range want {
			var tag uint8
			var got []byte
			if tag, got, rest = frag.NextRecord(rest); tag != r.tag || !bytes.Equal(got, r.payload) {
				t.Fatalf("record %d: %d % x, want %d % x", i, tag, got, r.tag, r.payload)
			}
			tags[tag]++
		}
		for tag := range uint8(5) {
			if n := CountTag(payload, tag); n != tags[tag] {
				t.Fatalf("%d records have tag %d, want %d", n, tag, tags[tag])
			}
		}
	})
}

// A fragment fits up to the last byte of the limit, with the record headers that it causes.
func TestFits(t *testing.T) {
	t.Parallel()
	const most = 200
	buffer := make([]byte, most)
	var p Pack
	if !p.Fits(2*most, most) {
		t.Error("a pack that is not open refuses a fragment")
	}
	p.Begin(1, 50)
	left := most - frag.FragHeaderBytes - 50 - 2*frag.RecordHeaderBytes
	if !p.Fits(left, most) || p.Fits(left+1, most) {
		t.Errorf("second fragment: %d bytes do not fit, or one more does", left)
	}
	p.Append(buffer, 2, buffer[:10])
	left -= 10 + frag.RecordHeaderBytes
	if !p.Fits(left, most) || p.Fits(left+1, most) {
		t.Errorf("third fragment: %d bytes do not fit, or one more does", left)
	}
	if p.Append(buffer, 3, buffer[:left]); p.Bytes() != most {
		t.Errorf("%d bytes, want %d", p.Bytes(), most)
	}
}

// Check finds each kind of damage.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		p    Pack
		want string
	}{
		{Pack{}, ""},
		{Pack{bytes: 100, records: 2}, ""},
		{Pack{bytes: 100, records: 1}, ""},
		{Pack{records: 1}, "no pack is open"},
		{Pack{tag: 1}, "no pack is open"},
		{Pack{bytes: 100}, "the open pack has 0"},
		{Pack{bytes: 101, records: 2}, "at most 100"},
		{Pack{bytes: frag.FragHeaderBytes + 2*frag.RecordHeaderBytes - 1, records: 2}, "2 records"},
	} {
		if err := test.p.Check(100); (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.p, err, test.want)
		}
	}
}
