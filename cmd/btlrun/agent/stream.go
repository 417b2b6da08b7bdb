//go:build unix

package agent

import (
	"os"
	"sync"
	"time"
)

// chunkBytes is the maximum number of bytes of a rank's output that one read returns.
const chunkBytes = 32 << 10

// stream is the standard output or the standard error of a rank.
type stream struct {
	kind        Kind
	mine, child *os.File
	window      window
}

// window counts the bytes of a stream that the agent may send to btlrun. A new window allows no
// bytes.
type window struct {
	lock  sync.Mutex
	more  sync.Cond
	free  int
	used  int // sent bytes for which credit may arrive
	ended bool
}

// openOutputs creates the pipes for the output of a rank before the rank starts.
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

// closeOutputs closes the pipes for the output of a rank.
func (p *process) closeOutputs() {
	for i := range p.outputs {
		_ = p.outputs[i].mine.Close()
		_ = p.outputs[i].child.Close()
	}
}

// window returns the window of KindStdout or KindStderr.
func (p *process) window(of Kind) *window { return &p.outputs[of-KindStdout].window }

// hush ends the output and the requests of a rank. Output without credit is no longer sent.
func (p *process) hush() {
	if p.stop != nil { // else the rank was never started
		p.once.Do(func() { close(p.stop) })
	}
	for i := range p.outputs {
		p.outputs[i].window.end()
	}
}

// copy sends the output of the rank as frames, within the credit, until the output ends.
func (s *stream) copy(out *Writer, rank int) {
	buf := make([]byte, chunkBytes)
	for {
		n, err := s.mine.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			n := s.window.take(len(rest))
			if n == 0 || out.Write(Frame{Kind: s.kind, Rank: rank, Body: rest[:n]}) != nil {
				return // No further output can be sent.
			}
			rest = rest[n:]
		}
		if err != nil {
			return
		}
	}
}

// The method last allows the bytes that an ended rank has left in the pipe to be sent without
// credit. Output that the pipe receives after the time over is not read.
func (s *stream) last(over time.Time) {
	_ = s.mine.SetReadDeadline(over) // A pipe has deadlines.
	s.window.grow(LastBytes)
}

// take waits for credit, and uses up to want bytes of the credit. take returns the number of bytes
// that may be sent, or 0 if no further credit will arrive.
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

// give adds the credit for n bytes that btlrun has acknowledged. give returns false if fewer than n
// bytes were sent.
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

// grow increases by n the number of bytes that may be sent without credit.
func (w *window) grow(n int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.free += n
	w.more.Broadcast()
}

// end wakes all goroutines that wait for credit.
func (w *window) end() {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.more.L != nil { // else the window was never opened
		w.ended = true
		w.more.Broadcast()
	}
}
