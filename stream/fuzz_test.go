package stream

import (
	"testing"
)

// FuzzDatagram: any bytes are a datagram of the stream, or a counted stranger.
func FuzzDatagram(f *testing.F) {
	var b [headerBytes + 10]byte
	h := header{key: 5, ordinal: 3, datagram: 0}
	h.put(b[:])
	f.Add(b[:])
	f.Add(b[:headerBytes-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		h, ok := parseHeader(data)
		if !ok {
			return
		}
		var again [headerBytes]byte
		h.put(again[:])
		if string(again[:]) != string(data[:headerBytes]) {
			t.Fatalf("%x is written as %x", data[:headerBytes], again)
		}
		ring, _ := NewRing(Geometry{10, 2, 3}, nil)
		a := newAssembler(ring, 1<<40, 1, 10)
		a.end(1<<40 + 100)
		a.take(h.ordinal, h.datagram, data[headerBytes:], true, false)
		a.finish()
		if s := &a.track; s.received+s.late+s.overrun+s.missing() != 100 {
			t.Fatalf("%+v", s)
		}
	})
}

// FuzzLetter: what is read as a letter is written as one that reads alike.
func FuzzLetter(f *testing.F) {
	l := letter{Kind: letterEnd, Key: 9, End: &ending{Total: 7}}
	b, err := l.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLetter(data)
		if err != nil {
			return
		}
		b, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseLetter(b); err != nil || back.Kind != l.Kind || back.Key != l.Key {
			t.Fatalf("%q: %v, %v", b, back, err)
		}
	})
}

// TestHeaderDamage: a flipped bit anywhere in the header is noticed.
func TestHeaderDamage(t *testing.T) {
	var b [headerBytes]byte
	for ordinal := range uint64(50) {
		h := header{key: 0x1234_5678_9abc_def0, ordinal: ordinal << 20, datagram: uint32(ordinal)}
		h.put(b[:])
		for bit := range headerBytes * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			if _, ok := parseHeader(b[:]); ok {
				t.Errorf("bit %d of %+v", bit, h)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}
