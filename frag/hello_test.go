package frag

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func helloPayload(tb testing.TB, m *Hello, sizeBytes int) []byte {
	tb.Helper()
	b := make([]byte, sizeBytes)
	h := Header{Kind: KindHello}
	m.Encode(b, &h, sizeBytes)
	return b[FragHeaderBytes:]
}

func TestDecodeHelloRefuses(t *testing.T) {
	tests := []struct {
		about string
		at    int
		value []byte
		want  error
	}{
		{"no incarnation", 0, make([]byte, 8), ErrHello},
		{"no tag", 8, make([]byte, 8), ErrHello},
		{"no window", 32, make([]byte, 4), ErrHello},
		{"window too large", 32, []byte{1, 0, 1, 0}, ErrHello},
		{"no fragments", 36, make([]byte, 4), ErrHello},
		{"data MTU too small", 40, []byte{0xFF, 0}, ErrHello},
		{"command MTU too small", 42, []byte{0xFF, 0}, ErrHello},
		{"version range does not hold this version", 46, []byte{1, 1}, ErrHello},
		{"version range is empty", 46, []byte{3, 2}, ErrHello},
		{"version 0", 46, []byte{0, 1}, ErrHello},
		{"version 16", 46, []byte{1, 16}, ErrHello},
		{"unknown probe", 48, []byte{4}, ErrHello},
		{"unknown proof", 49, []byte{16}, ErrHello},
		{"command name too long", 50, []byte{65}, ErrHello},
		{"data name too long", 51, []byte{255}, ErrHello},
		{"ACK delay too long", 52, []byte{0x41, 0x42, 0x0F, 0}, ErrHello},
		{"command name's unused part", 119, []byte{1}, ErrReserved},
		{"command name longer than told", 50, []byte{7}, ErrReserved},
		{"data name's unused part", 120 + 8, []byte{1}, ErrReserved},
		{"last byte of the body", 183, []byte{1}, ErrReserved},
		{"first byte of the padding", 184, []byte{1}, ErrReserved},
		{"last byte of the padding", 300 - 1, []byte{1}, ErrReserved},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			p := helloPayload(t, testHello(), FragHeaderBytes+300)
			copy(p[test.at:], test.value)
			var m Hello
			if err := DecodeHello(p, &m); !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
		})
	}
	p := helloPayload(t, testHello(), HelloBytes)
	for n := range len(p) {
		var m Hello
		if err := DecodeHello(p[:n:n], &m); !errors.Is(err, ErrShort) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func drawHello(t *rapid.T) *Hello {
	name := rapid.SliceOfN(rapid.Byte(), 0, AddrBytesMax)
	return &Hello{
		Incarnation:  rapid.Uint64Range(1, math.MaxUint64).Draw(t, "incarnation"),
		Tag:          rapid.Uint64Range(1, math.MaxUint64).Draw(t, "tag"),
		Expected:     rapid.Uint64().Draw(t, "expected"),
		Features:     rapid.Uint64().Draw(t, "features"),
		CommandName:  name.Draw(t, "command name"),
		DataName:     name.Draw(t, "data name"),
		WindowPkts:   rapid.Uint32Range(1, WindowMax).Draw(t, "window"),
		FragBytesMax: rapid.Uint32Range(1, math.MaxUint32).Draw(t, "fragment"),
		AckDelayUs:   rapid.Uint32Range(0, AckDelayUsMax).Draw(t, "delay"),
		MTUBytes:     rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "mtu"),
		CommandBytes: rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "command"),
		Credit:       rapid.Uint16().Draw(t, "credit"),
		VersionMin:   Version,
		VersionMax:   rapid.Uint8Range(Version, VersionLimit).Draw(t, "version"),
		Probe:        Probe(rapid.Uint8Range(0, ProbeCount-1).Draw(t, "probe")),
		Proven:       rapid.Uint8Range(0, ProvenAll).Draw(t, "proven"),
	}
}

func TestHelloRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawHello(t)
		size := HelloBytes + rapid.IntRange(0, 2000).Draw(t, "padding")
		b := bytes.Repeat([]byte{0xCC}, size+8)
		h := Header{
			Kind: rapid.SampledFrom([]Kind{KindHello, KindHelloAck}).Draw(t, "kind"),
			Conn: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "conn"),
			Seq:  drawSeq(t, "seq"), Number: uint32(drawSeq(t, "number")),
		}
		if n := m.Encode(b, &h, size); n != size || b[size] != 0xCC {
			t.Fatalf("Encode wrote %d bytes, want %d", n, size)
		}
		var gotHeader Header
		p, err := Decode(b[:size], &gotHeader)
		if err != nil || gotHeader != h {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, gotHeader, h)
		}
		var got Hello
		if err := DecodeHello(p, &got); err != nil || !sameHello(&got, m) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
		}
	})
}

