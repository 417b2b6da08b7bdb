package launch

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"gobtl/launch/pmi"
)

const piecesMax = 1 << 12

func piece(rank int, key string, number int) string {
	return "b" + strconv.Itoa(rank) + "." + key + "." + strconv.Itoa(number)
}

// checkKey returns ErrKey if a key is invalid.
func checkKey(key string) error {
	other := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if key == "" || len(key) > KeyBytesMax || strings.IndexFunc(key, other) >= 0 {
		return fmt.Errorf("%w: %.80q", ErrKey, key)
	}
	return nil
}

// pieceBytes returns the largest size, in bytes, of a piece of a value's text that fits in one line
// of PMI-1. The argument "valueMax" is the launcher's limit for the size of values, and the
// argument "name" is the name of the key-value store.
func pieceBytes(name string, valueMax int) int {
	put := len("cmd=put kvsname= key= value=\n") + len(name) + pmi.KeyBytesMax
	got := len("cmd=get_result rc=0 msg=success value=\n")
	return min(valueMax, pmi.SentBytesMax-1-max(put, got))
}

// The function "cut" encodes a value as text, and splits the text into pieces of at most the given
// size.
func cut(value []byte, size int) []string {
	text := strconv.Itoa(len(value)) + "." + base64.RawURLEncoding.EncodeToString(value)
	var pieces []string
	for len(text) > size {
		pieces = append(pieces, text[:size])
		text = text[size:]
	}
	return append(pieces, text)
}

// A joiner assembles a value from the pieces into which the function "cut" has split the value. The
// pieces of a value must be added to a joiner in the order of their numbers.
type joiner struct {
	size  int // size of the value in bytes
	chars int // length of the encoded value
	text  strings.Builder
}

// add adds the next piece of a value. The result "done" of the method "add" tells whether the added
// piece was the last piece of the value.
func (j *joiner) add(number int, text string) (done bool, err error) {
	if number == 0 {
		size, rest, ok := strings.Cut(text, ".")
		if j.size, err = strconv.Atoi(size); !ok || err != nil || j.size < 0 || j.size > ValueBytesMax ||
			size != strconv.Itoa(j.size) {
			return false, fmt.Errorf("a value begins with %.40q", text)
		}
		j.chars = base64.RawURLEncoding.EncodedLen(j.size)
		text = rest
	} else if text == "" {
		return false, fmt.Errorf("piece %d of a value is empty", number)
	}
	j.text.WriteString(text)
	if j.text.Len() > j.chars || number >= piecesMax {
		return false, fmt.Errorf("%d bytes of text for a value of %d bytes", j.text.Len(), j.size)
	}
	return j.text.Len() == j.chars, nil
}

// The method "value" returns the complete value. The caller must have added all pieces.
func (j *joiner) value() ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(j.text.String())
}
