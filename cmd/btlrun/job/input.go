//go:build unix

package job

import (
	"io"
	"sync/atomic"

	"gobtl/cmd/btlrun/agent"
)

// input passes standard input to the rank that reads it, in chunks, and at the speed at which the
// rank takes the chunks. At most one chunk is on its way to the rank.
type input struct {
	from   io.Reader
	chunks chan []byte // chunks for the goroutine of the job; an empty chunk: end of the input
	taken  chan struct{}
	unread atomic.Bool // a chunk was sent, and its rank has not taken the chunk yet
	done   <-chan struct{}
}

// newInput returns an input that ends when the channel done is closed.
func newInput(from io.Reader, done <-chan struct{}) *input {
	return &input{from: from, chunks: make(chan []byte), taken: make(chan struct{}, 1), done: done}
}

// read reads the input to its end, or to the end of the job.
func (i *input) read() {
	piece := make([]byte, agent.BodyBytesMax)
	for {
		n, err := i.from.Read(piece)
		if n > 0 && !i.offer(piece[:n]) {
			return
		}
		if err != nil {
			i.offer(nil)
			return
		}
	}
}

// offer passes a chunk to the goroutine of the job, and waits until the rank has taken the chunk.
// offer returns false if the job has ended.
func (i *input) offer(piece []byte) bool {
	select {
	case i.chunks <- piece:
	case <-i.done:
		return false
	}
	if len(piece) == 0 {
		return true
	}
	select {
	case <-i.taken:
		return true
	case <-i.done:
		return false
	}
}

// frame returns the frame that carries a chunk to the agent. The frame contains a copy of the
// chunk. From then on, the method accept accepts one report that the chunk was taken.
func (i *input) frame(piece []byte) agent.Frame {
	body := append([]byte(nil), piece...)
	i.unread.Store(len(piece) > 0)
	return agent.Frame{Kind: agent.KindStdin, Body: body}
}

// accept records an agent's report that the rank has taken the latest chunk. accept returns false
// if the report is wrong, because no chunk is on its way.
func (i *input) accept() bool {
	if !i.unread.CompareAndSwap(true, false) {
		return false
	}
	i.taken <- struct{}{} // There is room: each chunk is reported once.
	return true
}
