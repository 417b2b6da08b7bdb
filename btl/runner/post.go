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
// reports whether the message has arrived. SendBuffered waits if no send buffers are free, if too
// many earlier messages to the peer are queued, or if too many earlier messages to all peers are
// queued. Inside a callback, SendBuffered returns ErrAgain instead of waiting.
func (r *Runner) SendBuffered(ctx context.Context, ep *btl.Endpoint, tag btl.Tag,
	data []byte,
) error {
	if err := mayPost(r, ep, tag, data); err != nil {
		return err
	}
	if err := endOf(ctx); err != nil {
		return err
	}
	c := r.newCall(callPost)
	c.ep, c.tag, c.data = ep, tag, data
	if r.turn.token.TryLock() {
		r.hooks.Enter(r.now())
		r.offer(c)
		return r.await(ctx, c, true)
	}
	if c.leaveBehind() {
		r.nudge()
		return nil
	}
	err := r.run(ctx, c)
	if errors.Is(err, ErrInHandler) {
		return btl.ErrAgain
	}
	return err
}

// Post sends a copy of data, like SendBuffered, and returns ErrAgain instead of waiting if too many
// earlier messages are queued. Post must be called only in callbacks and in functions given to Do.
// The handler of a peer's first message runs before the peer's EventConnected. Before the peer's
// EventConnected, Post knows the host of the peer, and SendBuffered does not. If the messages to
// other hosts have reached the common limit, SendBuffered accepts only one small message before the
// peer's EventConnected and then returns ErrAgain, whereas Post can accept more messages.
func (r *Runner) Post(ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := mayPost(r, ep, tag, data); err != nil {
		return err
	}
	if ep.Connected() {
		r.posts.know(ep)
	}
	c := r.newCall(callPost)
	c.ep, c.tag, c.data = ep, tag, data
	if !c.leaveBehind() {
		c.recycle()
		return btl.ErrAgain
	}
	r.nudge()
	return nil
}

// The function "mayPost" returns an error if a message can never be sent through the endpoint.
func mayPost(r *Runner, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	if err := r.mine(ep); err != nil {
		return err
	}
	if tag > btl.TagMax {
		return btl.ErrTag
	}
	if most := r.limits.FragmentBytesMax; len(data) > most {
		return fmt.Errorf("%w: %d bytes, at most %d", btl.ErrTooLarge, len(data), most)
	}
	return nil
}

// A post is a copied message for which no goroutine waits. The constants postsMax and postsBytesMax
// limit the posts of one endpoint, and the constants postsAllMax and postsAllBytesMax limit the
// posts of all endpoints together. If a limit is reached, SendBuffered waits. When the posts of all
// endpoints reach a limit, the endpoints of one host may have at most twice the limit minus the
// posts of all endpoints, so that one host with many endpoints cannot exclude other hosts.
//
// The posts of a first host can reach the limit, those of a second host then half of the limit,
// those of a third host a quarter, and so on. All hosts together reach at most twice the limit.
// There are two exceptions. An endpoint without posts may always have one post of at most
// postsFreeBytes. A post may have any size if there is no other post.
const (
	postsMax         = 1024
	postsBytesMax    = 4 << 20 // a single post may be larger
	postsAllMax      = 8 * postsMax
	postsAllBytesMax = 8 * postsBytesMax
	postsFreeBytes   = 4 << 10
)

// The type "posts" counts the posts (copied messages for which no goroutine waits) of each
// endpoint, of each host, and of all endpoints. The method "add" is safe for concurrent use, but
// only the goroutine that owns the module knows the host of an endpoint. The goroutine that owns
// the module calls the method "know" when an endpoint has connected. Before a call of the method
// "know" or "learn", the posts of an endpoint count for the host "strange".
type posts struct {
	hostOf func(*btl.Endpoint) string // Endpoint.PeerHost

	mu        sync.Mutex                // guards the fields below
	of        map[*btl.Endpoint]*poster // endpoints that are connected, or have or have had posts
	hosts     map[string]*postingHost   // hosts of these endpoints, without strange
	all       postCount                 // sum of all posts
	strange   postingHost
	strangers []*btl.Endpoint // endpoints of the host "strange"
}

// postCount is a number of posts, and the sum of their bytes.
type postCount struct{ count, bytes int }

// The type "poster" contains the posts of an endpoint.
type poster struct {
	postCount
	host *postingHost
}

// The type "postingHost" counts the posts of all endpoints of a host. A post is a message that was
// copied and waits for the transport.
type postingHost struct {
	postCount
	name    string
	posters int // number of endpoints
}

