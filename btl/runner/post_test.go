package runner

import (
	"maps"
	"slices"
	"testing"

	"gobtl/btl"
)

// leaves reports whether the limits allow a post, which is left behind.
func leaves(r *Runner, ep *btl.Endpoint, data []byte) bool {
	c := r.newCall(callPost)
	c.ep, c.tag, c.data = ep, 3, data
	if c.leaveBehind() {
		return true
	}
	c.recycle()
	return false
}

// While nobody drives, and while no peer receives, the endpoints of one host hold a bounded number
// of posts together, in the inbox and behind it. The endpoint of another host can leave as many
// posts as ever.
func TestPostsOfOneHost(t *testing.T) {
	for _, taken := range []bool{false, true} {
		const bads = 12
		rs := openRunners(t, bads+2, func(_ int, m *btl.Module) {
			mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
		})
		r := rs[0]
		eps := make([]*btl.Endpoint, bads+1)
		for i := range eps {
			eps[i] = connectTo(t, r, rs[1+i])
		}
		good, data := eps[bads], make([]byte, 512)
		hostsOf(t, r, good)
		r.turn.token.Lock() // so that nobody drives
		for _, ep := range eps {
			if !leaves(r, ep, data) {
				t.Fatal("the first post is refused")
			}
		}
		r.hooks.Enter(r.now())
		r.takeInbox()
		posts := 0
		for more := true; more; {
			more = false
			for _, ep := range eps[:bads] {
				for leaves(r, ep, data) {
					more = true
					posts++
				}
			}
			if !taken {
				break
			}
			r.takeInbox()
		}
		waiting, others := r.refused.count+int(r.inbox.count.Load()), 0
		for leaves(r, good, data) {
			others++
		}
		r.release()
		if waiting > postsAllMax+bads || others < postsMax-1 {
			t.Errorf("taken %v: %d posts of %d endpoints of one host wait, at most %d; another host has "+
				"room for %d", taken, waiting, bads, postsAllMax+bads, others)
		}
		for _, ep := range eps {
			if err := r.Flush(t.Context(), ep); err != nil {
				t.Fatal(err)
			}
		}
		wantNoPosts(t, r, eps)
	}
}

// hostsOf makes all endpoints except one belong to the same host.
func hostsOf(t *testing.T, r *Runner, good *btl.Endpoint) {
	t.Helper()
	err := r.Do(t.Context(), func(*btl.Module) error {
		r.posts.hostOf = func(ep *btl.Endpoint) string {
			if ep == good {
				return "good"
			}
			return "bad"
		}
		eps := slices.Collect(maps.Keys(r.posts.of))
		clear(r.posts.of)
		clear(r.posts.hosts)
		for _, ep := range eps {
			r.posts.know(ep)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoPosts checks that no posts are counted, and that ended endpoints leave no state.
func wantNoPosts(t *testing.T, r *Runner, eps []*btl.Endpoint) {
	t.Helper()
	check := func(what string, ok func(p *posts) bool) {
		t.Helper()
		p := &r.posts
		p.mu.Lock()
		defer p.mu.Unlock()
		if !ok(p) {
			t.Errorf("%s: %+v of all, %d endpoints, %d hosts", what, p.all, len(p.of), len(p.hosts))
		}
	}
	check("all is sent", func(p *posts) bool {
		for _, h := range p.hosts {
			if h.postCount != (postCount{}) {
				return false
			}
		}
		return p.all == postCount{} && p.strange.postCount == postCount{}
	})
	err := r.Do(t.Context(), func(*btl.Module) error {
		for _, ep := range eps {
			ep.Abort()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range eps { // a post to an endpoint that has ended ends, and leaves nothing
		r.turn.token.Lock()
		leaves(r, ep, nil)
		r.hooks.Enter(r.now())
		r.takeInbox()
		r.release()
	}
	eventually(t, "the endpoints to be forgotten", func() bool {
		r.posts.mu.Lock()
		defer r.posts.mu.Unlock()
		return len(r.posts.of) == 0 && len(r.posts.hosts) == 0
	})
	check("all have ended", func(p *posts) bool { return p.all == postCount{} })
}

// A host may use half of what is left beyond the limit. A new endpoint, whose host is not known
// yet, may use nothing beyond the limit, except one small post.
func TestPostsShares(t *testing.T) {
	at := map[*btl.Endpoint]string{}
	p := posts{hostOf: func(ep *btl.Endpoint) string { return at[ep] }}
	fill := func(host string, endpoints, bytes int) (posts, sum int) {
		for range endpoints {
			ep := new(btl.Endpoint)
			at[ep] = host
			for p.add(ep, bytes) {
				p.learn()
				posts++
				sum += bytes
			}
		}
		return posts, sum
	}
	const many = 20
	for i, host := range []string{"first", "second", "third"} {
		want := postsAllMax >> i
		if n, _ := fill(host, many, 16); n < want-3*many || n > want+3*many {
			t.Errorf("the %s host has %d posts, want about %d", host, n, want)
		}
	}
	p = posts{hostOf: p.hostOf}
	if !p.add(new(btl.Endpoint), 100<<20) {
		t.Error("the only post of all is refused because of its size")
	}
	p = posts{hostOf: p.hostOf}
	const large = 64 << 10
	if _, sum := fill("first", many, large); sum != postsAllBytesMax {
		t.Errorf("the first host has %d bytes, want %d", sum, postsAllBytesMax)
	}
	for range many { // new endpoints of the first host
		if n, _ := fill("first", 1, postsFreeBytes); n != 1 {
			t.Errorf("an endpoint without posts has %d small ones", n)
		}
		if n, _ := fill("first", 1, postsFreeBytes+1); n != 0 {
			t.Errorf("an endpoint without posts has %d large ones", n)
		}
	}
	second := new(btl.Endpoint)
	at[second] = "second"
	if !p.add(second, 1) || p.add(second, large) {
		t.Error("a new endpoint does not have one small post")
	}
	p.learn()
	sum := 0
	for p.add(second, large) {
		sum += large
	}
	if sum < postsBytesMax-large {
		t.Errorf("an endpoint of the second host has %d bytes", sum)
	}
}
