package vnic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/internal/testenv"
)

// vectors are those of the description of Omni-Path's encapsulation.
var vectors = []struct {
	h     Header
	frame int
	want  string
}{
	{
		Header{SLID: 1, DLID: 2, PKey: 0xFFFF, VESW: 1},
		60,
		"0100b000020000c07800ffff0000000000000100",
	},
	{
		Header{
			SLID: 0xABCDEF, DLID: 0x123456, PKey: 0x8001, Entropy: 0x5A, SC: 0x1F, RC: 7, VESW: 0xABC,
		},
		1514,
		"efcd1b0c5634f2cf781a01805a0000000000bc0a",
	},
	{
		Header{SLID: 1, DLID: 0xF00001, PKey: 0x8001, VESW: 0xFFF},
		60,
		"0100b000010000c078f001800000 00000000ff0f",
	},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		p, err := v.h.Append(nil, make([]byte, v.frame))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(v.want, " ", "")
		if got := hex.EncodeToString(p[:HeaderBytes]); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", v.h, got, want)
		}
	}
	first, _ := vectors[0].h.Append(nil, make([]byte, 60))
	if got := hex.EncodeToString(first[80:]); got != "0000000000000043" || len(first) != 88 {
		t.Errorf("trailer %s of %d bytes", got, len(first))
	}
	for _, v := range [][3]int{
		{60, 11, 3},
		{61, 11, 2},
		{63, 11, 0},
		{64, 12, 7},
		{1514, 193, 5},
		{1518, 193, 1},
		{9014, 1130, 1},
		{10254, 1285, 1},
		{16351, 2047, 0},
	} {
		if n, pad := PacketBytes(v[0]), PadBytes(v[0]); n != 8*v[1] || pad != v[2] {
			t.Errorf("frame of %d: LEN %d, pad %d, want %d, %d", v[0], n/8, pad, v[1], v[2])
		}
	}
}

// randomHeader draws a header that is valid.
func randomHeader(r *rand.Rand) Header {
	return Header{
		SLID: r.Uint32() & LIDMax, DLID: r.Uint32() & LIDMax, VESW: uint16(r.Uint32() & VESWMax),
		PKey: uint16(r.Uint32()), Entropy: uint16(r.Uint32()), SC: uint8(r.Uint32() & SCMax),
		RC: uint8(r.Uint32() & RCMax), BECN: r.IntN(2) == 1, FECN: r.IntN(2) == 1,
	}
}

// TestEveryLength encapsulates frames of every length, compares header and trailer with the C
// program, and takes the packets apart again.
func TestEveryLength(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	frame := make([]byte, FrameBytesMax+1)
	for i := range frame {
		frame[i] = byte(r.Uint32())
	}
	var ask strings.Builder
	var headers []Header
	for n := FrameBytesMin; n <= FrameBytesMax; n++ {
		h := randomHeader(r)
		headers = append(headers, h)
		bit := map[bool]int{true: 1}
		fmt.Fprintf(&ask, "%x %x %d %x %x %x %x %x %d %d\n", h.SLID, h.DLID, n, h.PKey, h.Entropy, h.SC,
			h.RC, h.VESW, bit[h.BECN], bit[h.FECN])
	}
	answers := strings.Split(strings.TrimSpace(oracle(t, ask.String())), "\n")
	if len(answers) != len(headers) {
		t.Fatalf("the oracle has %d answers, want %d", len(answers), len(headers))
	}
	var p []byte
	for i, h := range headers {
		n := FrameBytesMin + i
		var err error
		if p, err = h.Append(p[:0], frame[:n]); err != nil {
			t.Fatal(err)
		}
		got := hex.EncodeToString(p[:HeaderBytes]) + " " + hex.EncodeToString(p[HeaderBytes+n:])
		if got != answers[i] {
			t.Fatalf("frame of %d bytes: %s, the oracle says %s", n, got, answers[i])
		}
		back, f, err := Parse(p)
		if err != nil || back != h || !bytes.Equal(f, frame[:n]) {
			t.Fatalf("frame of %d bytes: %+v, %v", n, back, err)
		}
	}
	h := headers[0]
	if b, err := h.Append(nil, frame); !errors.Is(err, ErrFrameSize) || len(b) != 0 {
		t.Errorf("a frame of %d bytes: %v", len(frame), err)
	}
	for n := range FrameBytesMin {
		p, err := h.Append(nil, frame[:n])
		if err != nil || len(p) != 88 || !bytes.Equal(p[HeaderBytes+n:80], make([]byte, 60-n)) {
			t.Errorf("frame of %d bytes is not padded with zeros: %v", n, err)
		}
	}
}