func TestHelloEncodePanics(t *testing.T) {
	bad := testHello()
	bad.Tag = 0
	long := testHello()
	long.DataName = make([]byte, AddrBytesMax+1)
	tests := []struct {
		about string
		hello *Hello
		size  int
	}{
		{"too small", testHello(), HelloBytes - 1},
		{"too large", testHello(), FragHeaderBytes + PayloadBytesMax + 1},
		{"larger than the buffer", testHello(), 70000 - FragHeaderBytes},
		{"no tag", bad, HelloBytes},
		{"long name", long, HelloBytes},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			test.hello.Encode(make([]byte, 4096), &Header{Kind: KindHello}, test.size)
		})
	}
}

func TestForeignHello(t *testing.T) {
	hello := goldenPacket(t, "hello")
	var h Header
	for version := range uint8(16) {
		pkt, head := bytes.Clone(hello), FragHeaderBytes
		if version == versionOne {
			pkt, head = pkt[FragHeaderBytes-versionOneHeaderBytes:], versionOneHeaderBytes
			pkt[0] = Magic
		}
		// Nothing but what is the same in every version may count.
		for i := range pkt {
			if at := i - head; i != 0 && (at < tagAt || at >= tagAt+8) && at != commandNameLenAt &&
				(at < commandNameAt || at >= commandNameAt+AddrBytesMax) {
				pkt[i] = 0xFF
			}
		}
		pkt[1] = version<<4 | byte(KindHello)
		tag, got, name, ok := ForeignHello(pkt)
		if version == Version {
			if ok {
				t.Fatal("own version is foreign")
			}
			continue
		}
		if _, err := Decode(pkt, &h); !errors.Is(err, ErrVersion) {
			t.Fatalf("version %d: %v", version, err)
		}
		if !ok || got != version || tag != testHello().Tag ||
			!bytes.Equal(name, testHello().CommandName) || cap(name) != len(name) {
			t.Fatalf("version %d: tag %x, version %d, name %x, %v", version, tag, got, name, ok)
		}
	}
	change := func(at int, value ...byte) []byte {
		b := bytes.Clone(hello)
		b[1] = 3<<4 | byte(KindHello)
		copy(b[at:], value)
		return b
	}
	for name, pkt := range map[string][]byte{
		"other magic": change(0, 0),
		"no hello":    change(1, 3<<4|byte(KindHelloAck)),
		"too short":   change(0, Magic)[:HelloBytes-1],
		"empty":       nil,
		"no tag":      change(FragHeaderBytes+tagAt, make([]byte, 8)...),
		"long name":   change(FragHeaderBytes+commandNameLenAt, AddrBytesMax+1),
	} {
		if tag, version, address, ok := ForeignHello(pkt); ok || tag != 0 || version != 0 ||
			address != nil {
			t.Errorf("%s: taken for a hello", name)
		}
	}
}

// TestEncodeReject: the peer of the other version sees a packet of its own version, otherwise the
// same, and shorter than the shortest packet that can cause it.
func TestEncodeReject(t *testing.T) {
	want := goldenPacket(t, "reject")
	for version := range uint8(VersionLimit + 1) {
		b := bytes.Repeat([]byte{0xCC}, 64)
		n := EncodeReject(b, testConn, RejectVersion, version, 1, 3)
		want[1] = version<<4 | byte(KindReject)
		want := want
		if version == versionOne { // as version 1 has it
			want = append(bytes.Clone(want[:12]), 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 3)
		}
		if n != len(want) || n >= HelloBytes || !bytes.Equal(b[:n], want) || b[RejectBytes] != 0xCC {
			t.Fatalf("version %d: %x, want %x", version, b[:n], want)
		}
	}
}

func TestProbeBits(t *testing.T) {
	mask := uint8(0)
	for _, p := range []Probe{ProbeCommand, ProbeData, ProbeFull, ProbeData | ProbeFull} {
		mask |= p.Bit()
	}
	if mask != ProvenAll {
		t.Fatalf("mask of all probes %#x, want %#x", mask, ProvenAll)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(helloPayload(f, testHello(), HelloBytes))
	f.Add(helloPayload(f, testHello(), 256))
	for _, name := range []string{"hello", "hello-limits"} {
		f.Add(goldenPacket(f, name)[FragHeaderBytes:])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var m Hello
		if err := DecodeHello(payload, &m); err != nil || len(payload) > PayloadBytesMax {
			return
		}
		if got := helloPayload(t, &m, FragHeaderBytes+len(payload)); !bytes.Equal(got, payload) {
			t.Fatalf("decoded %x\nencoded %x", payload, got)
		}
	})
}

func BenchmarkDecodeHello(b *testing.B) {
	p := helloPayload(b, testHello(), 1472)
	var m Hello
	for b.Loop() {
		if err := DecodeHello(p, &m); err != nil {
			b.Fatal(err)
		}
	}
}
