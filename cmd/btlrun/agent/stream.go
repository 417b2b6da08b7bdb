//go:build unix

package agent

import (
	"os"
	"sync"
	"time"
)

// chunkBytes is the most that is read of a rank's output at once.
const chunkBytes = 32 << 10

// stream is a rank's standard output, or its standard error.
type stream struct {
	kind        Kind
	mine, child *os.File
	window      window
}

// window is the credit of a stream to btlrun. A window that is not opened has no credit.
type window struct {
	lock  sync.Mutex
	more  sync.Cond
	free  int
	used  int // bytes that credit may come for
	ended bool
}

// openOutputs makes the pipes for the output of a rank that is to be started.
func (p *process) openOutputs() error {
	for i, kind := range []Kind{KindStdout, KindStderr} {
		mine, child, err := os.Pipe()
		if err != nil {
			p.closeOutputs()
			return err
		}
		o := &p.outputs[i]
		o.kind, o.mine, o.child, o.window.free = kind, mine, child, WindowBytes
		o.window.more.L = &o.window.lock
	}
	p.cmd.Stdout, p.cmd.Stderr = p.outputs[0].child, p.outputs[1].child
	return nil
}

// closeOutputs closes the pipes: again, where they are closed.
func (p *process) closeOutputs() {
	for i := range p.outputs {
		_ = p.outputs[i].mine.Close()
		_ = p.outputs[i].child.Close()
	}
}

// window is that of KindStdout or KindStderr.
func (p *process) window(of Kind) *window { return &p.outputs[of-KindStdout].window }

// hush ends the output of a rank. Output without credit is no longer sent.
func (p *process) hush() {
	for i := range p.outputs {
		p.outputs[i].window.end()
	}
}

// copy sends the output of the rank as frames, within the credit, until its end.
func (s *stream) copy(out *Writer, rank int) {
	buf := make([]byte, chunkBytes)
	for {
		n, err := s.mine.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			n := s.window.take(len(rest))
			if n == 0 || out.Write(Frame{Kind: s.kind, Rank: rank, Body: rest[:n]}) != nil {
				return // Nobody is there to read it.
			}
			rest = rest[n:]
		}
		if err != nil {
			return
		}
	}
}

// last lets the remaining content of the pipe follow without credit, because the rank has ended.
// Nothing is read after over.
func (s *stream) last(over time.Time) {
	_ = s.mine.SetReadDeadline(over) // A pipe has deadlines.
	s.window.grow(LastBytes)
}

// take waits for credit, and takes up to want bytes of it. 0 means that there will be no more.
func (w *window) take(want int) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	for w.free == 0 && !w.ended {
		w.more.Wait()
	}
	n := min(want, w.free)
	w.free -= n
	w.used += n
	return n
}

// give gives credit back. It reports false if it is for more than was taken.
func (w *window) give(n int) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	if n > w.used {
		return false
	}
	w.used -= n
	w.free += n
	w.more.Broadcast()
	return true
}

// grow makes more room, for which no credit is needed.
func (w *window) grow(n int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.free += n
	w.more.Broadcast()
}

// end wakes all waiting goroutines, and lets no more wait.
func (w *window) end() {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.more.L != nil { // else it was never opened
		w.ended = true
		w.more.Broadcast()
	}
}
