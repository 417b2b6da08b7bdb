package frag

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func helloPayload(tb testing.TB, m *Hello) []byte {
	tb.Helper()
	b := make([]byte, HelloBytesMax)
	h := Header{Kind: KindHello}
	return b[FragHeaderBytes:m.Encode(b, &h)]
}

func TestDecodeHelloRefuses(t *testing.T) {
	full := testHello()
	full.CommandCookie, full.Label, full.AwayMs = []byte("cookie"), []byte("label"), 1
	const ext = helloFixedBytes
	tests := []struct {
		about string
		at    int
		value []byte
		want  error
	}{
		{"no incarnation", 0, make([]byte, 8), ErrHello},
		{"no tag", 8, make([]byte, 8), ErrHello},
		{"requires what it does not have", 40, []byte{2}, ErrHello},
		{"no window", 48, make([]byte, 4), ErrHello},
		{"window too large", 48, []byte{1, 0, 1, 0}, ErrHello},
		{"no fragments", 52, make([]byte, 4), ErrHello},
		{"ACK delay too long", 56, []byte{0x41, 0x42, 0x0F, 0}, ErrHello},
		{"data MTU too small", 60, []byte{0xFF, 0}, ErrHello},
		{"command MTU too small", 62, []byte{0xFF, 0}, ErrHello},
		{"version range does not hold this version", 66, []byte{3, 3}, ErrHello},
		{"version range is empty", 66, []byte{2, 1}, ErrHello},
		{"version 0", 66, []byte{0, 2}, ErrHello},
		{"version 16", 66, []byte{1, 16}, ErrHello},
		{"unknown channel", 68, []byte{2}, ErrHello},
		{"unknown proof", 69, []byte{4}, ErrHello},
		{"overhead too large", 70, []byte{OverheadBytesMax + 1}, ErrHello},
		{"reserved byte", 71, []byte{1}, ErrReserved},
		{"type 0", ext, []byte{0}, ErrHello},
		{"critical type 0", ext, []byte{0x80}, ErrHello},
		{"known, and marked critical", ext, []byte{0x81}, ErrHello},
		{"twice the same", ext + 9, []byte{1}, ErrHello},
		{"types fall", ext, []byte{3}, ErrHello},
		{"longer than the packet", ext + 18 + 8 + 1, []byte{6}, ErrHello},
		{"ends inside its head", ext + 18 + 8 + 1, []byte{4}, ErrHello},
		{"empty value", ext + 18 + 8, []byte{5, 0, 6, 3}, ErrHello},
		{"away is critical", ext + 18 + 8 + 7, []byte{0x86}, ErrHello},
		{"away for no time", ext + 18 + 8 + 9, []byte{0}, ErrHello},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			p := helloPayload(t, full)
			copy(p[test.at:], test.value)
			var m Hello
			if err := DecodeHello(p, &m); !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
		})
	}
	long := func(kind byte, n int) []byte {
		p := helloPayload(t, &Hello{
			Incarnation: 1, Tag: 1, WindowPkts: 1, FragBytesMax: 1, MTUBytes: MTUBytesMin,
			CommandBytes: MTUBytesMin, VersionMin: Version, VersionMax: Version,
		})
		return append(append(p, kind, byte(n)), make([]byte, n)...)
	}
	for kind, most := range map[byte]int{
		extCommandName: AddrBytesMax, extDataName: AddrBytesMax, extCommandCookie: CookieBytesMax,
		extDataCookie: CookieBytesMax, extLabel: LabelBytesMax,
	} {
		var m Hello
		if err := DecodeHello(long(kind, most), &m); err != nil {
			t.Errorf("extension %d of %d bytes: %v", kind, most, err)
		}
		if err := DecodeHello(long(kind, most+1), &m); !errors.Is(err, ErrHello) {
			t.Errorf("extension %d of %d bytes: %v", kind, most+1, err)
		}
	}
	for n, want := range map[int]error{0: ErrHello, 3: ErrHello, 4: ErrHello, 5: ErrHello} {
		var m Hello
		// 4, because the time is 0
		if err := DecodeHello(long(extAway, n), &m); !errors.Is(err, want) {
			t.Errorf("%d bytes of away: %v", n, err)
		}
	}
	for n, want := range map[int]error{
		0: ErrHello, 1: nil, PaddingBytesMax: nil, PaddingBytesMax + 1: ErrHello,
	} {
		var m Hello
		if err := DecodeHello(long(extPadding, n), &m); !errors.Is(err, want) ||
			err == nil && int(m.Padding) != n {
			t.Errorf("%d bytes of padding: %v, %d", n, err, m.Padding)
		}
	}
	for n, want := range map[int]error{
		0: ErrHello, 1: nil, NameBytesMax: nil, NameBytesMax + 1: ErrHello,
	} {
		var m Hello
		if err := DecodeHello(long(extMoved, n), &m); !errors.Is(err, want) ||
			err == nil && len(m.Moved) != n {
			t.Errorf("%d bytes of another module's name: %v, %d", n, err, len(m.Moved))
		}
	}
	dirty := long(extPadding, 8)
	dirty[len(dirty)-1] = 1
	if err := DecodeHello(dirty, new(Hello)); !errors.Is(err, ErrHello) {
		t.Errorf("padding that is not 0: %v", err)
	}
	p := helloPayload(t, testHello())
	for n := range helloFixedBytes {
		var m Hello
		if err := DecodeHello(p[:n:n], &m); !errors.Is(err, ErrShort) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

// TestHelloUnknownExtensions checks that unknown extensions are skipped, and that an unknown
// critical extension is reported.
func TestHelloUnknownExtensions(t *testing.T) {
	p := append(helloPayload(t, testHello()), 9, 1, 0xAA, 17, 0, 0x80|18, 2, 1, 2, 0x80|127, 0)
	var m Hello
	if err := DecodeHello(p, &m); err != nil || m.Others != 4 || m.Critical != 18 {
		t.Fatalf("%v, %d others, critical %d", err, m.Others, m.Critical)
	}
	m.Others, m.Critical = 0, 0
	if !sameHello(&m, testHello()) {
		t.Errorf("the rest is %+v", m)
	}
}

func drawHello(t *rapid.T) *Hello {
	name := rapid.SliceOfN(rapid.Byte(), 0, AddrBytesMax)
	short := rapid.SliceOfN(rapid.Byte(), 0, min(CookieBytesMax, LabelBytesMax))
	return &Hello{
		Incarnation:   rapid.Uint64Range(1, math.MaxUint64).Draw(t, "incarnation"),
		Tag:           rapid.Uint64Range(1, math.MaxUint64).Draw(t, "tag"),
		Expected:      rapid.Uint64().Draw(t, "expected"),
		Features:      rapid.Uint64().Draw(t, "features"),
		Nonce:         rapid.Uint64().Draw(t, "nonce"),
		CommandName:   name.Draw(t, "command name"),
		DataName:      name.Draw(t, "data name"),
		CommandCookie: short.Draw(t, "command cookie"),
		DataCookie:    short.Draw(t, "data cookie"),
		Label:         short.Draw(t, "label"),
		AwayMs:        rapid.Uint32().Draw(t, "away"),
		Padding:       rapid.Uint8().Draw(t, "padding"),
		Moved:         rapid.SliceOfN(rapid.Byte(), 0, NameBytesMax).Draw(t, "moved"),
		Overhead:      rapid.Uint8Range(0, OverheadBytesMax).Draw(t, "overhead"),
		WindowPkts:    rapid.Uint32Range(1, WindowMax).Draw(t, "window"),
		FragBytesMax:  rapid.Uint32Range(1, math.MaxUint32).Draw(t, "fragment"),
		AckDelayUs:    rapid.Uint32Range(0, AckDelayUsMax).Draw(t, "delay"),
		MTUBytes:      rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "mtu"),
		CommandBytes:  rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "command"),
		Credit:        rapid.Uint16().Draw(t, "credit"),
		VersionMin:    Version,
		VersionMax:    rapid.Uint8Range(Version, VersionLimit).Draw(t, "version"),
		Probe:         Probe(rapid.Uint8Range(0, ProbeCount-1).Draw(t, "probe")),
		Proven:        rapid.Uint8Range(0, ProvenAll).Draw(t, "proven"),
	}
}

func TestHelloRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawHello(t)
		m.Required = m.Features & rapid.Uint64().Draw(t, "required")
		size := m.Bytes()
		b := bytes.Repeat([]byte{0xCC}, HelloBytesMax+8)
		h := Header{
			Kind: rapid.SampledFrom([]Kind{KindHello, KindHelloAck}).Draw(t, "kind"),
			Conn: rapid.Uint64Range(1, math.MaxUint64).Draw(t, "conn"),
			Seq:  drawSeq(t, "seq"), Number: uint32(drawSeq(t, "number")),
		}
		if n := m.Encode(b, &h); n != size || b[size] != 0xCC {
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
	bad, long := testHello(), testHello()
	bad.Tag = 0
	long.DataName = make([]byte, AddrBytesMax+1)
	moved := testHello()
	moved.Moved = make([]byte, NameBytesMax+1)
	for about, do := range map[string]func(){
		"small buffer":     func() { testHello().Encode(make([]byte, 100), &Header{Kind: KindHello}) },
		"no tag":           func() { bad.Encode(make([]byte, 4096), &Header{Kind: KindHello}) },
		"long name":        func() { long.Encode(make([]byte, 4096), &Header{Kind: KindHello}) },
		"long module name": func() { moved.Encode(make([]byte, 4096), &Header{Kind: KindHelloAck}) },
		"long cookie": func() {
			(&Retry{Cookie: make([]byte, CookieBytesMax+1)}).Encode(make([]byte, 4096), 1)
		},
		"no cookie": func() { (&Retry{}).Encode(make([]byte, 4096), 1) },
	} {
		t.Run(about, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			do()
		})
	}
}

