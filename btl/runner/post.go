package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gobtl/btl"
)

// SendBuffered sends a copy of data without waiting for the peer, like MPI's buffered send.
// SendBuffered returns when the Runner or the transport has accepted the message, and a later Flush
// reports whether the message has arrived. SendBuffered waits if no send buffers are free, or if
// too many earlier messages to the peer are queued. Inside a callback, SendBuffered returns
// ErrAgain instead of waiting.
func (r *Runner) SendBuffered(ctx context.Context, ep *btl.Endpoint, tag btl.Tag,
	data []byte,
) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	if tag > btl.TagMax {
		return btl.ErrTag
	}
	if most := r.limits.FragmentBytesMax; len(data) > most {
		return fmt.Errorf("%w: %d bytes, at most %d", btl.ErrTooLarge, len(data), most)
	}
	if err := endOf(ctx); err != nil {
		return err
	}
	c := r.newCall(callPost)
	c.ep, c.tag, c.data = ep, tag, data
	if r.token.TryLock() {
		r.hooks.Enter(r.now())
		r.offer(c)
		return r.await(ctx, c, true)
	}
	if r.leaveBehind(c) {
		r.nudge()
		return nil
	}
	err := r.run(ctx, c)
	if errors.Is(err, ErrInHandler) {
		return btl.ErrAgain
	}
	return err
}

// A post is a copied message for which no goroutine waits. The constants postsMax and postsBytesMax
// limit the posts of one endpoint. postsMax is, in addition, the maximum length of the inbox (the
// queue of calls). If postsMax or postsBytesMax is reached, SendBuffered waits.
const (
	postsMax      = 1024
	postsBytesMax = 4 << 20 // a single post may be larger
)

// The type "posts" counts the posts (copied messages for which no goroutine waits) of each
// endpoint.
type posts struct {
	mu sync.Mutex
	of map[*btl.Endpoint]postCount // under mu
}

// postCount is the number of an endpoint's posts (copied messages for which no goroutine waits),
// and the sum of their bytes.
type postCount struct{ count, bytes int }

// The method "add" counts a new post of an endpoint and returns true, or counts nothing and returns
// false if a limit on posts is reached. Any goroutine may call the method "add".
func (p *posts) add(ep *btl.Endpoint, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[ep]
	if n.count >= postsMax || n.count > 0 && n.bytes+bytes > postsBytesMax {
		return false
	}
	if p.of == nil {
		p.of = make(map[*btl.Endpoint]postCount)
	}
	p.of[ep] = postCount{n.count + 1, n.bytes + bytes}
	return true
}

func (p *posts) done(ep *btl.Endpoint, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[ep]
	if n.count == 1 {
		delete(p.of, ep)
		return
	}
	p.of[ep] = postCount{n.count - 1, n.bytes - bytes}
}

// leaveBehind copies the data of a post, puts the post into the inbox (the queue of calls), and
// returns true, or returns false if a limit on posts is reached.
func (r *Runner) leaveBehind(c *call) bool {
	data := c.data
	if !r.posts.add(c.ep, len(data)) {
		return false
	}
	c.own = append(c.own[:0], data...)
	c.data, c.left = c.own, true
	c.state.Store(callAbandoned)
	if r.inbox.push(c, postsMax) {
		return true
	}
	r.posts.done(c.ep, len(data))
	c.data, c.left = data, false
	c.state.Store(callRunning)
	return false
}
