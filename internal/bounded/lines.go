package bounded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrLong means that a line is longer than the limit that was passed to NewLines.
var ErrLong = errors.New("line too long")

// Lines reads lines of a limited length. The buffer for a long line grows as data arrives, and is
// not allocated in advance.
type Lines struct {
	from *bufio.Reader
	most int
	line []byte
}

const linesBuffer = 4096

// NewLines returns a reader of lines. The argument "most" of NewLines is the largest length of a
// line in bytes. The end of a line ("\n" or "\r\n") is not counted in the length of the line.
func NewLines(r io.Reader, most int) *Lines {
	return &Lines{from: bufio.NewReaderSize(r, min(linesBuffer, most+1)), most: most}
}

// Next returns the next line without its end ("\n" or "\r\n"). The line that Next returns is valid
// until the next call of Next. Next returns the errors of the underlying reader unchanged. If the
// input ends in the middle of a line, Next returns io.ErrUnexpectedEOF. If the line is too long,
// Next returns an error that wraps ErrLong, and does not read the rest of the line.
func (l *Lines) Next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		whole := err == nil
		if whole {
			part = part[:len(part)-1]
		}
		if len(l.line)+len(part) > l.most {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLong, l.most)
		}
		l.line = append(l.line, part...)
		switch {
		case whole:
			if n := len(l.line); n > 0 && l.line[n-1] == '\r' {
				l.line = l.line[:n-1]
			}
			return l.line, nil
		case errors.Is(err, io.EOF) && len(l.line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
