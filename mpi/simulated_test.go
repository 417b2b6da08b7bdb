package mpi_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/internal/testenv"
	"gobtl/mpi"
	"gobtl/pml"
)

// Random programs over simulated hosts, in virtual time and under faults, all from one seed: the
// program of each rank is a coroutine, which gives way where a call waits, and goes on when what it
// waits for has come.

// stage is a job on a simulated network.
type stage struct {
	*sim.Network
	steps   int // events so far
	seed    uint64
	random  *rand.Rand
	ranks   []*actor
	trouble *trouble // nil: none
}

// actor is a rank of it: a host, and a program.
type actor struct {
	*sim.Node
	mod    *btl.Module // nil: it has died
	stage  *stage
	rank   int
	world  *mpi.World
	ctx    context.Context
	cancel context.CancelFunc
	over   func() bool // what the program waits for
	since  mono.Time
	act    *play // what it plays now
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	stack  [12]uintptr // where it waits
	depth  int
	ended  bool
	dead   bool
	err    error
}

func (a *actor) Rank() int                      { return a.rank }
func (a *actor) Size() int                      { return len(a.stage.ranks) }
func (a *actor) NodeOf(rank int) int            { return rank }
func (a *actor) Nodes() int                     { return len(a.stage.ranks) }
func (a *actor) Fence(context.Context) error    { return nil }
func (a *actor) Finalize(context.Context) error { return nil }

// Exchange gives the names of all modules, which are open before any program begins.
func (a *actor) Exchange(context.Context, string, []byte) (names [][]byte, _ error) {
	for _, r := range a.stage.ranks {
		names = append(names, r.mod.Name())
	}
	return names, nil
}

// Progress makes an actor the process of its host.
func (a *actor) Progress(now mono.Time) (int, error) {
	n, err := a.world.Pass(now)
	if errors.Is(err, mpi.ErrExcluded) || errors.Is(err, mpi.ErrFinalized) {
		err = nil // It goes on with saying so.
	}
	return n, err
}

func (a *actor) Deadline() mono.Time { return a.world.Deadline() }

// wait gives way until over.
func (a *actor) wait(over func() bool) {
	a.over, a.since, a.depth = over, a.stage.Now(), runtime.Callers(2, a.stack[:])
	a.yield(struct{}{})
	a.over = nil
}

// where tells what a rank does: for failures.
func (a *actor) where() string {
	if a.ended {
		return fmt.Sprintf("\n  rank %d: ended, dead %v", a.rank, a.dead)
	}
	text := fmt.Sprintf("\n  rank %d, dead ranks %v:", a.rank, a.world.Failed())
	text += a.world.Rounds()
	frames := runtime.CallersFrames(a.stack[:a.depth])
	for more := true; more; {
		var at runtime.Frame
		at, more = frames.Next()
		text += fmt.Sprintf(" %s:%d", filepath.Base(at.File), at.Line)
	}
	return text
}

// observe is another goroutine of the program, which looks for deaths while this one waits for a
// message from anybody: that waits on, as long as nobody revokes the communicator.
func (a *actor) observe() error {
	p, most := a.act, 5*time.Second
	if a.dead || a.ended || p == nil || !p.wild || a.stage.Now().Sub(a.since) < most ||
		len(p.c.Failed()) == 0 {
		return nil
	}
	p.wild = false
	a.Kick()
	return p.c.Revoke()
}

// goOn has the program go on, if it can.
func (a *actor) goOn() {
	if a.ended || a.over != nil && !a.over() {
		return
	}
	if _, more := a.next(); !more {
		a.ended = true
	}
	if a.mod != nil {
		a.Kick()
	}
}

// open opens the node of an actor and its module.
func (a *actor) open(cfg btl.Config) (*btl.Module, error) {
	sizes, err := cfg.DomainConfig(a.Info())
	if err != nil {
		return nil, err
	}
	domain, err := a.Node.Open(sizes)
	if err != nil {
		return nil, err
	}
	return btl.Open(domain, cfg)
}

