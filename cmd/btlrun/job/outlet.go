//go:build unix

package job

import (
	"sync"

	"gobtl/cmd/btlrun/agent"
)

// pendingMax is the maximum size of the queued output of one rank and one kind, in bytes.
// pendingMax exceeds the amount of output that an agent may send without credit.
const pendingMax = agent.WindowBytes + agent.LastBytes

// outlet queues and writes the output of ranks, so that a slow reader of the output does not block
// the goroutine that reads from an agent. The waiting output of a rank is one entry of the queue.
// The memory of the queue is therefore in proportion to the bytes that wait, and to the number of
// ranks, however small the pieces are in which the output arrives.
type outlet struct {
	out  *output
	kind agent.Kind
	done chan struct{} // closed when all output is written after close

	lock    sync.Mutex
	more    sync.Cond
	queue   []said
	open    map[int]int // index of the queue's entry to which output of a rank is added, by rank
	pending map[int]int // bytes not yet written, by rank
	closed  bool
}

// said is an entry of the output queue: output of a rank, a message of btlrun, or the end of a
// rank. A host is set only for output of a rank, and a text only for output and messages.
type said struct {
	rank int
	text []byte
	host *host
}

// newOutlet starts an outlet, whose goroutine ends after close was called and all output was
// written.
func newOutlet(out *output, kind agent.Kind) *outlet {
	o := &outlet{
		out: out, kind: kind, done: make(chan struct{}), open: map[int]int{}, pending: map[int]int{},
	}
	o.more.L = &o.lock
	go o.run()
	return o
}

// add queues output of a rank of a host. The text must not be empty, and belongs to the outlet from
// then on. add returns false if the agent has exceeded its credit.
func (o *outlet) add(rank int, text []byte, h *host) bool {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.pending[rank]+len(text) > pendingMax {
		return false
	}
	o.pending[rank] += len(text)
	if i, ok := o.open[rank]; ok {
		o.queue[i].text = append(o.queue[i].text, text...)
		return true
	}
	o.open[rank] = len(o.queue)
	o.put(said{rank, text, h})
	return true
}

// end queues the end of a rank's output.
func (o *outlet) end(rank int) {
	o.lock.Lock()
	defer o.lock.Unlock()
	delete(o.open, rank)
	o.put(said{rank: rank})
}

// say queues a line that btlrun itself writes. Later output of the ranks comes after the line.
func (o *outlet) say(line string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	clear(o.open)
	o.put(said{text: []byte(line)})
}

// put appends an entry to the queue. The caller of put holds the lock of the outlet.
func (o *outlet) put(s said) {
	o.queue = append(o.queue, s)
	o.more.Signal()
}

// close lets the outlet's goroutine end when all queued output is written.
func (o *outlet) close() {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.closed = true
	o.more.Signal()
}

// The method next waits for queued output and returns all of it. After close, next returns nil as
// soon as the queue is empty.
func (o *outlet) next() []said {
	o.lock.Lock()
	defer o.lock.Unlock()
	for len(o.queue) == 0 && !o.closed {
		o.more.Wait()
	}
	list := o.queue
	o.queue = nil
	clear(o.open)
	return list
}

// run writes the queued output until the outlet is closed and the queue is empty.
func (o *outlet) run() {
	defer close(o.done)
	for list := o.next(); len(list) > 0; list = o.next() {
		for i, s := range list {
			list[i] = said{} // the text is garbage once it is written
			switch {
			case s.host != nil:
				o.out.write(s.rank, s.text)
				o.written(s)
			case s.text != nil:
				o.out.own(s.text)
			default:
				o.out.end(s.rank)
			}
		}
	}
}

// written grants credit for output that has been written.
func (o *outlet) written(s said) {
	o.lock.Lock()
	if o.pending[s.rank] -= len(s.text); o.pending[s.rank] == 0 {
		delete(o.pending, s.rank)
	}
	o.lock.Unlock()
	s.host.credit.owe(s.rank, o.kind, len(s.text)) // pending must shrink first
}

// credits holds the credits that are to be sent to an agent, for each of its ranks. Credits of the
// same rank and kind are added up, so the memory for credits is limited.
type credits struct {
	due  chan struct{} // holds a value if credits are pending
	lock *sync.Mutex
	sums map[creditOf]int
}

type creditOf struct {
	rank int
	kind agent.Kind
}

func newCredits() credits {
	return credits{
		due: make(chan struct{}, 1), lock: new(sync.Mutex), sums: map[creditOf]int{},
	}
}

// owe adds a pending credit of n bytes.
func (c *credits) owe(rank int, kind agent.Kind, n int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.sums[creditOf{rank, kind}] += n
	select {
	case c.due <- struct{}{}:
	default: // A value is already there.
	}
}

// take calls put with a frame for each stored credit, and clears the credits.
func (c *credits) take(put func(agent.Frame)) {
	c.lock.Lock()
	sums := c.sums
	c.sums = map[creditOf]int{}
	c.lock.Unlock()
	for of, n := range sums {
		put(agent.CreditFrame(of.rank, of.kind, n))
	}
}
