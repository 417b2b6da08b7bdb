package stranger

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// vectors reads the file of section 15 of the document: the name and the bytes of each packet.
func vectors(t *testing.T) (names []string, packets [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../frag/testdata/golden.hex")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		word := strings.TrimSpace(line)
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case !strings.HasPrefix(line, " "):
			names, packets = append(names, word), append(packets, nil)
		default:
			b, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			packets[len(packets)-1] = append(packets[len(packets)-1], b...)
		}
	}
	return names, packets
}

func TestVectors(t *testing.T) {
	names, packets := vectors(t)
	if len(names) < 40 {
		t.Fatalf("only %d vectors", len(names))
	}
	for i, b := range packets {
		if names[i] == "name" {
			n, err := decodeName(b)
			if err != nil || !bytes.Equal(n.encode(), b) {
				t.Errorf("name: %v, %+v", err, n)
			}
			continue
		}
		p, err := decode(b)
		if err != nil {
			t.Errorf("%s: %v", names[i], err)
			continue
		}
		if got := p.encode(); !bytes.Equal(got, b) {
			t.Errorf("%s: is\n%x, was\n%x", names[i], got, b)
		}
		for n := range b {
			if _, err := decode(b[:n]); err == nil {
				t.Errorf("%s: its first %d bytes are a packet", names[i], n)
			}
		}
		if _, err := decode(append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: is one with a byte behind it", names[i])
		}
	}
}

// TestCanonical changes each bit of each vector: what still is a packet has that very encoding.
func TestCanonical(t *testing.T) {
	names, packets := vectors(t)
	for i, b := range packets {
		if names[i] == "name" {
			continue
		}
		for bit := range len(b) * 8 {
			m := bytes.Clone(b)
			m[bit/8] ^= 1 << (bit % 8)
			if p, err := decode(m); err == nil && !bytes.Equal(p.encode(), m) {
				t.Errorf("%s, bit %d: another encoding", names[i], bit)
			}
		}
	}
}
