//go:build unix

package job

import (
	"sync"

	"gobtl/cmd/btlrun/agent"
)

// pendingMax bounds the queued output of a rank of one kind, in bytes. It exceeds the amount that
// an agent may send without credit.
const pendingMax = agent.WindowBytes + agent.LastBytes

// outlet writes the output of ranks as fast as its reader accepts it, without blocking the reader
// of an agent.
type outlet struct {
	out  *output
	kind agent.Kind
	done chan struct{} // closed when all is written, after close

	lock    sync.Mutex
	more    sync.Cond
	queue   []said
	pending map[int]int // bytes that are not written yet, by rank
	closed  bool
}

// said is a piece of output, of a rank of a host; without one it is a rank's end, or btlrun's own.
type said struct {
	rank int
	text []byte
	host *host
}

// newOutlet starts an outlet, which ends after close.
func newOutlet(out *output, kind agent.Kind) *outlet {
	o := &outlet{out: out, kind: kind, done: make(chan struct{}), pending: map[int]int{}}
	o.more.L = &o.lock
	go o.run()
	return o
}

// add queues output of a rank of a host. It reports false if the agent has exceeded its credit.
func (o *outlet) add(rank int, text []byte, h *host) bool {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.pending[rank]+len(text) > pendingMax {
		return false
	}
	o.pending[rank] += len(text)
	o.put(said{rank, text, h})
	return true
}

// end tells that a rank writes no more.
func (o *outlet) end(rank int) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.put(said{rank: rank})
}

// say takes a line of btlrun's own.
func (o *outlet) say(line string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.put(said{text: []byte(line)})
}

// put puts something into the queue. The lock is held.
func (o *outlet) put(s said) {
	o.queue = append(o.queue, s)
	o.more.Signal()
}

// close lets the outlet end when all is written.
func (o *outlet) close() {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.closed = true
	o.more.Signal()
}

// next returns all queued output, and nil at the end.
func (o *outlet) next() []said {
	o.lock.Lock()
	defer o.lock.Unlock()
	for len(o.queue) == 0 && !o.closed {
		o.more.Wait()
	}
	list := o.queue
	o.queue = nil
	return list
}

// run writes until the end.
func (o *outlet) run() {
	defer close(o.done)
	for list := o.next(); len(list) > 0; list = o.next() {
		for _, s := range list {
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

// written gives credit for a piece.
func (o *outlet) written(s said) {
	o.lock.Lock()
	if o.pending[s.rank] -= len(s.text); o.pending[s.rank] == 0 {
		delete(o.pending, s.rank)
	}
	o.lock.Unlock()
	s.host.credit.owe(s.rank, o.kind, len(s.text)) // Not before: it is for what comes next.
}

// credits are the pending credits for the ranks of an agent. They are kept as sums, so that they
// never wait for room in a queue.
type credits struct {
	due  chan struct{} // has one if there are some
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

// owe adds credit of so many bytes.
func (c *credits) owe(rank int, kind agent.Kind, n int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.sums[creditOf{rank, kind}] += n
	select {
	case c.due <- struct{}{}:
	default: // It is known.
	}
}

// take gives away all that there is.
func (c *credits) take(put func(agent.Frame)) {
	c.lock.Lock()
	sums := c.sums
	c.sums = map[creditOf]int{}
	c.lock.Unlock()
	for of, n := range sums {
		put(agent.CreditFrame(of.rank, of.kind, n))
	}
}