// stepsMax bounds the events of a run, so that what goes wrong ends.
const stepsMax = 1_000_000

// newStage opens the modules of a job of so many ranks, over a network that is bad by the seed.
func newStage(t *testing.T, seed uint64, size int) *stage {
	t.Helper()
	return openStage(t, seed, size, false)
}

// openStage is newStage, of a job that suffers more if it is troubled.
func openStage(t *testing.T, seed uint64, size int, troubled bool) *stage {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 11))
	c, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Network: c, seed: seed, random: random}
	layer := pml.Config{
		EagerBytes:      []int{-1, 100, 3000, 0}[random.IntN(4)],
		UnexpectedBytes: []int{300, 20_000, 0}[random.IntN(3)],
		// A rank takes messages in any order: it must have room for all of a sender before.
		EnvelopesMax: []int{64, 256, 0}[random.IntN(3)], Random: random.Uint64,
	}
	for i := range size {
		a := &actor{Node: c.Node(strconv.Itoa(i)), stage: s, rank: i}
		a.ctx, a.cancel = context.WithCancel(t.Context())
		t.Cleanup(a.cancel)
		s.ranks = append(s.ranks, a)
		cfg := btl.Config{
			SendBuffers: 64, RecvDepth: 64, MTUBytes: []int{700, 1500, 9000}[random.IntN(3)],
			Label: mpi.LabelOf(i), Random: random.Uint64, PeersMax: 4 * max(size, 16),
			PeersPerHost: 4 * max(size, 16),
			PeerTimeout:  300 * time.Millisecond, KeepAlive: 50 * time.Millisecond,
			HandshakeTimeout: time.Second,
		}
		if troubled {
			cfg.PeerTimeout, cfg.HandshakeTimeout = patience, patience
		}
		if a.mod, err = a.open(cfg); err != nil {
			t.Fatal(err)
		}
	}
	path := sim.Path{Delay: 20 * time.Microsecond}
	if random.IntN(3) > 0 {
		path.Jitter, path.Reorder, path.ReorderDelay = 30*time.Microsecond, .1, time.Millisecond
		path.Loss, path.Duplicate = random.Float64()*.05, .02
	}
	for _, a := range s.ranks {
		for _, b := range s.ranks {
			c.SetPath(a.Node, b.Node, path)
		}
	}
	if troubled {
		s.worsen()
	}
	for _, a := range s.ranks {
		by := mpi.Outside{Clock: c.Now, Turns: a.wait}
		if a.world, err = mpi.OpenOver(a.ctx, a, a.mod, mpi.Config{Layer: layer}, by); err != nil {
			t.Fatal(err)
		}
		a.Node.Run(a)
	}
	return s
}

// play has each rank do what body says, until all have ended, or crash by crash.
func (s *stage) play(t *testing.T, body func(context.Context, *mpi.World) error,
	between func() error,
) {
	t.Helper()
	for _, a := range s.ranks {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			a.yield = yield
			a.err = body(a.ctx, a.world)
		})
		a.next = next
		defer stop()
		defer func() { // Those that are left are told to end, before they are stopped.
			a.cancel()
			for i := 0; !a.ended && i < 1000; i++ {
				a.goOn()
			}
		}()
	}
	for {
		running := 0
		for _, a := range s.ranks {
			if a.goOn(); !a.ended {
				running++
			} else if a.err != nil && !a.dead {
				t.Fatalf("seed %d, %v: rank %d: %v", s.seed, time.Duration(s.Now()), a.rank, a.err)
			}
		}
		if running == 0 {
			return
		}
		var err error
		s.suffer()
		if s.steps++; !s.Step() {
			err = errors.New("nothing is pending any more")
		} else if s.steps > stepsMax {
			err = errors.New("no end after so many events")
		} else if between != nil {
			err = between()
		}
		if err != nil {
			text := ""
			for _, a := range s.ranks {
				text += a.where()
			}
			t.Fatalf("seed %d, %v: %v%s", s.seed, time.Duration(s.Now()), err, text)
		}
	}
}

