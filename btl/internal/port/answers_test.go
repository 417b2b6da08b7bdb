package port

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// TestRetryAt checks that a batch that the fabric does not take is tried at once for a while, and
// then with pauses. A new packet is tried at once. The flows are told when the fabric takes packets
// again.
func TestRetryAt(t *testing.T) {
	p := open(t)
	c, fake := &p.Data, &fullFor{full: []fabric.Addr{1}}
	fill(c, fake, true)
	now := Time(time.Second)
	want := func(about string, at Time) {
		t.Helper()
		if got := p.RetryAt(now); got != at || p.Paused(now) != (at > now && at != mono.Never) {
			t.Errorf("%s: in %v, want %v; paused %v", about, got.Sub(now), at.Sub(now), p.Paused(now))
		}
	}
	want("nothing waits", mono.Never)
	c.Put(0, 8, 1)
	want("not tried", now)
	p.Post(now)
	want("stuck at once", now)
	now = now.Add(4 * time.Millisecond)
	p.Post(now)
	want("stuck for 4 ms", now.Add(500*time.Microsecond))
	now = now.Add(time.Second)
	p.Post(now)
	want("stuck for a second", now.Add(time.Millisecond))
	c.Put(1, 8, 1)
	want("a new packet", now)
	p.Post(now)
	want("a new packet that is stuck", now.Add(time.Millisecond))
	if !p.Settled() || p.Unstuck() {
		t.Error("unstuck, and nothing was taken")
	}
	fake.full = nil
	p.Post(now)
	want("all taken", mono.Never)
	if p.Settled() || !p.Unstuck() || p.Unstuck() {
		t.Error("not told once that the fabric takes packets again")
	}
}

// fullBuffer is an endpoint that tells the use of its send buffer.
type fullBuffer struct {
	fabric.Endpoint
	used, asked int
}

func (e *fullBuffer) Backlog() (usedBytes, sizeBytes int) {
	e.asked++
	return e.used, 1000
}

// An answer to an unproven address may leave while at most a quarter of the send buffer is in use,
// and behind that once in a pause. The provider is asked once in a pass.
func TestMayAnswer(t *testing.T) {
	p := open(t)
	c, now := &p.Data, Time(time.Second)
	if !c.MayAnswer(now) {
		t.Error("no answer over a provider that does not know its send buffer")
	}
	e := &fullBuffer{used: 250}
	c.Interpose(func(under fabric.Endpoint) fabric.Endpoint {
		e.Endpoint = under
		return e
	})
	for range 100 {
		if !c.MayAnswer(now) {
			t.Fatal("no answer with a quarter in use")
		}
	}
	e.used = 251
	if !c.MayAnswer(now) || e.asked != 1 {
		t.Errorf("asked %d times in a pass", e.asked)
	}
	told := 0
	for range 3000 { // 3 s
		now = now.Add(time.Millisecond)
		for range 10 {
			if c.MayAnswer(now) {
				told++
			}
		}
	}
	if told != 60 {
		t.Errorf("%d answers in 3 s with more than a quarter in use, want 60", told)
	}
	e.used = 0
	now = now.Add(1)
	for range 2 { // in one pass
		if !c.MayAnswer(now) {
			t.Error("no answer, and the buffer is empty again")
		}
	}
}
