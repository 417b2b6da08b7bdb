package matching

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/pml"
	"gobtl/test/sim/cluster"
)

// Beside a vandal, the host of this file, ranks receive messages of anybody, too. So the vandal is
// given rights to the memory of ranks, which uses that memory for each other afterwards.

const (
	guestTag   = 1000 // of messages that anybody may send
	friendTag  = 7
	townsfolk  = 3
	friendMost = 100 << 10 // bytes of a message
	perFriend  = 30        // messages of each rank to each other one
)

// town is a run of ranks beside a vandal.
type town struct {
	*cluster.Cluster
	random *rand.Rand
	ranks  []*citizen
	errs   []error
	over   bool
}

func (w *town) failf(format string, args ...any) {
	if len(w.errs) < 10 {
		w.errs = append(w.errs, fmt.Errorf(format, args...))
	}
}

// citizen is a rank.
type citizen struct {
	*cluster.Host
	town   *town
	index  int
	l      *pml.Layer
	peers  []*pml.Peer
	free   [][]byte
	got    []int // messages of each rank
	begun  []int // messages to each rank
	ended  int   // of its sends
	guests int   // receives that a vandal's message has ended
}

// vandal is the host that does harm.
type vandal struct {
	*cluster.Host
	town    *town
	numbers map[*btl.Endpoint]uint32
	stolen  []right
	kinds   map[string]int
	over    bool
}

// right is a right to the memory of a rank.
type right struct {
	of     *citizen
	handle btl.Handle
	bytes  int
}