func TestDecodeRetryRefuses(t *testing.T) {
	good := goldenPacket(t, "retry")[FragHeaderBytes:]
	for about, change := range map[string]struct {
		at    int
		value byte
		want  error
	}{
		"channel":         {8, 2, ErrHello},
		"long address":    {9, AddrBytesMax + 1, ErrHello},
		"no cookie":       {10, 0, ErrHello},
		"long cookie":     {10, CookieBytesMax + 1, ErrHello},
		"reserved":        {11, 1, ErrReserved},
		"address length":  {9, 6, ErrLength},
		"cookie's length": {10, 21, ErrLength},
	} {
		p := bytes.Clone(good)
		p[change.at] = change.value
		var r Retry
		if err := DecodeRetry(p, &r); !errors.Is(err, change.want) {
			t.Errorf("%s: %v, want %v", about, err, change.want)
		}
	}
	for n := range retryHeadBytes {
		var r Retry
		if err := DecodeRetry(good[:n], &r); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// helloV1 is a Hello in the format of version 1, with 0xFF in all fields that do not count.
func helloV1(name []byte) []byte {
	b := bytes.Repeat([]byte{0xFF}, 208)
	b[0], b[1] = Magic, 1<<4|byte(KindHello)
	le.PutUint64(b[32:], testHello().Tag)
	b[74] = byte(len(name))
	copy(b[80:144], append(bytes.Clone(name), make([]byte, 64)...))
	return b
}

func TestForeignHello(t *testing.T) {
	name := testHello().CommandName
	later := func(version byte) []byte { // only the fields that never change
		b := goldenPacket(t, "hello")
		for i := range FragHeaderBytes + helloFixedBytes {
			if i != 0 && (i < laterTagAt || i >= laterTagAt+8) && (i < laterNonceAt || i >= laterNonceAt+8) {
				b[i] = 0xFF
			}
		}
		b[1] = version<<4 | byte(KindHello)
		return b
	}
	var h Header
	for version := range uint8(16) {
		pkt := later(version)
		if version == 1 {
			pkt = helloV1(name)
		}
		f, ok := ForeignHello(pkt)
		nonce := testHello().Nonce
		if version == 1 {
			nonce = 0
		}
		if version == Version || version == 0 {
			if ok {
				t.Fatalf("version %d is foreign", version)
			}
			continue
		}
		if _, err := Decode(pkt, &h); !errors.Is(err, ErrVersion) {
			t.Fatalf("version %d: %v", version, err)
		}
		if !ok || f.Version != version || f.Tag != testHello().Tag || f.Nonce != nonce ||
			!bytes.Equal(f.CommandName, name) || cap(f.CommandName) != len(name) {
			t.Fatalf("version %d: %+v, %v", version, f, ok)
		}
	}
	change := func(b []byte, at int, value ...byte) []byte {
		copy(b[at:], value)
		return b
	}
	for about, pkt := range map[string][]byte{
		"other magic":        change(later(3), 0, 0),
		"no hello":           change(later(3), 1, 3<<4|byte(KindHelloAck)),
		"too short":          later(3)[:HelloBytesMin-1],
		"broken extension":   later(3)[:HelloBytesMin+3],
		"empty":              nil,
		"no tag":             change(later(3), laterTagAt, make([]byte, 8)...),
		"version 1, short":   helloV1(name)[:207],
		"version 1, no tag":  change(helloV1(name), 32, make([]byte, 8)...),
		"version 1, address": change(helloV1(name), 74, AddrBytesMax+1),
	} {
		if f, ok := ForeignHello(pkt); ok || f.Tag != 0 || f.CommandName != nil {
			t.Errorf("%s: taken for a hello", about)
		}
	}
}

// TestEncodeReject checks the answer to a Hello of another version. The peer sees a packet of the
// peer's own version, which is shorter than the shortest Hello. A peer of version 1 sees the format
// of version 1.
func TestEncodeReject(t *testing.T) {
	r := Reject{Reason: RejectVersion, VersionMin: 1, VersionMax: 3, Nonce: testHello().Nonce}
	for version := range uint8(VersionLimit + 1) {
		want := goldenPacket(t, "reject")
		want[1] = version<<4 | byte(KindReject)
		if version == 1 {
			want = append([]byte{Magic, 0x17, 0, 1}, want[4:12]...)
			want = append(want, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 3)
		}
		b := bytes.Repeat([]byte{0xCC}, 64)
		n := EncodeReject(b, testConn, version, r)
		if n != len(want) || n >= HelloBytesMin || !bytes.Equal(b[:n], want) || b[n] != 0xCC {
			t.Fatalf("version %d: %x, want %x", version, b[:n], want)
		}
	}
}

func TestProbeBits(t *testing.T) {
	if mask := ProbeCommand.Bit() | ProbeData.Bit(); mask != ProvenAll {
		t.Fatalf("mask of all probes %#x, want %#x", mask, ProvenAll)
	}
}

func FuzzHello(f *testing.F) {
	for _, name := range []string{"hello", "hello-cookies", "hello-ack", "hello-limits"} {
		f.Add(goldenPacket(f, name)[FragHeaderBytes:])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var m Hello
		if err := DecodeHello(payload, &m); err != nil || m.Others > 0 {
			return // unknown extensions cannot be encoded again
		}
		if got := helloPayload(t, &m); !bytes.Equal(got, payload) {
			t.Fatalf("decoded %x\nencoded %x", payload, got)
		}
	})
}

func BenchmarkDecodeHello(b *testing.B) {
	p := helloPayload(b, testHello())
	var m Hello
	for b.Loop() {
		if err := DecodeHello(p, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// TestUnknownReject checks that an unknown reason refuses a Hello like the known reasons, with or
// without a code. A Reject without a reason is invalid. Later reasons therefore need no feature
// bit.
func TestUnknownReject(t *testing.T) {
	for reason := range 256 {
		b := make([]byte, RejectBytes)
		n := EncodeReject(b, testConn, Version, Reject{
			Reason: uint8(reason), VersionMin: 2, VersionMax: 2, Code: 3, Nonce: 4,
		})
		var h Header
		payload, err := Decode(b[:n], &h)
		known := reason >= RejectVersion && reason <= RejectKept
		coded := reason == RejectOwner || reason == RejectLater || reason == RejectKept
		if ok := reason != 0 && (!known || coded); ok != (err == nil) {
			t.Errorf("reason %d with a code: %v", reason, err)
		} else if ok {
			if r := DecodeReject(&h, payload); int(r.Reason) != reason || r.Code != 3 {
				t.Errorf("reason %d: %+v", reason, r)
			}
		}
	}
}
