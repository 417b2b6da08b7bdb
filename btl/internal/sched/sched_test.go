package sched

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/list"
)

// queue is a queue of a test, with the bytes that wait in it.
type queue struct {
	flow Flow[*queue]
	left int
	sent int
}

// listed returns the number of listed queues.
func listed(queues []*queue) (n int) {
	for _, q := range queues {
		if q.flow.Listed() {
			n++
		}
	}
	return n
}

// fill makes count listed queues with leftBytes each.
func fill(r *RoundRobin[*queue], count, leftBytes int) []*queue {
	queues := make([]*queue, count)
	for i := range queues {
		q := &queue{left: leftBytes}
		q.flow.Init(q, 0)
		r.Add(&q.flow)
		queues[i] = q
	}
	return queues
}

// turn serves the next queue with packets of packetBytes, and returns the queue.
func turn(r *RoundRobin[*queue], quantumBytes, packetBytes int) *queue {
	f := r.Next()
	q := f.Owner
	f.BeginTurn(quantumBytes)
	for f.Deficit > 0 && q.left > 0 {
		n := min(packetBytes, q.left)
		q.left -= n
		q.sent += n
		f.Charge(n)
	}
	r.EndTurn(f, q.left > 0)
	return q
}

// Queues take turns by bytes, whatever the sizes of their packets, and what a packet exceeds the
// deficit by is charged to the next turn.
func TestTurnsByBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const quantum = 1000
		var r RoundRobin[*queue]
		queues := fill(&r, rapid.IntRange(2, 5).Draw(t, "queues"), 1<<30)
		packets := rapid.SliceOfN(rapid.IntRange(1, 3*quantum), 5, 5).Draw(t, "packets")
		most := slices.Max(packets)
		for range 200 {
			q := r.Next().Owner
			turn(&r, quantum, packets[slices.Index(queues, q)])
			if err := r.Check(listed(queues)); err != nil {
				t.Fatal(err)
			}
		}
		least := slices.MinFunc(queues, func(a, b *queue) int { return a.sent - b.sent }).sent
		largest := slices.MaxFunc(queues, func(a, b *queue) int { return a.sent - b.sent }).sent
		if largest-least > quantum+most {
			t.Errorf("queues have sent %d to %d bytes, in packets of %v", least, largest, packets)
		}
	})
}

// A queue that has not used up its quantum is served before those that have, and after its turn
// behind all others.
func TestFreshFirst(t *testing.T) {
	t.Parallel()
	var r RoundRobin[*queue]
	busy := fill(&r, 2, 1<<20)
	for range busy {
		turn(&r, 1000, 400)
	}
	fresh := &queue{left: 5000}
	fresh.flow.Init(fresh, 1000)
	r.Add(&fresh.flow)
	if r.Fresh() != &fresh.flow || r.Fresh().Next() != nil {
		t.Error("the new queue is not fresh, or not the only one")
	}
	for i, want := range []*queue{fresh, busy[0], busy[1], fresh} {
		if got := turn(&r, 1000, 400); got != want {
			t.Errorf("turn %d went to another queue", i)
		}
	}
	if fresh.sent != 2000 || fresh.flow.Deficit != 0 { // 1200 bytes, then 800
		t.Errorf("%d bytes sent in two turns, deficit %d", fresh.sent, fresh.flow.Deficit)
	}
}

// A queue with nothing to send leaves the lists. Listed queues without a buffer are not ready until
// the next one is added or a buffer is free.
func TestReady(t *testing.T) {
	t.Parallel()
	var r RoundRobin[*queue]
	queues := fill(&r, 3, 100)
	r.SetBlocked(true)
	if r.Waiting() > 0 && !r.Blocked || r.Waiting() != 3 {
		t.Errorf("blocked, but ready: %v, %d wait", r.Waiting() > 0 && !r.Blocked, r.Waiting())
	}
	r.Remove(&queues[1].flow)
	r.Add(&queues[1].flow)
	if r.Waiting() == 0 || r.Blocked {
		t.Error("not ready with a new queue")
	}
	for _, want := range []*queue{queues[0], queues[2], queues[1]} {
		if turn(&r, 1000, 100) != want {
			t.Error("another turn than in the order of listing")
		}
	}
	if r.Waiting() != 0 || r.Next() != nil || queues[0].flow.Listed() {
		t.Error("queues without packets are listed")
	}
}

// Check finds each kind of damage to the lists.
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		damage     func(r *RoundRobin[*queue], queues []*queue)
	}{
		{"listed and not in the list", "3 flows are listed", func(r *RoundRobin[*queue], _ []*queue) {
			r.old = list.List[*Flow[*queue]]{}
		}},
		{"in the list and not listed", "old flows", func(_ *RoundRobin[*queue], q []*queue) {
			q[1].flow.Init(q[1], 0)
		}},
		{"in two lists", "old flows", func(r *RoundRobin[*queue], q []*queue) {
			r.fresh.PushBack(&q[0].flow.at, &q[0].flow)
		}},
		{"count", "counted", func(r *RoundRobin[*queue], _ []*queue) { r.waiting++ }},
	}
	for _, test := range tests {
		var r RoundRobin[*queue]
		queues := fill(&r, 3, 100)
		if err := r.Check(listed(queues)); err != nil {
			t.Fatal(err)
		}
		test.damage(&r, queues)
		if err := r.Check(listed(queues)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// A flow may get ahead of the other by a quantum, and what the small flow was ahead ends with the
// next large fragment.
func TestBalance(t *testing.T) {
	t.Parallel()
	const quantum = 1000
	var b Balance
	b.Init(quantum)
	b.SentSmall(quantum - 1)
	if !b.MaySmall() || b.LargeBytes(quantum) != quantum-1 {
		t.Errorf("%d bytes, %d for large", b.Bytes(), b.LargeBytes(quantum))
	}
	b.SentSmall(300)
	if b.MaySmall() || b.Bytes() != -299 || b.LargeBytes(quantum) != quantum+299 {
		t.Errorf("%d bytes, %d for large", b.Bytes(), b.LargeBytes(quantum))
	}
	b.BeginLarge()
	if b.Bytes() != 0 {
		t.Errorf("%d bytes after a large fragment has begun", b.Bytes())
	}
	b.SentLarge(1500)
	b.BeginLarge()
	if b.Bytes() != 1500 {
		t.Errorf("%d bytes, want those that the large flow has sent", b.Bytes())
	}
	if b.Limit(quantum); b.Bytes() != quantum {
		t.Errorf("%d bytes above the limit", b.Bytes())
	}
}
