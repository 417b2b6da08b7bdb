package stranger

import (
	"bytes"
	"encoding/hex"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// vectors returns the test vectors of the page: names and bytes, in order.
func vectors(t *testing.T) (names []string, packets [][]byte) {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "<!-- vectors -->\n```\n")
	text, _, ok2 := strings.Cut(text, "```\n<!-- end of vectors -->")
	if !ok || !ok2 {
		t.Fatal("docs/protocol.md has no vectors")
	}
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " "):
			b, err := hex.DecodeString(word)
			if err != nil || len(packets) == 0 {
				t.Fatalf("vector %v, line %q: %v", names, word, err)
			}
			packets[len(packets)-1] = append(packets[len(packets)-1], b...)
		default:
			names, packets = append(names, word), append(packets, nil)
		}
	}
	return names, packets
}

// recode reads bytes and writes them again.
func recode(name string, b []byte) ([]byte, error) {
	if name == "name" {
		n, err := DecodeName(b)
		if err != nil {
			return nil, err
		}
		return n.Encode(), nil
	}
	p, err := Decode(b)
	if err != nil {
		return nil, err
	}
	return p.Encode(nil), nil
}

func TestVectors(t *testing.T) {
	names, packets := vectors(t)
	if len(names) < 18 {
		t.Errorf("only %d vectors: %v", len(names), names)
	}
	for i, name := range names {
		b := packets[i]
		got, err := recode(name, b)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: %v\n got %x\nwant %x", name, err, got, b)
		}
		for n := range b {
			if _, err := recode(name, b[:n:n]); err == nil {
				t.Errorf("%s: its first %d of %d bytes are taken for a packet", name, n, len(b))
			}
		}
		if _, err := recode(name, append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: taken for a packet with a byte too many", name)
		}
	}
}

// TestExample reads the packets of the page's example, and writes them again.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "<!-- example -->\n```\n")
	text, _, ok := strings.Cut(text, "```\n<!-- end of example -->")
	if !ok {
		t.Fatal("docs/protocol.md has no example")
	}
	var heads []string
	var packets [][]byte
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			heads, packets = append(heads, strings.TrimSpace(line)), append(packets, nil)
		default:
			for _, word := range strings.Fields(line) {
				digits, times, _ := strings.Cut(word, "*")
				n, err := strconv.Atoi("0" + times)
				b, err2 := hex.DecodeString(digits)
				if err != nil || err2 != nil || len(packets) == 0 {
					t.Fatalf("%v: %q", heads, word)
				}
				packets[len(packets)-1] = append(packets[len(packets)-1], bytes.Repeat(b, max(n, 1))...)
			}
		}
	}
	for i, b := range packets {
		if got, err := recode(heads[i], b); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: %v\n got %x\nwant %x", heads[i], err, got, b)
		}
	}
	if len(packets) < 15 {
		t.Errorf("only %d packets", len(packets))
	}
}

// TestCanonical alters each byte of each vector in turn: what still is a packet must be one whose
// encoding is just these bytes.
func TestCanonical(t *testing.T) {
	names, packets := vectors(t)
	for i, name := range names {
		for at := range packets[i] {
			for bit := range 8 {
				b := bytes.Clone(packets[i])
				b[at] ^= 1 << bit
				if got, err := recode(name, b); err == nil && !bytes.Equal(got, b) {
					t.Errorf("%s, byte %d bit %d:\n  read %x\nwrote %x", name, at, bit, b, got)
				}
			}
		}
	}
}

// TestOwnCode: the peer itself uses nothing of the project, nor of anybody but Go's library.
func TestOwnCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range tree.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if first, _, _ := strings.Cut(path, "/"); first == "gobtl" || strings.Contains(first, ".") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
