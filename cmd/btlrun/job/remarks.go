//go:build unix

package job

import (
	"bytes"
	"sync"
)

// remarks writes the messages of the remote shell of a host. Until the host's agent has sent its
// greeting the last line is held back. If the host is lost this line is the reason, and becomes a
// part of the error.
type remarks struct {
	lines *output
	host  int

	lock sync.Mutex
	kept []byte
	all  bool // nothing is kept any more
}

// Write implements io.Writer.
func (r *remarks) Write(b []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.all {
		r.lines.write(r.host, b)
		return len(b), nil
	}
	r.kept = append(r.kept, b...)
	end := bytes.LastIndexByte(bytes.TrimRight(r.kept, "\r\n"), '\n') + 1
	if len(r.kept)-end > lineBytesMax {
		end = len(r.kept)
	}
	if end > 0 {
		r.lines.write(r.host, r.kept[:end])
		r.kept = append(r.kept[:0], r.kept[end:]...)
	}
	return len(b), nil
}

// pass writes what is kept, and all that comes.
func (r *remarks) pass() {
	if r == nil {
		return // a host without a remote shell
	}
	r.add(r.last())
}

// last takes what is kept. Nothing is from now on.
func (r *remarks) last() []byte {
	r.lock.Lock()
	defer r.lock.Unlock()
	last := r.kept
	r.kept, r.all = nil, true
	return last
}

// add writes what last has taken.
func (r *remarks) add(text []byte) {
	if len(text) > 0 {
		r.lines.write(r.host, text)
	}
}
