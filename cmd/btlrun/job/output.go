//go:build unix

package job

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lineBytesMax is the maximum length of a line of output in bytes, without the newline. A longer
// line is written in several lines of at most lineBytesMax bytes.
const lineBytesMax = 32 << 10

// output writes the output of many ranks, and never mixes lines of different ranks.
type output struct {
	lock  sync.Mutex
	to    io.Writer
	label func(rank int) string // text before each line; nil: none
	raw   bool                  // only one rank writes: output is not buffered
	parts map[int][]byte        // unfinished lines, by rank
	err   error                 // error of a write to to
	// The field failed is called with the first write error, unless the field failed is nil.
	failed func(error)
}

func newOutput(to io.Writer, label func(rank int) string, raw bool) *output {
	return &output{to: to, label: label, raw: raw && label == nil, parts: map[int][]byte{}}
}

// write writes the complete lines of a rank's output, and stores the beginning of an unfinished
// line.
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

// end writes the last line of a rank if the line has no newline.
func (o *output) end(rank int) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if rest := o.parts[rank]; len(rest) > 0 {
		o.line(rank, append(rest, '\n'))
	}
	delete(o.parts, rank)
}

// own writes a message line of btlrun itself.
func (o *output) own(line []byte) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.put(line)
}

// line writes a line. The caller of line holds the lock of the output.
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

// rankLabel returns the function that makes the label in front of each line of a rank.
func rankLabel(width int) func(int) string {
	return func(rank int) string { return fmt.Sprintf("[%*d] ", width, rank) }
}
