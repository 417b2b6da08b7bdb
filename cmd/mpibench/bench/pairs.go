package bench

import (
	"context"
	"errors"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"gobtl/mpi"
)

// The constants below are the tags of messages and of replies.
const (
	tagMessage = 1
	tagAnswer  = 2
	tagThreads = 16 // the first of the threads' tags
)

// pingPong sends messages back and forth between ranks 0 and 1.
type pingPong struct {
	t       *trial
	out, in []byte
	tag     int
	round   int
	hist    *hdrhistogram.Histogram
	// from and to are the layouts of strided messages, and nil in other tests.
	from, to *mpi.Layout[byte]
}

// stridedBytes is the size in bytes of the blocks in the test vector_latency. The gaps between the
// blocks are as large as the blocks.
const stridedBytes = 256

// vectorLatency measures the latency of messages whose bytes are every second block of a memory
// area.
func vectorLatency(t *trial) func(context.Context, int) error {
	p := t.newPingPong(tagMessage, t.hist)
	block := max(1, min(stridedBytes, t.size))
	count := t.size / block
	p.out, p.in = make([]byte, count*block), make([]byte, count*block)
	for _, l := range []**mpi.Layout[byte]{&p.from, &p.to} {
		var err error
		if *l, err = mpi.Strided(make([]byte, 2*count*block), count, block, 2*block); err != nil {
			return func(context.Context, int) error { return err }
		}
	}
	return p.run
}

// send sends a message.
func (p *pingPong) send(ctx context.Context, other int) error {
	if p.from != nil {
		return p.from.Send(ctx, p.t.c, other, p.tag)
	}
	return mpi.Send(ctx, p.t.c, p.out, other, p.tag)
}

// recv receives a message.
func (p *pingPong) recv(ctx context.Context, other int) (err error) {
	if p.to != nil {
		_, err = p.to.Recv(ctx, p.t.c, other, p.tag)
	} else {
		_, err = mpi.Recv(ctx, p.t.c, p.in, other, p.tag)
	}
	return err
}

// fill writes the content of a message.
func (p *pingPong) fill(seed int) {
	fill(p.out, seed)
	if p.from != nil {
		p.from.Unpack(p.out)
	}
}

// check returns an error if a message does not have the content that fill writes.
func (p *pingPong) check(seed int) error {
	if p.to != nil {
		p.to.Pack(p.in)
	}
	return check(p.in, seed)
}

func (t *trial) newPingPong(tag int, hist *hdrhistogram.Histogram) *pingPong {
	return &pingPong{
		t: t, out: make([]byte, t.size), in: make([]byte, t.size), tag: tag, hist: hist,
	}
}

// run does n round trips. A round trip of a ping-pong begins as soon as the previous one has ended.
// The time of a round trip is recorded during the next one, so that recording is not measured.
func (p *pingPong) run(ctx context.Context, n int) error {
	t := p.t
	me, other := t.c.Rank(), 1-t.c.Rank()
	begin, took := t.now(), int64(-1)
	for range n {
		p.round++
		if t.Verify {
			p.fill(2*p.round + me)
			begin = t.now()
		}
		if me == 0 {
			if err := p.send(ctx, other); err != nil {
				return err
			}
			t.record(p.hist, took)
		}
		if err := p.recv(ctx, other); err != nil {
			return err
		}
		if me != 0 {
			if err := p.send(ctx, other); err != nil {
				return err
			}
		} else {
			end := t.now()
			begin, took = end, end-begin
		}
		if t.Verify {
			t.look(p.check(2*p.round + other))
		}
	}
	if me == 0 {
		t.record(p.hist, took)
	}
	return nil
}

func latency(t *trial) func(context.Context, int) error {
	return t.newPingPong(tagMessage, t.hist).run
}

