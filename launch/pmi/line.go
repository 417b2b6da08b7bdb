package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Sizes of the protocol, in bytes.
const (
	LineBytesMax  = 32 << 10 // of a line that is taken, with its newline
	SentBytesMax  = 1024     // of a line that every launcher takes, with its newline
	NameBytesMax  = 256      // of the name of a job's store
	KeyBytesMax   = 64       // of a key
	ValueBytesMax = 1024     // of a value
)

// pairsMax bounds the pairs of a line, each of which is compared with all others. The protocol has
// no line of more than a few.
const pairsMax = 64

// RanksMax bounds the size of a job.
const RanksMax = 1 << 20

// ErrSyntax: the bytes are no line of PMI-1, or lack a pair that their command must have.
var ErrSyntax = errors.New("pmi: malformed line")

// Message is a line that has been read.
type Message struct {
	Cmd   string
	pairs []pair
}

type pair struct{ key, value string }

// Parse reads a line, with its newline or without. Any bytes are a message, or ErrSyntax.
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

// Get returns the value of a key, and whether it is there.
func (m Message) Get(key string) (value string, ok bool) {
	for _, p := range m.pairs {
		if p.key == key {
			return p.value, true
		}
	}
	return "", false
}

// Int returns the number that a key has. What is not there, no number, or outside of least to most
// is ErrSyntax.
func (m Message) Int(key string, least, most int) (int, error) {
	value, ok := m.Get(key)
	n, err := strconv.Atoi(value)
	if !ok || err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s has %s=%.40q, want %d to %d", ErrSyntax, m.Cmd, key, value, least,
			most)
	}
	return n, nil
}

// Good reports whether a name, a key or a value may be the value of a pair in a line.
func Good(value string, bytesMax int) bool {
	return value != "" && len(value) <= bytesMax &&
		strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
