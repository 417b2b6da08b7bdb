package frag

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func testName() *Name {
	all := goldenVectors()
	return all[len(all)-1].module
}

func TestNameRefuses(t *testing.T) {
	tests := []struct {
		about  string
		change func(*Name)
	}{
		{"no provider", func(n *Name) { n.Provider = "" }},
		{"long provider", func(n *Name) { n.Provider = string(make([]byte, 65)) }},
		{"blank in provider", func(n *Name) { n.Provider = "ofi udp" }},
		{"control character in provider", func(n *Name) { n.Provider = "udp\n" }},
		{"provider beyond ASCII", func(n *Name) { n.Provider = "udp\u00e9" }},
		{"delete in provider", func(n *Name) { n.Provider = "udp\x7f" }},
		{"no incarnation", func(n *Name) { n.Incarnation = 0 }},
		{"small MTU", func(n *Name) { n.MTUBytes = MTUBytesMin - 1 }},
		{"small command MTU", func(n *Name) { n.CommandBytes = 0 }},
		{"no command address", func(n *Name) { n.Command = nil }},
		{"long command address", func(n *Name) { n.Command = make([]byte, AddrBytesMax+1) }},
		{"no data address", func(n *Name) { n.Data = []byte{} }},
		{"long data address", func(n *Name) { n.Data = make([]byte, 300) }},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			n := testName()
			test.change(n)
			if err := n.Validate(); !errors.Is(err, ErrName) {
				t.Fatalf("Validate: %v", err)
			}
			if b, err := n.Append([]byte("x")); !errors.Is(err, ErrName) || string(b) != "x" {
				t.Fatalf("Append: %q, %v", b, err)
			}
		})
	}
	good := goldenPacket(t, "name")
	for n := range len(good) {
		if _, err := ParseName(good[:n:n]); !errors.Is(err, ErrName) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := ParseName(append(bytes.Clone(good), 0)); !errors.Is(err, ErrName) {
		t.Fatalf("with a byte behind it: %v", err)
	}
	good[0]++
	if _, err := ParseName(good); !errors.Is(err, ErrName) {
		t.Fatalf("other version: %v", err)
	}
}

func TestNameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.SliceOfN(rapid.Byte(), 1, AddrBytesMax)
		n := Name{
			Provider:     rapid.StringMatching(`[!-~]{1,64}`).Draw(t, "provider"),
			Incarnation:  rapid.Uint64Range(1, math.MaxUint64).Draw(t, "incarnation"),
			MTUBytes:     rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "mtu"),
			CommandBytes: rapid.Uint16Range(MTUBytesMin, math.MaxUint16).Draw(t, "command"),
			Command:      address.Draw(t, "command address"),
			Data:         address.Draw(t, "data address"),
		}
		b, err := n.Append([]byte("before"))
		if err != nil || len(b)-len("before") > NameBytesMax {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		b = b[len("before"):]
		got, err := ParseName(b)
		clear(b) // the result must not share memory with b
		if err != nil || !sameName(&got, &n) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, n)
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add(goldenPacket(f, "name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseName(b)
		if err != nil {
			return
		}
		if again, err := n.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("parsed %x\nencoded %x, %v", b, again, err)
		}
	})
}

func ExampleName() {
	mine := Name{
		Provider: "ofi/udp", Incarnation: 99, MTUBytes: 1472, CommandBytes: 768,
		Command: []byte("address of the command channel"), Data: []byte("of the data channel"),
	}
	blob, err := mine.Append(nil)
	if err != nil {
		fmt.Println(err)
	}
	// blob travels to the peer, which reads:
	theirs, err := ParseName(blob)
	fmt.Println(len(blob), theirs.Provider, theirs.MTUBytes, err)
	// Output: 72 ofi/udp 1472 <nil>
}