// latencyThreads measures the latency of several goroutines at once. Each goroutine has its own tag
// and an equal part of the n round trips.
func latencyThreads(t *trial) func(context.Context, int) error {
	all := make([]*pingPong, t.Threads)
	for i := range all {
		all[i] = t.newPingPong(tagThreads+i, newHist())
	}
	return func(ctx context.Context, n int) error {
		errs := make([]error, len(all))
		var group sync.WaitGroup
		for i, p := range all {
			p.hist.Reset()
			group.Go(func() { errs[i] = p.run(ctx, (n+len(all)-1)/len(all)) })
		}
		group.Wait()
		for _, p := range all {
			t.hist.Merge(p.hist)
		}
		return errors.Join(errs...)
	}
}

// The type flow sends messages between two ranks in windows, which are groups of messages in flight
// at the same time.
type flow struct {
	t         *trial
	peer      int
	out, in   [][]byte // messages of a window; nil: none in this direction
	requests  []*mpi.Request
	answer    [1]byte
	iteration int
}

// newFlow prepares windows of messages. All messages share one buffer, as in the OSU benchmarks,
// unless their content is verified.
func (t *trial) newFlow(peer int, sends, receives bool) *flow {
	f := &flow{t: t, peer: peer}
	window := func() [][]byte {
		all, one := make([][]byte, t.window()), make([]byte, t.size)
		for i := range all {
			if all[i] = one; t.Verify {
				all[i] = make([]byte, t.size)
			}
			f.requests = append(f.requests, new(mpi.Request))
		}
		return all
	}
	if receives {
		f.in = window()
	}
	if sends {
		f.out = window()
	}
	return f
}

// seed returns the seed of the content of message i from a rank.
func (f *flow) seed(rank, i int) int { return f.iteration*7 + rank*3 + i }

// window sends and receives one window of messages. The receives are started before the sends.
func (f *flow) window(ctx context.Context) error {
	t := f.t
	for i, b := range f.in {
		if err := mpi.Irecv(f.requests[i], t.c, b, f.peer, tagMessage); err != nil {
			return err
		}
	}
	for i, b := range f.out {
		if err := mpi.Isend(f.requests[len(f.in)+i], t.c, b, f.peer, tagMessage); err != nil {
			return err
		}
	}
	return mpi.WaitAll(ctx, nil, f.requests...)
}

// fill writes the content of the messages of the next window.
func (f *flow) fill() {
	f.iteration++
	if f.t.Verify {
		for i, b := range f.out {
			fill(b, f.seed(f.t.c.Rank(), i))
		}
	}
}

// check verifies the data of the received messages.
func (f *flow) check() {
	if f.t.Verify {
		for i, b := range f.in {
			f.t.look(check(b, f.seed(f.peer, i)))
		}
	}
}

// oneWay makes each rank of the lower half send to a rank of the upper half.
func oneWay(t *trial) func(context.Context, int) error {
	half := t.c.Size() / 2
	sends := t.c.Rank() < half
	peer := (t.c.Rank() + half) % (2 * half)
	f := t.newFlow(peer, sends, !sends)
	return func(ctx context.Context, n int) error {
		for range n {
			f.fill()
			begin := t.now()
			if err := f.window(ctx); err != nil {
				return err
			}
			if !sends {
				f.check()
				if err := mpi.Send(ctx, t.c, f.answer[:], peer, tagAnswer); err != nil {
					return err
				}
				continue
			}
			if _, err := mpi.Recv(ctx, t.c, f.answer[:], peer, tagAnswer); err != nil {
				return err
			}
			t.record(t.hist, t.now()-begin)
		}
		return nil
	}
}

// bothWays makes two ranks send to each other at the same time.
func bothWays(t *trial) func(context.Context, int) error {
	f := t.newFlow(1-t.c.Rank(), true, true)
	return func(ctx context.Context, n int) error {
		for range n {
			f.fill()
			begin := t.now()
			if err := f.window(ctx); err != nil {
				return err
			}
			if t.c.Rank() == 0 {
				t.record(t.hist, t.now()-begin)
			}
			f.check()
		}
		return nil
	}
}