func (n *postCount) add(count, bytes int) {
	n.count += count
	n.bytes += bytes
}

// The method "add" counts a new post of an endpoint and returns true, or counts nothing and returns
// false if a limit on posts is reached. The method "add" is safe for concurrent use.
func (p *posts) add(ep *btl.Endpoint, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[ep]
	host, own := &p.strange, postCount{}
	if n != nil {
		host, own = n.host, n.postCount
	}
	if own.count >= postsMax || own.count > 0 && own.bytes+bytes > postsBytesMax ||
		(own.count > 0 || bytes > postsFreeBytes) && !p.mayAdd(host, bytes) {
		return false
	}
	if n == nil {
		n = p.stranger(ep)
		p.strangers = append(p.strangers, ep)
	}
	p.charge(n, 1, bytes)
	return true
}

// The method "stranger" makes the state of an endpoint whose host is not known yet. The caller
// holds mu.
func (p *posts) stranger(ep *btl.Endpoint) *poster {
	if p.of == nil {
		p.of = make(map[*btl.Endpoint]*poster)
	}
	n := &poster{host: &p.strange}
	p.of[ep] = n
	return n
}

// mayAdd reports whether the limits on the posts of all endpoints allow a host one more post.
// Endpoints whose hosts are not known yet may have no posts beyond the limits.
func (p *posts) mayAdd(h *postingHost, bytes int) bool {
	known := h != &p.strange
	return (p.all.count < postsAllMax || known && h.count < 2*postsAllMax-p.all.count) &&
		(p.all.count == 0 || p.all.bytes+bytes <= postsAllBytesMax ||
			known && h.bytes+bytes <= 2*postsAllBytesMax-p.all.bytes)
}

// The method "charge" adds posts, whose number can be negative, to the counts. The caller holds mu.
func (p *posts) charge(n *poster, count, bytes int) {
	n.add(count, bytes)
	n.host.add(count, bytes)
	p.all.add(count, bytes)
}

// The method "know" finds the host of an endpoint, which may have no posts. The method "know" must
// not be called before the endpoint's event EventConnected, because only a later event of the
// endpoint's end frees the state (see the method "lost"). Only the goroutine that drives the module
// may call the method "know".
func (p *posts) know(ep *btl.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[ep]
	if n == nil {
		n = p.stranger(ep)
	}
	p.place(ep, n)
}

// The method "learn" finds the hosts of new endpoints with posts. Only the goroutine that drives
// the module may call the method "learn".
func (p *posts) learn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ep := range p.strangers {
		if n := p.of[ep]; n != nil {
			p.place(ep, n)
		}
	}
	clear(p.strangers)
	p.strangers = p.strangers[:0]
}

// The method "place" finds the host of an endpoint, unless the host is known. The caller must own
// the module, and holds mu.
func (p *posts) place(ep *btl.Endpoint, n *poster) {
	if n.host != &p.strange {
		return
	}
	name := p.hostOf(ep)
	h := p.hosts[name]
	if h == nil {
		if p.hosts == nil {
			p.hosts = make(map[string]*postingHost)
		}
		h = &postingHost{name: name}
		p.hosts[name] = h
	}
	p.strange.add(-n.count, -n.bytes)
	h.add(n.count, n.bytes)
	h.posters++
	n.host = h
}

// The method "done" subtracts a post that has ended. The argument "ended" of the method "done" says
// whether the endpoint has ended. The caller must own the module.
func (p *posts) done(ep *btl.Endpoint, bytes int, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of[ep]
	p.charge(n, -1, -bytes)
	if ended {
		p.forget(ep, n)
	}
}

// The method "lost" frees the state of an endpoint that has ended. The caller must own the module.
func (p *posts) lost(ep *btl.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.of[ep]; n != nil {
		p.forget(ep, n)
	}
}

// The method "forget" frees the state of an endpoint, unless the endpoint has posts. The caller
// holds mu.
func (p *posts) forget(ep *btl.Endpoint, n *poster) {
	if n.count > 0 {
		return
	}
	delete(p.of, ep)
	if h := n.host; h != &p.strange {
		if h.posters--; h.posters == 0 {
			delete(p.hosts, h.name)
		}
	}
}

// leaveBehind copies the data of a post, puts the post into the inbox (the queue of calls), and
// returns true, or returns false if a limit on posts is reached.
func (c *call) leaveBehind() bool {
	if !c.r.posts.add(c.ep, len(c.data)) {
		return false
	}
	c.own = append(c.own[:0], c.data...)
	c.data, c.left = c.own, true
	c.state.Store(callAbandoned)
	c.r.inbox.push(c)
	return true
}
