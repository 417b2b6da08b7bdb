package btl

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
)

// postFirst and companyMax are the numbers of fragments in the first pack of a burst, and of
// packets in a batch, over a reliable fabric.
const postFirst, companyMax = 16, 8

// newBurst makes a reliable connection whose posts are counted.
func newBurst(t *testing.T) (r *relied, d *moody, ep *Endpoint, got *[]byte) {
	t.Helper()
	d, got = new(moody), new([]byte)
	r = newRelied(t, sim.Config{Seed: 1, MTUBytes: 32 << 10}, relyConfig())
	r.open("z", relyConfig(), func(dom fabric.Domain, _ int) fabric.Domain {
		d.Domain = dom
		return d
	})
	if err := r.mods[0].Handle(1, func(_ *Endpoint, _ Tag, p []byte) {
		*got = append(*got, p[0])
	}); err != nil {
		t.Fatal(err)
	}
	ep = r.connect(1, 0)
	d.posts = nil
	return r, d, ep, got
}

// TestReliablePacks: of a burst of messages that share packets, the first leaves at once,
// unbatched, and of the others, if the peer has said something since the burst before, as many as
// postFirst, then twice as many, before the pass that ends the burst.
func TestReliablePacks(t *testing.T) {
	const count = 1 + postFirst + 2*postFirst + 3
	r, d, ep, got := newBurst(t)
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	back := r.connect(0, 1)
	for _, heard := range []bool{true, true, false, true} {
		if heard {
			var end error
			r.send(back, 1, 8, &end)
			if r.run(time.Millisecond); end != nil {
				t.Fatal(end)
			}
		}
		d.posts, *got = nil, nil
		want := ""
		for i := range byte(count) {
			want += string(' ' + i)
			if i%2 == 0 {
				if err := ep.SendImmediate(ep.Now(), 1, []byte{' ' + i}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			f, err := ep.Prepare(1, []byte{' ' + i})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ep.Send(ep.Now(), f); err != nil {
				t.Fatal(err)
			}
		}
		early := 1
		if heard {
			early = 3
		}
		if len(d.posts) != early {
			t.Errorf("heard %v: posts of %d packets before the pass, want %d", heard, d.posts, early)
		}
		r.run(time.Millisecond)
		if string(*got) != want {
			t.Errorf("%q came, want %q", *got, want)
		}
		if posts := len(d.posts); posts <= early {
			t.Errorf("posts of %d packets, the last messages did not leave", d.posts)
		}
	}
}

// TestReliableBurst: of messages that are too large to share a packet, the first of a burst leaves
// at once, unbatched. Those behind it leave some at a time, the last of them with the next pass,
// and in their order.
func TestReliableBurst(t *testing.T) {
	const size, behind = 6 << 10, companyMax + 2
	r, d, ep, got := newBurst(t)
	now := ep.Now()
	for i := range byte(1 + behind) {
		data := make([]byte, size)
		data[0] = 'a' + i
		if i%2 == 0 {
			if err := ep.SendImmediate(now, 1, data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		f, err := ep.Prepare(1, data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ep.Send(now, f); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.posts) != 2 || d.posts[0] != 1 || d.posts[1] != companyMax {
		t.Errorf("posts of %d packets before the pass, want 1 and %d", d.posts, companyMax)
	}
	r.run(time.Millisecond)
	if len(d.posts) < 3 || d.posts[2] != behind-companyMax {
		t.Errorf("posts of %d packets, want %d in the third", d.posts, behind-companyMax)
	}
	if want := "abcdefghijk"[:1+behind]; string(*got) != want {
		t.Errorf("%q arrived, want %q", *got, want)
	}
}

// TestReliableLent: memory that the fabric reads where it lies is its owner's again as soon as the
// message has been there, not after the delay of an ACK.
func TestReliableLent(t *testing.T) {
	r, _, ep, _ := newBurst(t)
	for range 2 { // the second is no news to a peer that confirms now and then
		ended := errNotEnded
		r.send(ep, 1, 16<<10, &ended)
		if r.run(r.mods[0].Config().Rules.AckDelay / 2); ended != nil {
			t.Errorf("a message of 16 KiB is not confirmed at once: %v", ended)
		}
		r.run(time.Millisecond)
	}
}
