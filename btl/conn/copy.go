package conn

import (
	"io"
	"sync"
)

// copyBytes is the buffer size of ReadFrom and WriteTo, about the size of one message.
const copyBytes = 64 << 10

var copies = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// ReadFrom (io.ReaderFrom) writes all bytes that it reads from r to the Conn, and returns the
// number of bytes written. When a Read of r returns io.EOF, the error of ReadFrom is nil.
func (c *Conn) ReadFrom(r io.Reader) (sum int64, err error) {
	return move(r.Read, c.Write)
}

// WriteTo (io.WriterTo) writes all received bytes to w until the end of the stream, and returns the
// number of bytes written. At the end of the stream, the error of WriteTo is nil.
func (c *Conn) WriteTo(w io.Writer) (sum int64, err error) {
	return move(c.Read, w.Write)
}

// The function "move" copies bytes from the function "read" to the function "write" until the
// function "read" returns io.EOF.
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
