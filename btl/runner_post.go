package btl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// SendBuffered sends a copy of data and does not wait for the peer (MPI's buffered send): it
// returns when the transport has taken the message over, which takes long only while there are no
// resources for it, or while the peer has not taken what was sent to it before. Whether it arrived
// is told by Flush. A handler may call it, and gets ErrAgain where another caller would wait.
func (r *Runner) SendBuffered(ctx context.Context, ep *Endpoint, tag Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	if tag > TagMax {
		return ErrTag
	}
	if most := r.m.cfg.FragmentBytesMax; uint64(len(data)) > uint64(most) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), most)
	}
	if err := endOf(ctx); err != nil {
		return err
	}
	c := r.newCall(callPost)
	c.ep, c.tag, c.data = ep, tag, data
	if r.token.TryLock() {
		r.m.at(r.now())
		r.offer(c)
		return r.await(ctx, c, true)
	}
	if r.leaveBehind(c) {
		r.nudge()
		return nil
	}
	err := r.run(ctx, c)
	if errors.Is(err, ErrInHandler) {
		return ErrAgain
	}
	return err
}

// Posts are messages that nobody waits for: copies, in the inbox or among the refused calls. So
// many there may be for one peer, however long it stands still, and in the inbox; beyond that
// SendBuffered waits.
const (
	postsMax      = 1024
	postsBytesMax = 4 << 20 // but one may be larger
)

// posts counts an endpoint's posts. Any goroutine adds some; who drives takes them away.
type posts struct {
	count atomic.Int32
	bytes atomic.Int64
}

// add counts one more, unless there are too many.
func (p *posts) add(bytes int) bool {
	n, sum := p.count.Add(1), p.bytes.Add(int64(bytes))
	if n > postsMax || n > 1 && sum > postsBytesMax {
		p.done(bytes)
		return false
	}
	return true
}

func (p *posts) done(bytes int) {
	p.count.Add(-1)
	p.bytes.Add(-int64(bytes))
}

// leaveBehind puts a post into the inbox, with a copy of its data. It returns false if there are
// too many.
func (r *Runner) leaveBehind(c *call) bool {
	data := c.data
	if !c.ep.posts.add(len(data)) {
		return false
	}
	c.own = append(c.own[:0], data...)
	c.data, c.left = c.own, true
	c.state.Store(callAbandoned)
	if r.inbox.push(c, postsMax) {
		return true
	}
	c.ep.posts.done(len(data))
	c.data, c.left = data, false
	c.state.Store(callRunning)
	return false
}
