//go:build unix

package job

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lineBytesMax is the longest line that is written whole, in bytes without its end, and so the most
// that is kept of a line that has no end yet. A longer line is written in pieces of that length.
const lineBytesMax = 32 << 10

// output writes the output of many ranks, without mixing lines of different ranks.
type output struct {
	lock  sync.Mutex
	to    io.Writer
	label func(rank int) string // in front of each line; nil: nothing
	raw   bool                  // one rank alone writes: as it comes
	parts map[int][]byte        // lines without an end, by rank
	err   error                 // of to: there is nobody any more, or no room
	// failed, unless it is nil, is told err, once.
	failed func(error)
}

func newOutput(to io.Writer, label func(rank int) string, raw bool) *output {
	return &output{to: to, label: label, raw: raw && label == nil, parts: map[int][]byte{}}
}

// write adds output of a rank.
func (o *output) write(rank int, text []byte) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.raw {
		o.put(text)
		return
	}
	text = append(o.parts[rank], text...)
	for {
		end := bytes.IndexByte(text[:min(len(text), lineBytesMax+1)], '\n')
		switch {
		case end >= 0:
			o.line(rank, text[:end+1])
			text = text[end+1:]
			continue
		case len(text) > lineBytesMax:
			o.line(rank, append(bytes.Clone(text[:lineBytesMax]), '\n'))
			text = text[lineBytesMax:]
			continue
		}
		break
	}
	o.parts[rank] = bytes.Clone(text)
}

// end writes the last, unterminated line of a rank.
func (o *output) end(rank int) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if rest := o.parts[rank]; len(rest) > 0 {
		o.line(rank, append(rest, '\n'))
	}
	delete(o.parts, rank)
}

// own writes a line of btlrun's own.
func (o *output) own(line []byte) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.put(line)
}

// line writes a line. The lock is held.
func (o *output) line(rank int, line []byte) {
	if o.label != nil {
		line = append([]byte(o.label(rank)), line...)
	}
	o.put(line)
}

func (o *output) put(text []byte) {
	if o.err != nil {
		return
	}
	if _, o.err = o.to.Write(text); o.err != nil && o.failed != nil {
		o.failed(o.err)
	}
}

// rankLabel is what stands in front of a rank's lines.
func rankLabel(width int) func(int) string {
	return func(rank int) string { return fmt.Sprintf("[%*d] ", width, rank) }
}