// oracle builds and runs the C program.
func oracle(t *testing.T, input string) string {
	t.Helper()
	cc := testenv.Need(t, "cc", "gcc")
	bin := filepath.Join(t.TempDir(), "oracle")
	if out, err := exec.Command(cc, "-O1", "-Wall", "-Werror", "-o", bin,
		"testdata/oracle.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	cmd := exec.Command(bin)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestParseRefuses alters a good packet in one place, once for each rule.
func TestParseRefuses(t *testing.T) {
	h := Header{SLID: 1, DLID: 2, VESW: 5}
	good, err := h.Append(nil, make([]byte, 61))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   int
		xor  byte
		want error
	}{
		{"L2", 7, 0x20, ErrL2},
		{"LT", 7, 0x80, ErrL2},
		{"L4", 8, 1, ErrL4},
		{"LEN", 2, 0x10, ErrLength},
		{"h3", 14, 1, ErrReserved},
		{"h3", 15, 0x80, ErrReserved},
		{"h4", 16, 1, ErrReserved},
		{"tail, LT 3", 87, 0x80, ErrPad},
		{"tail, reserved", 87, 0x20, ErrPad},
		{"pad count", 87, 1, nil},
	} {
		b := bytes.Clone(good)
		b[c.at] ^= c.xor
		if c.name == "pad count" { // 2 becomes 3: a byte of the frame, which is zero, becomes padding
			if _, f, err := Parse(b); err != nil || len(f) != 60 {
				t.Errorf("%s: %v, frame of %d", c.name, err, len(f))
			}
			continue
		}
		if _, _, err := Parse(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for n := range HeaderBytes + TrailerBytes {
		if _, _, err := Parse(good[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	runt := bytes.Clone(good[:80])
	h.Put(runt, 80)
	runt[79] = 2
	if _, _, err := Parse(runt); !errors.Is(err, ErrRunt) {
		t.Errorf("runt: %v", err)
	}
}

// What the format allows, and Append does not write, is taken: a last flit without its mark, any
// padding, any ICRC, a switch that nobody has. The header tells the congestion bits and all of the
// entropy.
func TestParseTakes(t *testing.T) {
	h := Header{SLID: 1, DLID: 2, VESW: 5}
	good, err := h.Append(nil, make([]byte, 61))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   int
		xor  byte
		want Header
	}{
		{"LT 0 in the tail", 87, 0x40, h},
		{"padding", 81, 0xFF, h},
		{"ICRC", 84, 0xFF, h},
		{"BECN", 3, 0x80, Header{SLID: 1, DLID: 2, VESW: 5, BECN: true}},
		{"FECN", 7, 0x10, Header{SLID: 1, DLID: 2, VESW: 5, FECN: true}},
		{"entropy", 13, 0x81, Header{SLID: 1, DLID: 2, VESW: 5, Entropy: 0x8100}},
		{"switch", 19, 0xF0, Header{SLID: 1, DLID: 2, VESW: 0xF005}},
	} {
		b := bytes.Clone(good)
		b[c.at] ^= c.xor
		if got, frame, err := Parse(b); err != nil || got != c.want || len(frame) != 61 {
			t.Errorf("%s: %+v, frame of %d, %v", c.name, got, len(frame), err)
		}
	}
}

// FuzzParse: what is accepted is what Append makes, but for padding, ICRC and the mark of the last
// flit, which may differ.
func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		p, _ := v.h.Append(nil, make([]byte, v.frame))
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, frame, err := Parse(b)
		if err != nil {
			return
		}
		if h.VESW > VESWMax {
			return
		}
		again, err := h.Append(nil, frame)
		if end := HeaderBytes + len(frame); err == nil && len(again) == len(b) {
			copy(again[end:len(b)-1], b[end:]) // padding and ICRC
			again[len(b)-1] ^= (again[len(b)-1] ^ b[len(b)-1]) & tailFlit
		}
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is not canonical: %v", b, err)
		}
		if PacketSize(b) != len(b) {
			t.Fatalf("PacketSize %d of %d", PacketSize(b), len(b))
		}
	})
}
