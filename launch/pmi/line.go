package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The constants below are the largest sizes of lines, names, keys and values in PMI-1, in bytes.
const (
	LineBytesMax  = 32 << 10 // received line, with its newline
	SentBytesMax  = 1024     // line that every launcher accepts, with its newline
	NameBytesMax  = 256      // name of a job's key-value store
	KeyBytesMax   = 64       // of a key
	ValueBytesMax = 1024     // of a value
)

// pairsMax is the largest number of pairs in a line.
const pairsMax = 64

// RanksMax is the largest number of ranks that a job can have with this package.
const RanksMax = 1 << 20

// ErrSyntax means that the bytes are not a line of PMI-1, or that a required key=value pair is
// missing or invalid.
var ErrSyntax = errors.New("pmi: malformed line")

// Message is a parsed line.
type Message struct {
	Cmd   string
	pairs []pair
}

type pair struct{ key, value string }

// Parse parses a line, with or without the newline. The error of Parse is ErrSyntax. Parse does not
// panic, whatever bytes the line contains.
func Parse(line []byte) (Message, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) >= LineBytesMax {
		return Message{}, fmt.Errorf("%w: %d bytes", ErrSyntax, len(line))
	}
	for _, c := range line {
		if c < ' ' || c > '~' {
			return Message{}, fmt.Errorf("%w: byte %#x", ErrSyntax, c)
		}
	}
	var m Message
	for field := range strings.FieldsSeq(string(line)) {
		key, value, ok := strings.Cut(field, "=")
		if !ok || key == "" {
			return Message{}, fmt.Errorf("%w: %.40q is no pair", ErrSyntax, field)
		}
		if m.Cmd == "" {
			if key != "cmd" && key != "mcmd" || value == "" {
				return Message{}, fmt.Errorf("%w: it begins with %.40q", ErrSyntax, field)
			}
			m.Cmd = value
			continue
		}
		if _, twice := m.Get(key); twice || key == "cmd" {
			return Message{}, fmt.Errorf("%w: %.40q twice", ErrSyntax, key)
		}
		if len(m.pairs) == pairsMax {
			return Message{}, fmt.Errorf("%w: more than %d pairs", ErrSyntax, pairsMax)
		}
		m.pairs = append(m.pairs, pair{key, value})
	}
	if m.Cmd == "" {
		return Message{}, fmt.Errorf("%w: empty", ErrSyntax)
	}
	return m, nil
}

// BeginsSpawn reports whether a line is the first line of a spawn request. A spawn request is the
// only PMI-1 request that consists of several lines. The server replies to a spawn request once,
// after the last line of the request.
func BeginsSpawn(line []byte) bool {
	m, err := Parse(line)
	return err == nil && m.Cmd == "spawn"
}

// EndsSpawn reports whether a line is the last line of a spawn request.
func EndsSpawn(line []byte) bool {
	return string(bytes.TrimSuffix(line, []byte("\n"))) == "endcmd"
}

// Get returns the value of a key in the message. The result "ok" of Get is true if the message has
// the key, and otherwise false.
func (m Message) Get(key string) (value string, ok bool) {
	for _, p := range m.pairs {
		if p.key == key {
			return p.value, true
		}
	}
	return "", false
}

// Int returns the value of a key as a number. The error of Int is ErrSyntax if the key is missing,
// or if the value is not a number from "least" to "most".
func (m Message) Int(key string, least, most int) (int, error) {
	value, ok := m.Get(key)
	n, err := strconv.Atoi(value)
	if !ok || err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s has %s=%.40q, want %d to %d", ErrSyntax, m.Cmd, key, value, least,
			most)
	}
	return n, nil
}

// Good reports whether a string is allowed as the value of a key=value pair in a line. A valid
// value has 1 to bytesMax printable ASCII characters without spaces.
func Good(value string, bytesMax int) bool {
	return value != "" && len(value) <= bytesMax &&
		strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
