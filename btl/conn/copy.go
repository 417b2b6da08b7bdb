package conn

import (
	"io"
	"sync"
)

// copyBytes is the buffer size of ReadFrom and WriteTo, about the size of one message.
const copyBytes = 64 << 10

var copies = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// ReadFrom implements io.ReaderFrom, writes all bytes of r to the peer until io.EOF, and returns
// the number of bytes written. ReadFrom returns nil at io.EOF.
func (c *Conn) ReadFrom(r io.Reader) (sum int64, err error) {
	return move(r.Read, c.Write)
}

// WriteTo implements io.WriterTo, writes all received bytes to w until the end of the stream, and
// returns the number of bytes written. WriteTo returns nil at the end of the stream.
func (c *Conn) WriteTo(w io.Writer) (sum int64, err error) {
	return move(c.Read, w.Write)
}

// move copies bytes from the function "read" to the function "write" until io.EOF.
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
