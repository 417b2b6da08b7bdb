package matching

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"gobtl/btl"
	"gobtl/internal/testenv"
	"gobtl/pml"
)

// idLost is an id for which nobody has a handler; those below have one.
const idLost = 3

// call is an active message that a handler has kept, or that was announced.
type call struct {
	m *pml.Message
	n note
}

// activeCounts are what has become of active messages, so that a test knows that all has happened.
type activeCounts struct {
	eager, announced, kept, received, dropped, replied, lost int
}

// headerOf is the header of the number-th message from a rank to another one.
func headerOf(from, to, number int) []byte {
	return content(from, to, 1<<20+number, number*7%90)
}

// handle sets the handlers of a rank.
func (r *rank) handle() {
	for id := range uint16(idLost) {
		r.l.HandleActive(id, r.onCall)
	}
}

// sendActive begins to send an active message.
func (r *rank) sendActive(peer int) {
	w := r.world
	to := &w.sent[r.index][peer]
	number := len(*to)
	o := &op{to: peer, from: -1, header: headerOf(r.index, peer, number)}
	o.want = content(r.index, peer, number, w.random.IntN([]int{120, 5000}[w.random.IntN(2)]))
	o.mem = bytes.Clone(o.want)
	o.r.OnDone = func(*pml.Request) { r.sendDone(o) }
	id := w.random.IntN(idLost + 1)
	o.lost, o.mode = id == idLost, pml.Mode(w.random.IntN(modes))
	r.ops = append(r.ops, o)
	*to = append(*to, note{tag: uint64(id), size: len(o.want), active: true})
	err := r.l.SendActive(w.Now(), &o.r, r.peers[peer], uint16(id), o.header, o.mem, o.mode)
	if err != nil {
		*to = (*to)[:len(*to)-1]
		r.notSent(o, err)
	}
}

// skipLost counts what has come from a rank, or will, and no handler sees.
func (r *rank) skipLost(from int) {
	for sent := r.world.sent[from][r.index]; ; r.model.count[from]++ {
		k := r.model.count[from]
		if k >= len(sent) || !sent[k].active || sent[k].tag != idLost {
			return
		}
		r.world.counts.lost++
	}
}

// onCall is the handler of all ids.
func (r *rank) onCall(now btl.Time, m *pml.Message) {
	w, from := r.world, m.Peer().Context.(int)
	r.skipLost(from)
	sent, k := w.sent[from][r.index], r.model.count[from]
	n := note{
		from: from, number: k, tag: m.Tag(), size: int(m.Size()), eager: !m.Announced(), active: true,
	}
	r.model.count[from]++
	if k >= len(sent) || !sent[k].active || sent[k].tag != n.tag || sent[k].size != n.size {
		w.failf("rank %d: active message %d of %d is %+v", r.index, k, from, n)
		return
	}
	c := call{m, n}
	r.look(c)
	if n.eager {
		w.counts.eager++
	} else {
		w.counts.announced++
	}
	switch w.random.IntN(5) {
	case 0: // It is consumed, or dropped.
		if !n.eager {
			r.endCall(now, c, false)
		}
	case 1, 2:
		r.l.Keep(m)
		r.calls = append(r.calls, c)
		w.counts.kept++
	case 3:
		r.endCall(now, c, w.random.IntN(2) == 0)
	case 4:
		if !w.over {
			r.sendActive(from)
			w.counts.replied++
		}
		r.look(c)
		r.endCall(now, c, true)
	}
}

// look compares an active message with what was sent.
func (r *rank) look(c call) {
	data := content(c.n.from, r.index, c.n.number, c.n.size)
	if !c.n.eager {
		data = nil
	}
	if !bytes.Equal(c.m.Header(), headerOf(c.n.from, r.index, c.n.number)) ||
		!bytes.Equal(c.m.Data(), data) {
		r.world.failf("rank %d: active message %+v has %d bytes with header %x", r.index, c.n,
			len(c.m.Data()), c.m.Header())
	}
}

// endCall receives an active message, or drops it.
func (r *rank) endCall(now btl.Time, c call, receive bool) {
	if receive {
		r.recvCall(c)
		return
	}
	r.world.counts.dropped++
	if err := r.l.Drop(now, c.m); err != nil {
		r.world.failf("rank %d: Drop: %w", r.index, err)
	}
	if err := r.l.Drop(now, c.m); !errors.Is(err, pml.ErrMessage) {
		r.world.failf("rank %d: a second Drop: %w", r.index, err)
	}
}

// recvCall receives an active message.
func (r *rank) recvCall(c call) {
	w := r.world
	w.counts.received++
	room := 5000
	if w.random.IntN(4) == 0 {
		room = w.random.IntN(200)
	}
	o := &op{recv: true, from: c.n.from, matched: true, got: c.n, mem: make([]byte, room)}
	o.r.OnDone = func(*pml.Request) { r.recvDone(o) }
	r.ops = append(r.ops, o)
	if err := r.l.RecvMessage(w.Now(), &o.r, c.m, o.turn(len(r.ops))); err != nil {
		o.done = 1
		if c.n.eager || r.peers[o.from].Err() == nil {
			w.failf("rank %d: RecvMessage of an active message: %w", r.index, err)
		}
	}
}

// takeCall ends one of those that were kept.
func (r *rank) takeCall() {
	if len(r.calls) == 0 {
		return
	}
	i := r.world.random.IntN(len(r.calls))
	c := r.calls[i]
	r.calls = append(r.calls[:i], r.calls[i+1:]...)
	r.look(c)
	r.endCall(r.world.Now(), c, r.world.random.IntN(2) == 0)
}

// TestActive runs random programs of active messages among sends and receives: with and without
// handlers, received now, later or never, kept, dropped and answered, under loss, reordering and
// deaths. GOBTL_TEST_SEED runs that seed alone.
func TestActive(t *testing.T) {
	t.Parallel()
	const seeds = 80
	var sum activeCounts
	one := func(seed uint64) {
		w := newWorld(t, seed, 2+int(seed%3), nil)
		w.active = true
		if err := w.run(60, seed%4 == 3); err != nil {
			t.Fatalf("GOBTL_TEST_SEED=%d: %v", seed, err)
		}
		c := w.counts
		sum.eager, sum.announced, sum.kept = sum.eager+c.eager, sum.announced+c.announced, sum.kept+c.kept
		sum.received, sum.dropped = sum.received+c.received, sum.dropped+c.dropped
		sum.replied, sum.lost = sum.replied+c.replied, sum.lost+c.lost
	}
	if os.Getenv("GOBTL_TEST_SEED") != "" {
		one(testenv.Seed(t, 0))
		return
	}
	for seed := range uint64(seeds) {
		one(seed + 1)
	}
	for _, n := range []int{
		sum.eager, sum.announced, sum.kept, sum.received, sum.dropped, sum.replied, sum.lost,
	} {
		if n < seeds {
			t.Errorf("too little has happened: %+v", sum)
		}
	}
}