// crash is the death of a rank, whose program ends.
func (s *stage) crash(a *actor) {
	a.dead = true
	a.cancel()
	a.Crash()
	a.mod = nil
	for !a.ended {
		a.goOn()
	}
}

// end checks that nothing is wrong with any module, and that what goes on among idle ranks ends.
func (s *stage) end(t *testing.T) {
	t.Helper()
	for _, a := range s.ranks {
		if a.mod == nil {
			continue
		}
		if err := a.mod.Check(); err != nil {
			t.Errorf("rank %d: %v", a.rank, err)
		}
		a.Run(nil)
		if err := a.mod.Close(); err != nil {
			t.Errorf("rank %d: %v", a.rank, err)
		}
	}
	if err := errors.Join(s.Violations()...); err != nil {
		t.Error(err)
	}
	s.Close()
}

// collectives takes part in some collective operations, drawn alike by all ranks: of sizes small
// and large, with roots, in place or not. What each rank must get is what a loop over all comes to.
func (p *play) collectives(ctx context.Context, random *rand.Rand) error {
	for range 4 {
		one := &ensemble{
			play: p, n: p.c.Size(), rank: p.c.Rank(), root: random.IntN(p.c.Size()),
			size: []int{1, 3, 60, 700, 5000}[random.IntN(5)], salt: random.Int64N(1000),
		}
		name := ensembles[random.IntN(len(ensembles))]
		if err := one.do(ctx, name); err != nil {
			return fmt.Errorf("%s of %d from %d: %w", name, one.size, one.root, err)
		}
	}
	return nil
}

// ensemble is a collective operation of all ranks.
type ensemble struct {
	*play
	n, rank, root, size int
	salt                int64
}

var ensembles = []string{
	"barrier", "bcast", "reduce", "allreduce", "apart", "gatherv", "scatter", "allgather",
	"alltoallv", "reduceScatter", "exscan",
}

// gives is what a rank gives: so many values, of which no two are alike.
func (e *ensemble) gives(rank, first, count int) []int64 {
	out := make([]int64, count)
	for i := range out {
		out[i] = int64(rank+1)*1_000_003*(e.salt+1) + int64(first+i)*7
	}
	return out
}

// sum is what the ranks up to one give, added up.
func (e *ensemble) sum(ranks, first, count int) []int64 {
	out := make([]int64, count)
	for rank := range ranks {
		for i, v := range e.gives(rank, first, count) {
			out[i] += v
		}
	}
	return out
}

// last is an operation that does not commute: the highest rank's value, if all are in order.
func last(low, high int64) int64 {
	if low >= high {
		return -1
	}
	return high
}

func (e *ensemble) do(ctx context.Context, name string) (err error) {
	in := e.gives(e.rank, 0, e.size)
	out := make([]int64, e.size)
	var want []int64
	add := mpi.Sum[int64]()
	switch name {
	case "barrier":
		return mpi.Barrier(ctx, e.c)
	case "bcast":
		want = e.gives(e.root, 0, e.size)
		if out = in; e.rank != e.root {
			clear(out)
		}
		err = mpi.Bcast(ctx, e.c, out, e.root)
	case "reduce":
		if want = e.sum(e.n, 0, e.size); e.rank != e.root {
			want = make([]int64, e.size)
		}
		err = mpi.Reduce(ctx, e.c, in, out, add, e.root)
	case "allreduce":
		want = e.sum(e.n, 0, e.size)
		out = in
		err = mpi.Allreduce(ctx, e.c, in, out, add)
	case "apart":
		want = e.gives(e.n-1, 0, e.size)
		err = mpi.Allreduce(ctx, e.c, in, out, mpi.NewOp(last, false))
	case "exscan":
		want = e.sum(e.rank, 0, e.size)
		err = mpi.Exscan(ctx, e.c, in, out, add)
	default:
		return e.parts(ctx, name)
	}
	return e.same(err, out, want)
}