func newTown(t *testing.T, seed uint64) *town {
	t.Helper()
	c, err := cluster.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	w := &town{Cluster: c, random: rand.New(rand.NewPCG(seed, 31))}
	c.StepsMax = 3_000_000
	for i := range townsfolk {
		r := &citizen{
			Host: c.Add(strconv.Itoa(i)), town: w, index: i, peers: make([]*pml.Peer, townsfolk),
			got: make([]int, townsfolk), begun: make([]int, townsfolk),
		}
		w.ranks = append(w.ranks, r)
		r.open(t)
	}
	path := sim.Path{Delay: 20 * time.Microsecond}
	if w.random.IntN(2) > 0 {
		path.Jitter, path.Loss, path.Duplicate = 30*time.Microsecond, w.random.Float64()*.03, .02
	}
	c.SetPaths(path)
	for i, a := range w.ranks {
		for _, b := range w.ranks[i+1:] {
			if _, err := a.Connect(b.Host, 2*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	met := func() bool {
		return !slices.ContainsFunc(w.ranks, func(r *citizen) bool {
			return slices.Index(r.peers, nil) != r.index ||
				slices.Contains(r.peers[r.index+1:], nil)
		})
	}
	if err := c.Until(c.Now().Add(2*time.Second), met); err != nil {
		t.Fatalf("seed %d: ranks do not meet: %v", seed, err)
	}
	return w
}

func (r *citizen) open(t *testing.T) {
	t.Helper()
	err := r.Open(btl.Config{
		SendBuffers: 128, RecvDepth: 128, FragmentsMax: 32, RegionsMax: 32, MTUBytes: 1400,
		Label: strconv.Itoa(r.index), Random: r.town.random.Uint64, PeerTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.l, err = pml.New(r.Mod, pml.Config{
		EagerBytes: 4096, UnexpectedBytes: 64 << 10, EnvelopesMax: 64, Random: r.town.random.Uint64,
	}, func(p *pml.Peer, why error) {
		from, err := strconv.Atoi(p.Endpoint().PeerLabel())
		if err != nil {
			return // the vandal
		}
		if p.Context, r.peers[from] = from, p; why != nil && !r.town.over {
			r.town.failf("rank %d loses rank %d: %w", r.index, from, why)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Node.Run(r)
}

// Progress makes a rank the process of its host.
func (r *citizen) Progress(now mono.Time) (int, error) {
	n, err := r.l.Progress(now)
	if bad := r.Mod.Check(); bad != nil {
		r.town.failf("rank %d: %w", r.index, bad)
	}
	return n, err
}

func (r *citizen) Deadline() mono.Time { return r.l.Deadline() }

// live begins all that a rank does.
func (r *citizen) live() {
	for other := range r.town.ranks {
		if other != r.index {
			r.receive(other)
			r.send(other)
		}
	}
	for range 4 {
		r.invite()
	}
	r.Kick()
}

// memory is memory that was used before, if there is some.
func (r *citizen) memory() []byte {
	if n := len(r.free); n > 0 {
		b := r.free[n-1]
		r.free = r.free[:n-1]
		return b
	}
	return make([]byte, friendMost)
}

// sizeOf is the size of a message between ranks.
func sizeOf(from, to, number int) int {
	return []int{40, 3000, 30 << 10, friendMost}[(from+2*to+number)%4]
}

// send sends the next message to another rank.
func (r *citizen) send(to int) {
	number := r.begun[to]
	if number == perFriend {
		return
	}
	r.begun[to]++
	q := new(pml.Request)
	q.OnDone = func(*pml.Request) {
		if r.ended++; q.Err() != nil {
			r.town.failf("rank %d: a send to %d: %w", r.index, to, q.Err())
			return
		}
		r.send(to)
	}
	data := content(r.index, to, number, sizeOf(r.index, to, number))
	if err := r.l.Send(r.town.Now(), q, r.peers[to], friendTag, data, pml.Standard); err != nil {
		r.town.failf("rank %d: a send to %d: %w", r.index, to, err)
	}
}

// receive receives the next message of another rank. Its memory stays the rank's for a while.
func (r *citizen) receive(from int) {
	number := r.got[from]
	if number == perFriend {
		return
	}
	mem, q := r.memory(), new(pml.Request)
	want := content(from, r.index, number, sizeOf(from, r.index, number))
	right := func(when string) {
		if q.Err() != nil || q.Len() != len(want) || !bytes.Equal(mem[:len(want)], want) {
			r.town.failf("rank %d: message %d of %d is wrong %s: %d bytes, %w", r.index, number, from,
				when, q.Len(), q.Err())
		}
	}
	q.OnDone = func(*pml.Request) {
		r.got[from]++
		right("at its end")
		r.town.After(300*time.Microsecond, func() {
			right("later")
			r.free = append(r.free, mem)
			r.receive(from)
			r.Kick()
		})
	}
	if err := r.l.Recv(r.town.Now(), q, r.peers[from], friendTag, exactly, mem); err != nil {
		r.town.failf("rank %d: Recv: %w", r.index, err)
	}
}

// invite receives a message of anybody. Its memory is used for others afterwards.
func (r *citizen) invite() {
	mem, q := r.memory(), new(pml.Request)
	q.OnDone = func(*pml.Request) {
		r.guests++
		r.free = append(r.free, mem)
		if !r.town.over {
			r.invite()
		}
	}
	if err := r.l.Recv(r.town.Now(), q, nil, guestTag, exactly, mem); err != nil {
		r.town.failf("rank %d: Recv of anybody: %w", r.index, err)
	}
}

// done says whether all messages between ranks have come.
func (w *town) done() bool {
	for _, r := range w.ranks {
		for other, n := range r.got {
			if other != r.index && n < perFriend {
				return false
			}
		}
		if r.ended < (townsfolk-1)*perFriend {
			return false
		}
	}
	return true
}

func newVandal(t *testing.T, w *town) *vandal {
	t.Helper()
	v := &vandal{
		Host: w.Add(badLabel), town: w, numbers: map[*btl.Endpoint]uint32{}, kinds: map[string]int{},
	}
	w.SetPaths(sim.Path{Delay: 20 * time.Microsecond})
	err := v.Open(btl.Config{
		SendBuffers: 128, RecvDepth: 128, MTUBytes: 1400, Label: badLabel, Random: w.random.Uint64,
		PeerTimeout: 2 * time.Second,
	})
	if err == nil {
		err = v.Mod.Handle(0, v.hear)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.Node.Run(v)
	return v
}

// Progress makes it the process of its host.
func (v *vandal) Progress(now mono.Time) (int, error) { return v.Mod.Progress(now) }
func (v *vandal) Deadline() mono.Time                 { return v.Mod.Deadline() }

// hear uses the right that a rank gives for an announced message.
func (v *vandal) hear(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	if len(data) < 40 || data[0] != kindClear {
		return
	}
	at := slices.IndexFunc(v.town.ranks, func(r *citizen) bool {
		return strconv.Itoa(r.index) == ep.PeerLabel()
	})
	if at < 0 {
		return
	}
	le := binary.LittleEndian
	id := le.Uint64(data[16:])
	h := right{v.town.ranks[at], btl.Handle(le.Uint64(data[24:])), int(le.Uint64(data[32:]))}
	v.stolen = append(v.stolen, h)
	switch v.town.random.IntN(12) {
	case 0:
		v.kinds["keeps its receiver waiting"]++
	case 1:
		v.kinds["goes with a right"]++
		v.town.After(time.Microsecond, func() { ep.Abort(); v.Kick() })
	case 2:
		v.kinds["half of it"]++
		v.put(ep, h, 0, h.bytes/2, nil)
	case 3:
		v.kinds["an end without a beginning"]++
		v.send(ep, of(head{kind: kindFin, a: id}))
	case 4:
		v.kinds["beyond its end"]++
		v.put(ep, h, h.bytes-8, 16, nil)
	default:
		v.kinds["all of it"]++
		v.put(ep, h, 0, h.bytes, func(_ *btl.Fragment, err error) {
			if err == nil {
				v.send(ep, of(head{kind: kindFin, a: id}))
			}
		})
	}
}

// put writes something else into the memory of a rank, and calls done, which may be nil.
func (v *vandal) put(ep *btl.Endpoint, h right, at, size int, done func(*btl.Fragment, error)) {
	junk := bytes.Repeat([]byte{0xbd}, max(size, 1))
	f, err := ep.PreparePut(junk, h.handle, uint64(max(at, 0)))
	if err != nil {
		return
	}
	f.Signal, f.OnDone = done != nil, done
	if _, err := ep.Send(v.town.Now(), f); err != nil {
		_ = ep.Free(f)
	}
}

func (v *vandal) send(ep *btl.Endpoint, m []byte) {
	f, err := ep.Alloc(0, len(m))
	if err != nil {
		return
	}
	copy(f.Bytes(), m)
	if _, err := ep.Send(v.town.Now(), f); err != nil {
		_ = ep.Free(f)
	}
}

// envelope sends a message in its turn.
func (v *vandal) envelope(ep *btl.Endpoint, kind byte, tag, size uint64, data int) {
	h := head{kind: kind, number: v.numbers[ep], a: tag, b: v.town.random.Uint64(), c: size}
	v.numbers[ep]++
	v.send(ep, append(of(h), make([]byte, data)...))
}

// The acts below end no connection.
const (
	announces   = "announces"
	writesAgain = "writes by a right it had"
)

// acts are the kinds of harm, by name.
func (v *vandal) acts() map[string]func(ep *btl.Endpoint, r *citizen) {
	random := v.town.random
	return map[string]func(ep *btl.Endpoint, r *citizen){
		announces: func(ep *btl.Endpoint, _ *citizen) {
			for range 1 + random.IntN(8) {
				v.envelope(ep, kindAnnounce, guestTag,
					5000+random.Uint64N(friendMost-5000), 0)
			}
		},
		"announces more than memory": func(ep *btl.Endpoint, _ *citizen) {
			v.envelope(ep, kindAnnounce, guestTag, 1<<50, 0)
		},
		"small messages, and goes": func(ep *btl.Endpoint, _ *citizen) {
			for range 20 {
				v.envelope(ep, kindEager, []uint64{guestTag, 5}[random.IntN(2)], 0, random.IntN(3000))
			}
			v.town.After(50*time.Microsecond, func() { ep.Abort(); v.Kick() })
		},
		"longer than is taken": func(ep *btl.Endpoint, _ *citizen) { v.send(ep, make([]byte, 1<<20)) },
		"begins a long one": func(ep *btl.Endpoint, _ *citizen) {
			v.envelope(ep, kindEager, 5, 0, 4000)
			v.Pause(4 * time.Millisecond)
		},
		"makes no passes": func(*btl.Endpoint, *citizen) { v.Pause(10 * time.Millisecond) },
		"comes and goes":  func(ep *btl.Endpoint, _ *citizen) { ep.Abort() },
		"a number far ahead": func(ep *btl.Endpoint, _ *citizen) {
			v.send(ep, of(head{kind: kindEager, number: v.numbers[ep] + 1<<17}))
		},
		writesAgain: func(ep *btl.Endpoint, r *citizen) {
			for _, h := range v.stolen[max(0, len(v.stolen)-40):] {
				if h.of == r {
					v.put(ep, h, random.IntN(max(1, h.bytes-64)), 64, nil)
				}
			}
		},
	}
}

// step does one thing to one rank, and comes again.
func (v *vandal) step() {
	if v.over {
		return
	}
	acts := v.acts()
	names := slices.Sorted(maps.Keys(acts)) // the order of a map must not change the run
	name := names[v.town.random.IntN(len(names))]
	if v.town.random.IntN(4) > 0 { // mostly what ends no connection, so that it is given rights
		name = []string{announces, writesAgain}[v.town.random.IntN(2)]
	}
	r := v.town.ranks[v.town.random.IntN(len(v.town.ranks))]
	if ep, err := v.Mod.Connect(v.town.Now(), r.Mod.Name()); err == nil && ep.Connected() {
		acts[name](ep, r)
		v.kinds[name]++
	}
	v.Kick()
	v.town.After(time.Duration(v.town.random.IntN(150))*time.Microsecond, v.step)
}

// vandalSeeds is how many runs there are.
func vandalSeeds(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("GOBTL_TEST_SEEDS")
	if text == "" {
		return 10
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Beside a vandal all messages between ranks come, as they were sent, and no rank loses another
// one. The memory of a rank is written by nobody whose right to it has ended.
func TestVandals(t *testing.T) {
	t.Parallel()
	kinds, guests := map[string]int{}, 0
	seeds := vandalSeeds(t)
	for seed := range seeds {
		w := newTown(t, seed)
		v := newVandal(t, w)
		for _, r := range w.ranks {
			r.live()
		}
		v.step()
		err := w.Until(w.Now().Add(20*time.Second), func() bool { return w.done() || len(w.errs) > 0 })
		v.over, w.over = true, true
		v.Crash()
		w.Advance(100 * time.Millisecond)
		if err != nil {
			w.failf("the ranks do not end: %w", err)
		}
		for _, err := range append(w.errs, w.Check(), w.Close()) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for name, n := range v.kinds {
			kinds[name] += n
		}
		for _, r := range w.ranks {
			guests += r.guests
		}
	}
	if len(kinds) < 15 || guests < int(seeds) {
		t.Errorf("%d receives of anybody have ended, kinds %v", guests, kinds)
	}
}
