//go:build unix

package job

import (
	"bytes"
	"io"
	"sync"
)

// remarks writes the messages of a host's remote shell to standard error. The last line is held
// back until the host's agent has sent its greeting. If the agent never answers, the held line
// becomes a part of the error, because it is the likely reason. The methods of remarks wait for
// nobody: the lines pass through a queue.
type remarks struct {
	queue *remarkQueue
	lines *output // writes to the queue

	lock sync.Mutex
	kept []byte
	all  bool // no line is held back any more
}

// newRemarks returns the remarks of the named host.
func newRemarks(to io.Writer, name string) *remarks {
	q := newRemarkQueue(to, "btlrun: "+name+": ")
	return &remarks{queue: q, lines: newOutput(q, func(int) string { return q.label }, false)}
}

// Write implements io.Writer.
func (r *remarks) Write(b []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.all {
		r.lines.write(0, b)
		return len(b), nil
	}
	r.kept = append(r.kept, b...)
	end := bytes.LastIndexByte(bytes.TrimRight(r.kept, "\r\n"), '\n') + 1
	if len(r.kept)-end > lineBytesMax {
		end = len(r.kept)
	}
	if end > 0 {
		r.lines.write(0, r.kept[:end])
		r.kept = append(r.kept[:0], r.kept[end:]...)
	}
	return len(b), nil
}

// pass writes the held line, and lets all later messages through.
func (r *remarks) pass() {
	if r == nil {
		return // a host without a remote shell
	}
	r.add(r.last())
}

// The method last returns the line that was held back. After last, no line is held back.
func (r *remarks) last() []byte {
	r.lock.Lock()
	defer r.lock.Unlock()
	last := r.kept
	r.kept, r.all = nil, true
	return last
}

// The method add writes a line that the method last has returned.
func (r *remarks) add(text []byte) {
	if len(text) > 0 {
		r.lines.write(0, text)
	}
}