// parts are the operations in which each rank has a part of its own: rank r one of r values more.
func (e *ensemble) parts(ctx context.Context, name string) (err error) {
	var in, out, want []int64
	counts, total := make([]int, e.n), 0
	for r := range counts {
		counts[r] = e.size + r
		total += counts[r]
	}
	switch name {
	case "gatherv", "allgather":
		for r := range e.n {
			want = append(want, e.gives(r, 0, counts[r])...)
		}
		in = e.gives(e.rank, 0, counts[e.rank])
		if out = make([]int64, total); name == "allgather" {
			err = mpi.Allgatherv(ctx, e.c, in, out, counts)
			break
		}
		if e.rank != e.root {
			out, want = nil, nil
		}
		err = mpi.Gatherv(ctx, e.c, in, out, counts, e.root)
	case "scatter":
		out, want = make([]int64, e.size), e.gives(e.root, e.rank*e.size, e.size)
		if e.rank == e.root {
			in = e.gives(e.root, 0, e.size*e.n)
		}
		err = mpi.Scatter(ctx, e.c, in, out, e.root)
	case "alltoallv":
		from := make([]int, e.n) // as many as this rank is to have, of each
		for r := range e.n {
			from[r] = counts[e.rank]
			in = append(in, e.gives(e.rank, r, counts[r])...)
			want = append(want, e.gives(r, e.rank, counts[e.rank])...)
		}
		out = make([]int64, len(want))
		err = mpi.Alltoallv(ctx, e.c, in, counts, out, from)
	case "reduceScatter":
		first := 0
		for r := range e.rank {
			first += counts[r]
		}
		out, want = make([]int64, counts[e.rank]), e.sum(e.n, first, counts[e.rank])
		err = mpi.ReduceScatter(ctx, e.c, e.gives(e.rank, 0, total), out, counts, mpi.Sum[int64]())
	}
	return e.same(err, out, want)
}

func (e *ensemble) same(err error, got, want []int64) error {
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%d values %.60s, not %.60s", len(got), fmt.Sprint(got), fmt.Sprint(want))
	}
	return err
}

// passive works in the window of one rank, under its lock or by atomic operations: all ranks count
// there, and of the numbers that they draw none is drawn twice.
func (p *play) passive(ctx context.Context, random *rand.Rand) error {
	n, owner := p.c.Size(), random.IntN(p.c.Size())
	cell := []int64{0, -1}
	if p.c.Rank() == owner {
		p.tally[0] = 0
	}
	if err := mpi.Barrier(ctx, p.c); err != nil {
		return err
	}
	var err error
	if random.IntN(2) == 0 { // read, and write one more, alone
		err = p.counter.Lock(ctx, owner, true)
		if err == nil {
			err = errors.Join(p.counter.Get(ctx, cell[:1], owner, 0), p.counter.Flush(ctx, owner))
		}
		if cell[1] = cell[0]; err == nil {
			err = errors.Join(p.counter.Put(ctx, []int64{cell[0] + 1}, owner, 0),
				p.counter.Unlock(ctx, owner))
		}
	} else { // swap until nobody was faster
		for old := int64(0); err == nil && cell[1] < 0; {
			var was int64
			if was, err = p.counter.CompareAndSwap(ctx, old, old+1, owner, 0); was == old {
				cell[1] = old
			}
			old = was
		}
	}
	all := make([]int64, n)
	if err == nil {
		err = mpi.Allgather(ctx, p.c, cell[1:], all)
	}
	if err != nil {
		return err
	}
	slices.Sort(all)
	for i, v := range all {
		if v != int64(i) {
			return fmt.Errorf("the ranks have drawn %v", all)
		}
	}
	if p.c.Rank() == owner && p.tally[0] != int64(n) {
		return fmt.Errorf("the count is %d of %d", p.tally[0], n)
	}
	return nil
}

// rounds plays rounds with all that there is, until the last one or an error.
func (p *play) rounds(ctx context.Context, count int) error {
	for round := range count {
		random := rand.New(rand.NewPCG(p.seed, uint64(round)+1<<32))
		err := p.round(ctx, round)
		if err == nil {
			err = p.collectives(ctx, random)
		}
		if err == nil {
			err = p.passive(ctx, random)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// beginAll is begin, with a window to count in.
func beginAll(ctx context.Context, c *mpi.Comm, seed uint64) (*play, error) {
	p, err := begin(ctx, c, seed)
	if err == nil {
		p.tally = make([]int64, 1)
		p.counter, err = mpi.NewWindow(ctx, c, p.tally)
	}
	return p, err
}

// seeds is the number of runs of a simulated test. The ranks of a simulated test run one at a time,
// so that a few runs show the race detector all that it can find.
var seeds = flag.Uint64("mpi.seeds", seedsByDefault(), "runs of each simulated test")

func seedsByDefault() uint64 {
	if testenv.Race {
		return 6
	}
	return 24
}

// Random programs of messages, collective operations and windows, among ranks that all live.
func TestSimulatedPrograms(t *testing.T) {
	begin := testenv.Seed(t, 1)
	for seed := begin; seed < begin+*seeds; seed++ {
		s := openStage(t, seed, 2+int(seed%4), seed%2 == 1)
		s.play(t, func(ctx context.Context, w *mpi.World) error {
			p, err := beginAll(ctx, &w.Comm, seed)
			if err == nil {
				err = p.rounds(ctx, 4)
			}
			return err
		}, nil)
		s.end(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// survive is the program of a rank of which others die: it plays until a life goes well for all
// that are left, who agree on that, and in a communicator of them else. It returns that of those
// that are left.
func (a *actor) survive(ctx context.Context, seed uint64) (left *mpi.Comm, err error) {
	for c := &a.world.Comm; ; {
		p, err := beginAll(ctx, c, seed+uint64(c.Size())<<40)
		a.act = p
		if err == nil {
			err = p.rounds(ctx, 3)
		}
		var gone *mpi.RankError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !errors.As(err, &gone) && !errors.Is(err, mpi.ErrRevoked):
			return nil, err
		case err != nil:
			if err := c.Revoke(); err != nil {
				return nil, err
			}
			_ = mpi.WaitAll(ctx, nil, p.loose...) // It ends.
		}
		well := uint64(0)
		if err == nil {
			well = 1
		}
		if well, err = c.Agree(ctx, well); err != nil || well == 1 {
			return c, err
		}
		if c, err = c.Shrink(ctx); err != nil {
			return nil, err
		}
	}
}

// Random programs of which ranks die, at any moment: the others have a RankError or ErrRevoked, all
// that was under way ends, and they go on with those that are left, of whom all know the same.
func TestSimulatedDeaths(t *testing.T) {
	begin := testenv.Seed(t, 1)
	// In these a message is announced to a rank that will never have its communicator.
	list := []uint64{10198, 10252}
	for seed := range *seeds {
		list = append(list, begin+seed)
	}
	for _, seed := range list {
		s := openStage(t, seed, 3+int(seed%4), seed%2 == 1)
		left := make([]int, len(s.ranks))
		deaths, dead := 1+s.random.IntN(2), 0
		due := s.steps + s.random.IntN(6000)
		s.play(t, func(ctx context.Context, w *mpi.World) error {
			c, err := s.ranks[w.Rank()].survive(ctx, seed)
			if err == nil {
				left[w.Rank()] = c.Size()
			}
			return err
		}, func() error {
			if dead < deaths && s.steps >= due {
				if a := s.ranks[s.random.IntN(len(s.ranks))]; !a.dead && !a.ended {
					s.crash(a)
					dead++
				}
				due = s.steps + s.random.IntN(6000)
			}
			var errs [8]error
			for i, a := range s.ranks {
				errs[i] = a.observe()
			}
			return errors.Join(errs[:]...)
		})
		most, least := 0, len(s.ranks)
		for rank, a := range s.ranks {
			if !a.dead {
				most, least = max(most, left[rank]), min(least, left[rank])
			}
		}
		if most != least || most < len(s.ranks)-dead {
			t.Errorf("%d ranks, %d died, and %v are left, as each knows", len(s.ranks), dead, left)
		}
		s.end(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
