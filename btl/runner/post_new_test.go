package runner

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// crowd is a Runner with endpoints of one host, to which nothing is sent as long as the Runner is
// held in a callback.
type crowd struct {
	*Runner
	host string // host of the endpoints that connect from now on
	eps  []*btl.Endpoint
}

// openCrowd connects the first Runner to all others except the last one.
func openCrowd(t *testing.T, rs []*Runner) *crowd {
	t.Helper()
	c := &crowd{Runner: rs[0], host: "crowd"}
	c.do(t, func() { c.posts.hostOf = func(*btl.Endpoint) string { return c.host } })
	for _, r := range rs[1 : len(rs)-1] {
		c.eps = append(c.eps, connectTo(t, c.Runner, r))
	}
	c.do(t, func() { c.host = "other" })
	return c
}

func (c *crowd) do(t *testing.T, fn func()) {
	t.Helper()
	if err := c.Do(t.Context(), func(*btl.Module) error { fn(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// fill posts to the endpoints in a callback, until the limit on all posts is reached.
func (c *crowd) fill(t *testing.T) {
	t.Helper()
	for _, ep := range c.eps {
		for {
			err := c.SendBuffered(t.Context(), ep, 3, nil)
			if errors.Is(err, btl.ErrAgain) {
				break
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
	c.posts.mu.Lock()
	defer c.posts.mu.Unlock()
	if c.posts.all.count < postsAllMax {
		t.Errorf("%d posts do not reach the limit", c.posts.all.count)
	}
}

// crowded is the number of endpoints that reach the limit on all posts.
const crowded = postsAllMax/postsMax + 1

// The posts to one host have reached the limit. An endpoint of another host, which has had no
// posts, gets its share at once: large posts, and more than one.
func TestPostsOfNewEndpoint(t *testing.T) {
	rs := openRunners(t, crowded+2, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	c := openCrowd(t, rs)
	other := connectTo(t, c.Runner, rs[crowded+1])
	c.do(t, func() {
		c.fill(t)
		for i := range 3 {
			if err := c.SendBuffered(t.Context(), other, 3, make([]byte, 2*postsFreeBytes)); err != nil {
				t.Errorf("post %d of a host without posts: %v", i, err)
			}
		}
	})
	wantForgotten(t, append(c.eps, other), c.Runner)
}

// The handler of a peer's first message runs before the event of its connection, and can post there
// as many messages as later.
func TestPostInFirstHandler(t *testing.T) {
	var c *crowd
	told := make(chan *btl.Endpoint, 1)
	rs := openRunners(t, crowded+2, func(i int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
		if i > 0 {
			return
		}
		mustHandleTag(t, m, 4, func(ep *btl.Endpoint, _ btl.Tag, _ []byte) {
			c.fill(t)
			posts := 0
			for ; posts < 2*postsMax && c.Post(ep, 3, nil) == nil; posts++ {
			}
			if posts != postsMax {
				t.Errorf("%d posts in the handler of the first message, want %d", posts, postsMax)
			}
			if err := c.Post(ep, 3, nil); !errors.Is(err, btl.ErrAgain) {
				t.Errorf("beyond the limit: %v", err)
			}
			told <- ep
		})
	})
	c = openCrowd(t, rs)
	firstMessage(t, rs[crowded+1], c.Runner, 4)
	wantForgotten(t, append(c.eps, <-told), c.Runner)
}

// firstMessage sends a message as early as a connection allows.
func firstMessage(t *testing.T, from, to *Runner, tag btl.Tag) {
	t.Helper()
	var name []byte
	look := func(m *btl.Module) error { name = m.Name(); return nil }
	if err := to.Do(t.Context(), look); err != nil {
		t.Fatal(err)
	}
	err := from.Do(t.Context(), func(m *btl.Module) error {
		ep, err := m.Connect(m.Now(), name)
		if err != nil {
			return err
		}
		f, err := ep.Alloc(tag, 0)
		if err != nil {
			return err
		}
		_, err = ep.Send(m.Now(), f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantForgotten ends the endpoints when their posts are sent, and waits until nothing is left of
// them.
func wantForgotten(t *testing.T, eps []*btl.Endpoint, r *Runner) {
	t.Helper()
	for _, ep := range eps {
		if err := r.Flush(t.Context(), ep); err != nil {
			t.Error(err)
		}
	}
	err := r.Do(t.Context(), func(*btl.Module) error {
		for _, ep := range eps {
			ep.Abort()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the endpoints to be forgotten", func() bool {
		r.posts.mu.Lock()
		defer r.posts.mu.Unlock()
		return len(r.posts.of) == 0 && len(r.posts.hosts) == 0 && r.posts.all == postCount{}
	})
}

// A refused Post to an endpoint that has ended leaves nothing.
func TestPostToEndedEndpoint(t *testing.T) {
	rs := openRunners(t, crowded+2, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	c := openCrowd(t, rs)
	ended := connectTo(t, c.Runner, rs[crowded+1])
	c.do(t, ended.Abort)
	eventually(t, "the endpoint to be forgotten", func() bool {
		c.posts.mu.Lock()
		defer c.posts.mu.Unlock()
		return len(c.posts.of) == crowded
	})
	c.do(t, func() {
		c.fill(t)
		if err := c.Post(ended, 3, make([]byte, 2*postsFreeBytes)); !errors.Is(err, btl.ErrAgain) {
			t.Errorf("a large post beyond the limit, to an endpoint that has ended: %v", err)
		}
	})
	wantForgotten(t, c.eps, c.Runner)
}

// Nothing is left of an endpoint that has ended, whether it has had posts or not.
func TestPostsOfEndedEndpoints(t *testing.T) {
	for _, posted := range []bool{false, true} {
		rs, ep := pair(t, func(_ int, m *btl.Module) {
			mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
		})
		if posted {
			if err := rs[0].SendBuffered(t.Context(), ep, 3, nil); err != nil {
				t.Error(err)
			}
		}
		wantForgotten(t, []*btl.Endpoint{ep}, rs[0])
	}
}
