package conn

import (
	"io"
	"sync"
)

// copyBytes is how much ReadFrom and WriteTo move at a time: about a message. Each holds so much
// while it waits.
const copyBytes = 64 << 10

var copies = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// ReadFrom writes all that r gives until io.EOF, which is no error: io.ReaderFrom. It returns the
// bytes that were written.
func (c *Conn) ReadFrom(r io.Reader) (sum int64, err error) {
	return move(r.Read, c.Write)
}

// WriteTo writes to w all that comes until the end of the stream, which is no error: io.WriterTo.
// It returns the bytes that were written.
func (c *Conn) WriteTo(w io.Writer) (sum int64, err error) {
	return move(c.Read, w.Write)
}

// move moves bytes until there are no more.
func move(read, write func([]byte) (int, error)) (sum int64, err error) {
	b := copies.Get().(*[copyBytes]byte)
	defer copies.Put(b)
	for {
		n, err := read(b[:])
		if n > 0 {
			written, err := write(b[:n])
			sum += int64(written)
			if err == nil && written < n {
				err = io.ErrShortWrite
			}
			if err != nil {
				return sum, err
			}
		}
		if err == io.EOF { //nolint:errorlint // an error that wraps it is no end
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
}
