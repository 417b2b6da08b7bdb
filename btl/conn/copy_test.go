package conn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

var (
	_ io.ReaderFrom = (*conn.Conn)(nil)
	_ io.WriterTo   = (*conn.Conn)(nil)
)

// shortWriter takes less than it is given, without an error.
type shortWriter struct{}

func (shortWriter) Write(b []byte) (int, error) { return len(b) - 1, nil }

// What io.Copy and net.Buffers carry comes out of a Conn whole and in order. Errors of the other
// side of a copy come back.
func TestCopy(t *testing.T) {
	c1, c2 := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{}).dial(t)
	var want []byte
	for i := range 1 << 20 {
		want = append(want, byte(i/253))
	}
	go func() {
		half := len(want) / 2
		n, err := c1.ReadFrom(bytes.NewReader(want[:half]))
		if int(n) != half || err != nil {
			t.Error(n, err)
		}
		parts := net.Buffers{want[half : half+5], want[half+5 : half+9], want[half+9:]}
		if n, err := parts.WriteTo(c1); int(n) != len(want)-half || err != nil {
			t.Error(n, err)
		}
		if err := c1.CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	var got bytes.Buffer
	n, err := c2.WriteTo(&got)
	if int(n) != len(want) || err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d of %d bytes, %v", n, len(want), err)
	}
	must2(t)(c2.Write([]byte("answer")))
	if n, err := c1.WriteTo(shortWriter{}); n != 5 || !errors.Is(err, io.ErrShortWrite) {
		t.Error(n, err)
	}
	broken := errors.New("broken")
	r := io.MultiReader(bytes.NewReader([]byte("abc")), brokenReader{broken})
	if n, err := c2.ReadFrom(r); n != 3 || !errors.Is(err, broken) {
		t.Error(n, err)
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }
