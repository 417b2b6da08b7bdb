package matching

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/internal/testenv"
	"gobtl/pml"
	"gobtl/test/sim/cluster"
)

// The model of MPI's matching: a receive has the earliest message that it wants, a message the
// earliest receive that wants it, and that is all.

// exactly is the mask of who wants one tag.
const exactly = ^uint64(0)

type want struct {
	op        *op
	from      int // -1: any
	tag, mask uint64
}

func (w want) wants(m note) bool {
	return (w.from < 0 || w.from == m.from) && (m.tag^w.tag)&w.mask == 0
}

// note is a message as the model knows it: the number-th from a host to this one.
type note struct {
	from, number int
	tag          uint64
	size         int
	eager        bool
	active       bool // an active message, whose id tag is
}

type model struct {
	posted     []want
	unexpected []note
	count      map[int]int // of messages that have come, by sender
}

// match gives a message to a receive.
func match(o *op, m note) { o.got, o.matched = m, true }

func (m *model) arrive(n note) {
	n.number = m.count[n.from]
	m.count[n.from]++
	at := slices.IndexFunc(m.posted, func(w want) bool { return w.wants(n) })
	if at < 0 {
		m.unexpected = append(m.unexpected, n)
		return
	}
	match(m.posted[at].op, n)
	m.posted = slices.Delete(m.posted, at, at+1)
}

// find is the earliest message that a receive wants, -1 for none.
func (m *model) find(w want) int {
	return slices.IndexFunc(m.unexpected, w.wants)
}

func (m *model) post(w want) {
	if at := m.find(w); at >= 0 {
		match(w.op, m.unexpected[at])
		m.unexpected = slices.Delete(m.unexpected, at, at+1)
		return
	}
	m.posted = append(m.posted, w)
}

// cancel says whether the receive had not been matched.
func (m *model) cancel(o *op) bool {
	at := slices.IndexFunc(m.posted, func(w want) bool { return w.op == o })
	if at >= 0 {
		m.posted = slices.Delete(m.posted, at, at+1)
	}
	return at >= 0
}

// dead takes out what nobody can receive, or send, any more.
func (m *model) dead(peer int) {
	m.posted = slices.DeleteFunc(m.posted, func(w want) bool { return w.from == peer })
	m.unexpected = slices.DeleteFunc(m.unexpected, func(n note) bool {
		return n.from == peer && !n.eager
	})
}

// op is a send or a receive of the program.
type op struct {
	r       pml.Request
	to      int // of a send
	from    int // of a receive, -1: any
	mem     []byte
	want    []byte // of a send: what mem must be as long as it is under way
	recv    bool
	matched bool // by the model
	got     note
	cancel  bool
	header  []byte // of an active message that is sent
	lost    bool   // an active message without a handler
	mode    pml.Mode
	dead    bool // its peer was, when it was begun or later
	done    int  // calls of OnDone
}

// rank is a host with its layer, its model, and what it has begun.
type rank struct {
	*cluster.Host
	world *world
	index int
	l     *pml.Layer
	model model
	peers []*pml.Peer
	ops   []*op
	calls []call       // active messages that its handlers have kept
	held  *pml.Message // of a probe
	hnote note
	gone  bool // crashed
}

// world is a run of a random program.
type world struct {
	*cluster.Cluster
	random *rand.Rand
	ranks  []*rank
	sent   [][][]note // by sender and receiver
	errs   []error
	over   bool // nothing new is begun
	active bool // active messages are sent, too
	counts activeCounts
	early  uint64
}

func (w *world) failf(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

// content is what a message has, so that each is told from all others.
func content(from, to, number, size int) []byte {
	random := rand.New(rand.NewPCG(uint64(from)<<32|uint64(to), uint64(number)))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// modelConfig is small, so that all bounds are met.
func modelConfig(random *rand.Rand) pml.Config {
	return pml.Config{
		EagerBytes:      []int{-1, 100, 300, 3000}[random.IntN(4)],
		UnexpectedBytes: []int{200, 2000, 1 << 20}[random.IntN(3)],
		EnvelopesMax:    []int{4, 8, 64}[random.IntN(3)], Random: random.Uint64,
		GoneBytes: 1 << 20, // The model forgets nothing.
	}
}

// newWorld connects ranks over a network that is bad by the seed; with cfg it is a good one.
func newWorld(t *testing.T, seed uint64, size int, given *pml.Config) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	c, err := cluster.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: c, random: random}
	c.StepsMax = 3_000_000
	cfg := modelConfig(random)
	if given != nil {
		cfg = *given
	}
	for i := range size {
		r := &rank{Host: c.Add(strconv.Itoa(i)), world: w, index: i, peers: make([]*pml.Peer, size)}
		r.model.count = map[int]int{}
		w.ranks = append(w.ranks, r)
		w.sent = append(w.sent, make([][]note, size))
	}
	path := sim.Path{Delay: 20 * time.Microsecond}
	if given == nil && random.IntN(3) > 0 {
		path.Jitter, path.Reorder, path.ReorderDelay = 30*time.Microsecond, .1, time.Millisecond
		path.Loss, path.Duplicate = random.Float64()*.05, .02
	}
	c.SetPaths(path)
	fragmentMax := []uint32{0, 2048}[random.IntN(2)]
	for _, r := range w.ranks {
		r.open(t, cfg, fragmentMax)
	}
	for i, a := range w.ranks {
		for _, b := range w.ranks[i:] {
			if _, err := a.Dial(b.Host); err != nil {
				t.Fatal(err)
			}
		}
	}
	met := func() bool {
		for _, r := range w.ranks {
			if slices.Contains(r.peers, nil) {
				return false
			}
		}
		return true
	}
	if err := c.Until(c.Now().Add(2*time.Second), met); err != nil {
		t.Fatalf("seed %d: ranks do not meet: %v", seed, err)
	}
	return w
}

// open starts a rank.
func (r *rank) open(t *testing.T, cfg pml.Config, fragmentMax uint32) {
	t.Helper()
	err := r.Open(btl.Config{
		SendBuffers: 64, RecvDepth: 64, FragmentsMax: 32, RegionsMax: 3, MTUBytes: 700,
		FragmentBytesMax: fragmentMax, Label: strconv.Itoa(r.index), Random: r.world.random.Uint64,
		PeerTimeout: 300 * time.Millisecond, KeepAlive: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.l, err = pml.New(r.Mod, cfg, func(p *pml.Peer, why error) {
		if p.Endpoint().PeerLabel() == badLabel {
			return
		}
		from, err := strconv.Atoi(p.Endpoint().PeerLabel())
		if err != nil {
			r.world.failf("rank %d: a peer called %q", r.index, p.Endpoint().PeerLabel())
			return
		}
		p.Context = from
		r.peers[from] = p
		if why != nil {
			r.model.dead(from)
			r.lose(from)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.l.Observe(func(p *pml.Peer, tag, size uint64, eager bool) {
		n := note{from: p.Context.(int), tag: tag, size: int(size), eager: eager}
		r.skipLost(n.from)
		sent, k := r.world.sent[n.from][r.index], r.model.count[n.from]
		if k >= len(sent) || sent[k].tag != n.tag || sent[k].size != n.size || sent[k].active {
			r.world.failf("rank %d: message %d of %d is %+v", r.index, k, n.from, n)
			return
		}
		r.model.arrive(n)
	})
	r.handle()
	r.Node.Run(r)
}

// Progress makes a rank the process of its host.
func (r *rank) Progress(now mono.Time) (int, error) {
	n, err := r.l.Progress(now)
	if bad := r.Mod.Check(); bad != nil {
		r.world.failf("rank %d: %w", r.index, bad)
	}
	return n, err
}

func (r *rank) Deadline() mono.Time { return r.l.Deadline() }

// lose marks what may end with the death of a peer.
func (r *rank) lose(peer int) {
	for _, o := range r.ops {
		if o.recv && (o.from == peer || o.matched && o.got.from == peer) || !o.recv && o.to == peer {
			o.dead = true
		}
	}
}

// send begins a send to any rank.
func (r *rank) send() {
	w := r.world
	if w.active && w.random.IntN(2) == 0 {
		r.sendActive(w.random.IntN(len(w.ranks)))
		return
	}
	o := &op{to: w.random.IntN(len(w.ranks)), from: -1}
	size := w.random.IntN(5000)
	if w.random.IntN(2) == 0 {
		size = w.random.IntN(120)
	}
	o.want = content(r.index, o.to, len(w.sent[r.index][o.to]), size)
	o.mem = bytes.Clone(o.want)
	mem := o.turn(len(w.sent[r.index][o.to]))
	if mem == nil && o.r.Layout != nil {
		o.r.Layout.Scatter(o.want, 0)
		o.want = bytes.Clone(o.mem)
	}
	tag := uint64(w.random.IntN(3))
	o.r.OnDone = func(*pml.Request) { r.sendDone(o) }
	o.mode = pml.Mode(w.random.IntN(modes))
	to := &w.sent[r.index][o.to]
	*to = append(*to, note{tag: tag, size: size}) // Before Send: a message to itself may come at once.
	r.ops = append(r.ops, o)
	if err := r.l.Send(w.Now(), &o.r, r.peers[o.to], tag, mem, o.mode); err != nil {
		*to = (*to)[:len(*to)-1]
		r.notSent(o, err)
	}
}

// modes is the number of modes of sends.
const modes = int(pml.Announce) + 1

// notSent judges the error of a call that has begun nothing.
func (r *rank) notSent(o *op, err error) {
	o.dead, o.done = true, 1
	if tooLong := errors.Is(err, pml.ErrEager) && o.mode == pml.Eager; !tooLong &&
		(!errors.Is(err, pml.ErrPeer) || r.peers[o.to].Err() == nil) {
		r.world.failf("rank %d: a send: %w", r.index, err)
	}
}

func (r *rank) sendDone(o *op) {
	o.done++
	dead := o.dead || r.peers[o.to].Err() != nil
	err := o.r.Err()
	waits := o.mode == pml.Synchronous || o.mode == pml.Announce
	known := errors.Is(err, pml.ErrUndelivered) != errors.Is(err, pml.ErrUnknown)
	ends := err == nil && (!o.lost || !waits) || errors.Is(err, pml.ErrPeer) && dead && known ||
		errors.Is(err, pml.ErrNoHandler) && o.lost
	if announced := o.r.Announced(); err == nil &&
		(o.mode == pml.Eager && announced || o.mode == pml.Announce && !announced) {
		r.world.failf("rank %d: a send of mode %d, announced %v", r.index, o.mode, announced)
	}
	if !ends {
		r.world.failf("rank %d: a send to %d ends with %w", r.index, o.to, err)
	}
	if !bytes.Equal(o.mem, o.want) {
		r.world.failf("rank %d: the memory of a send has changed", r.index)
	}
	clear(o.header)
	clear(o.mem) // It is the caller's again.
	if !r.world.over && r.world.random.IntN(8) == 0 {
		r.send() // from inside a pass, or from inside another Send
	}
}

// criteria draws what a receive wants.
func (r *rank) criteria() (from int, tag, mask uint64) {
	random := r.world.random
	from, tag, mask = -1, uint64(random.IntN(3)), exactly
	if random.IntN(2) == 0 {
		from = random.IntN(len(r.peers))
	}
	switch random.IntN(4) {
	case 0:
		mask = 0
	case 1:
		mask = 1
	}
	return from, tag, mask
}

func (r *rank) peer(from int) *pml.Peer {
	if from < 0 {
		return nil
	}
	return r.peers[from]
}

// recv posts a receive.
func (r *rank) recv(from int, tag, mask uint64, room int) {
	o := &op{recv: true, from: from, mem: make([]byte, room)}
	o.r.OnDone = func(*pml.Request) { r.recvDone(o) }
	if from >= 0 && r.peers[from].Err() != nil {
		o.dead = true
	}
	r.ops = append(r.ops, o)
	mem := o.turn(len(r.ops))
	wish := want{o, from, tag, mask}
	if o.dead && r.model.find(wish) < 0 {
		err := r.l.Recv(r.world.Now(), &o.r, r.peer(from), tag, mask, mem)
		if !errors.Is(err, pml.ErrPeer) {
			r.world.failf("rank %d: a receive from the dead: %w", r.index, err)
		}
		o.done = 1
		return
	}
	r.model.post(wish)
	if err := r.l.Recv(r.world.Now(), &o.r, r.peer(from), tag, mask, mem); err != nil {
		r.world.failf("rank %d: Recv: %w", r.index, err)
	}
}

// recvDone compares what a receive has with what the model has given it.
func (r *rank) recvDone(o *op) {
	o.done++
	q := &o.r
	err := q.Err()
	switch {
	case errors.Is(err, pml.ErrCancelled):
		if !o.cancel {
			r.world.failf("rank %d: a receive was cancelled by nobody", r.index)
		}
		return
	case errors.Is(err, pml.ErrPeer):
		if o.dead || q.Peer() != nil && q.Peer().Err() != nil {
			return
		}
		r.world.failf("rank %d: a receive ends with %w", r.index, err)
		return
	case !o.matched:
		r.world.failf("rank %d: a receive has what the model does not give it: tag %d, %d bytes, %w",
			r.index, q.Tag(), q.Size(), err)
		return
	}
	truncated := o.got.size > len(o.mem)
	data := content(o.got.from, r.index, o.got.number, o.got.size)[:q.Len()]
	if q.Peer().Context != o.got.from || q.Tag() != o.got.tag || q.Size() != uint64(o.got.size) ||
		errors.Is(err, pml.ErrTruncated) != truncated || err != nil && !truncated ||
		q.Len() != min(o.got.size, len(o.mem)) || !bytes.Equal(o.bytes(), data) {
		r.world.failf("rank %d: has tag %d, %d bytes of %v, %w; the model %+v", r.index, q.Tag(),
			q.Size(), q.Peer().Context, err, o.got)
	}
}

// step does something at random.
func (r *rank) step() {
	w := r.world
	if r.gone {
		return
	}
	switch w.random.IntN(12) {
	case 0, 1, 2, 3, 4:
		r.send()
	case 5, 6, 7, 8:
		from, tag, mask := r.criteria()
		room := 5000
		if w.random.IntN(6) == 0 {
			room = w.random.IntN(200)
		}
		r.recv(from, tag, mask, room)
	case 9:
		r.probe()
	case 10:
		if len(r.ops) > 0 {
			r.cancelOp(r.ops[w.random.IntN(len(r.ops))])
		}
	case 11:
		r.Pause(time.Duration(w.random.IntN(3000)) * time.Microsecond)
	}
	if w.active && w.random.IntN(2) == 0 {
		r.takeCall()
	}
	r.Kick()
}

func (r *rank) cancelOp(o *op) {
	if !o.recv || o.done > 0 {
		return
	}
	expected := r.model.cancel(o)
	o.cancel = expected
	if got := r.l.Cancel(&o.r); got != expected {
		r.world.failf("rank %d: cancelled: %v, the model %v", r.index, got, expected)
	}
}

// probe looks for a message, and mostly takes it out; the next one receives it.
func (r *rank) probe() {
	w := r.world
	if r.held != nil {
		r.recvHeld()
		return
	}
	from, tag, mask := r.criteria()
	at := r.model.find(want{from: from, tag: tag, mask: mask})
	info, ok := r.l.Probe(r.peer(from), tag, mask)
	if ok != (at >= 0) {
		w.failf("rank %d: a probe finds %v, the model %d", r.index, ok, at)
		return
	}
	if !ok {
		return
	}
	n := r.model.unexpected[at]
	if info.Peer.Context != n.from || info.Tag != n.tag || info.Size != uint64(n.size) {
		w.failf("rank %d: a probe finds %+v, the model %+v", r.index, info, n)
	}
	r.held, r.hnote = r.l.MProbe(r.peer(from), tag, mask), n
	r.model.unexpected = slices.Delete(r.model.unexpected, at, at+1)
}

// recvHeld receives the message of a probe.
func (r *rank) recvHeld() {
	o := &op{recv: true, from: r.hnote.from, matched: true, got: r.hnote, mem: make([]byte, 5000)}
	o.r.OnDone = func(*pml.Request) { r.recvDone(o) }
	r.ops = append(r.ops, o)
	held := r.held
	r.held = nil
	if err := r.l.RecvMessage(r.world.Now(), &o.r, held, o.mem); err != nil {
		o.done = 1
		if !errors.Is(err, pml.ErrPeer) || r.peers[o.from].Err() == nil {
			r.world.failf("rank %d: RecvMessage: %w", r.index, err)
		}
	}
	err := r.l.RecvMessage(r.world.Now(), new(pml.Request), held, nil)
	if !errors.Is(err, pml.ErrMessage) {
		r.world.failf("rank %d: a message twice: %w", r.index, err)
	}
}

// finished says whether all has been received and has ended; it posts what is missing for that.
func (w *world) finished() bool {
	done := true
	for _, r := range w.ranks {
		if r.gone {
			continue
		}
		if r.held != nil {
			r.recvHeld()
			done = false
		}
		waiting := false
		for _, o := range r.ops {
			switch {
			case o.done > 0:
			case o.recv && !o.matched:
				waiting = true // for nothing, perhaps: that is cancelled
			default:
				done = false
			}
		}
		for len(r.calls) > 0 {
			r.takeCall()
			done = false
		}
		for from, p := range r.peers {
			r.skipLost(from)
			if p.Err() == nil && r.model.count[from] < len(w.sent[from][r.index]) {
				done = false
			}
		}
		if len(r.model.unexpected) > 0 {
			done = false
		}
		if !done && !waiting {
			r.recv(-1, 0, 0, 5000)
		}
		r.Kick()
	}
	return done
}

// left is what has not ended.
func (w *world) left() (text string) {
	for _, r := range w.ranks {
		if r.gone {
			continue
		}
		text += fmt.Sprintf("\nrank %d: %+v, came %v, unexpected %v", r.index, r.l.Stats(), r.model.count,
			r.model.unexpected)
		for i, o := range r.ops {
			if o.done == 0 {
				text += fmt.Sprintf("\n  op %d: receive %v from %d, matched %v %+v, to %d", i, o.recv, o.from,
					o.matched, o.got, o.to)
			}
		}
	}
	return text
}

// steps has each rank do something at random times.
func (w *world) steps(n int) {
	for range n {
		for _, r := range w.ranks {
			w.After(time.Duration(w.random.IntN(n*100))*time.Microsecond, r.step)
		}
	}
}

// run runs a random program, and returns what went wrong.
func (w *world) run(steps int, death bool) error {
	w.steps(steps)
	victim := -1
	if death {
		victim = w.random.IntN(len(w.ranks))
		w.After(time.Duration(w.random.IntN(steps*100))*time.Microsecond, func() {
			w.ranks[victim].gone = true
			w.ranks[victim].Crash()
		})
	}
	w.Advance(time.Duration(steps*100) * time.Microsecond)
	if death { // until it is known, and on
		w.Advance(2 * time.Second)
		w.steps(steps / 2)
		w.Advance(time.Duration(steps*100) * time.Microsecond)
	}
	w.over = true
	for _, r := range w.ranks { // What nobody will send is not waited for.
		if !r.gone {
			for _, o := range r.ops {
				r.cancelOp(o)
			}
		}
	}
	for end := w.Now().Add(20 * time.Second); !w.finished() && len(w.errs) == 0; {
		if w.Now() >= end {
			return fmt.Errorf("no end: %s", w.left())
		}
		w.Advance(time.Millisecond)
	}
	for _, r := range w.ranks {
		if !r.gone {
			for _, o := range r.ops {
				r.cancelOp(o)
			}
			w.early += r.l.Stats().Early
		}
	}
	w.Advance(time.Second)
	w.check(victim)
	return errors.Join(append(w.errs, w.Check(), w.Close())...)
}

// check looks at what is left when nothing is under way.
func (w *world) check(victim int) {
	for _, r := range w.ranks {
		if r.gone {
			continue
		}
		for i, o := range r.ops {
			if o.done != 1 || !o.r.Done() {
				w.failf("rank %d: op %d has ended %d times: %+v", r.index, i, o.done, o)
			}
		}
		if err := r.l.CheckIdle(); err != nil {
			w.failf("rank %d: %w", r.index, err)
		}
		for from, p := range r.peers {
			if (p.Err() != nil) != (from == victim) {
				w.failf("rank %d: peer %d: %w", r.index, from, p.Err())
			}
		}
	}
}

// TestModel runs random programs against the model: sends of all modes and sizes, receives with all
// wildcards, probes, cancels, under loss and reordering, and in some of them a rank dies.
// GOBTL_TEST_SEED runs that seed alone.
func TestModel(t *testing.T) {
	t.Parallel()
	const seeds = 120
	early := uint64(0)
	one := func(seed uint64) {
		w := newWorld(t, seed, 2+int(seed%3), nil)
		if err := w.run(60, seed%4 == 3); err != nil {
			t.Fatalf("GOBTL_TEST_SEED=%d: %v", seed, err)
		}
		early += w.early
	}
	if os.Getenv("GOBTL_TEST_SEED") != "" {
		one(testenv.Seed(t, 0))
		return
	}
	for seed := range uint64(seeds) {
		one(seed + 1)
	}
	if early == 0 {
		t.Error("no envelope has overtaken another")
	}
}
