package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gobtl/btl"
)

// SendBuffered sends a copy of data and does not wait for the peer (like MPI's buffered send).
// SendBuffered returns when the transport has accepted the message. SendBuffered waits if
// resources are missing, or if the peer has not accepted earlier messages. Flush reports whether
// the message arrived. Inside a handler, SendBuffered returns ErrAgain instead of waiting.
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

// A post is a copied message for which no goroutine waits, in the inbox or among the refused
// calls. The two constants bound the posts for one peer, which may be stalled; postsMax also
// bounds the posts in the inbox. Beyond these bounds SendBuffered waits.
const (
	postsMax      = 1024
	postsBytesMax = 4 << 20 // a single post may be larger
)

// posts counts the posts of each endpoint.
type posts struct {
	mu sync.Mutex
	of map[*btl.Endpoint]postCount // under mu
}

// postCount is the number of an endpoint's posts, and the sum of their bytes.
type postCount struct{ count, bytes int }

// add counts one more post of an endpoint. add returns false, and counts nothing, if the endpoint
// has reached its bounds. Any goroutine may call add.
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

// done stops counting a post of an endpoint.
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

// leaveBehind puts a post into the inbox, with a copy of its data. leaveBehind returns false if
// the bounds on posts are reached.
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
