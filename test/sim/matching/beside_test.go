package matching

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/pml"
	"gobtl/test/sim/cluster"
)

// badLabel is the label of a host that is no rank. It knows the ranks and the protocol, and sends
// to all of them what harms most.
const badLabel = "bad"

// bad is that host. Each of its messages is refused or waits for ever. None enters the matching, so
// the model of the ranks does not change.
type bad struct {
	*cluster.Host
	world  *world
	cfg    pml.Config
	random *rand.Rand
	over   bool
	sent   int
	ends   int // connections that ended
	kinds  map[string]int
}

// newBad adds a bad host to a world.
func newBad(t *testing.T, w *world, cfg pml.Config, seed uint64) *bad {
	t.Helper()
	b := &bad{
		Host: w.Add(badLabel), world: w, cfg: cfg, random: rand.New(rand.NewPCG(seed, 13)),
		kinds: make(map[string]int),
	}
	err := b.Open(btl.Config{
		SendBuffers: 64, RecvDepth: 64, MTUBytes: 700, Label: badLabel, Random: b.random.Uint64,
		PeerTimeout: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Mod.OnEndpoint(func(_ *btl.Endpoint, ev btl.Event, _ error) {
		if ev != btl.EventConnected {
			b.ends++
		}
	})
	b.Node.Run(b)
	return b
}

// Progress makes it the process of its host.
func (b *bad) Progress(now mono.Time) (int, error) { return b.Mod.Progress(now) }
func (b *bad) Deadline() mono.Time                 { return b.Mod.Deadline() }

// acts are the kinds of harm.
func (b *bad) acts() map[string]func(ep *btl.Endpoint) {
	envelope := func(kind byte, number uint32, size int) []byte {
		return append(of(head{kind: kind, number: number, b: 1, c: 1}), make([]byte, size)...)
	}
	most := uint32(b.cfg.EnvelopesMax)
	eager := max(b.cfg.EagerBytes, 0)
	return map[string]func(ep *btl.Endpoint){
		"early messages, and no first one": func(ep *btl.Endpoint) {
			for n := range most - 1 {
				b.send(ep, envelope(kindEager, n+1, min(eager, 100)))
			}
		},
		"early announcements": func(ep *btl.Endpoint) {
			for n := range most - 1 {
				b.send(ep, envelope(kindAnnounce, n+1, 0))
			}
		},
		"a number far ahead": func(ep *btl.Endpoint) { b.send(ep, envelope(kindEager, 1<<31, 0)) },
		"too large":          func(ep *btl.Endpoint) { b.send(ep, envelope(kindEager, 1, eager+1)) },
		"ids of others":      b.guess,
		"credit for the unsent": func(ep *btl.Endpoint) {
			b.send(ep, of(head{kind: kindCredit, number: 9}))
		},
		"random bytes": func(ep *btl.Endpoint) {
			junk := make([]byte, b.random.IntN(600))
			for i := range junk {
				junk[i] = byte(b.random.Uint32())
			}
			if len(junk) > 0 {
				junk[0] |= 0x80 // no kind of a message
			}
			b.send(ep, junk)
		},
		"other tags":      func(ep *btl.Endpoint) { b.sendTag(ep, 77, envelope(kindEager, 0, 9)) },
		"comes and goes":  func(ep *btl.Endpoint) { ep.Abort() },
		"makes no passes": func(*btl.Endpoint) { b.Pause(20 * time.Millisecond) },
	}
}

// guess names requests of the ranks by ids that may be in use, as fins, clears and matches.
func (b *bad) guess(ep *btl.Endpoint) {
	kind := []byte{kindClear, kindFin, kindMatched}[b.random.IntN(3)]
	b.send(ep, of(head{kind: kind, a: b.random.Uint64()<<24 | b.random.Uint64N(4), d: 1}))
}

func (b *bad) send(ep *btl.Endpoint, m []byte) { b.sendTag(ep, 0, m) }

func (b *bad) sendTag(ep *btl.Endpoint, tag btl.Tag, m []byte) {
	f, err := ep.Alloc(tag, len(m))
	if err != nil {
		return
	}
	copy(f.Bytes(), m)
	if _, err := ep.Send(b.world.Now(), f); err != nil {
		_ = ep.Free(f)
		return
	}
	b.sent++
}

// step does one thing to one rank, and comes again.
func (b *bad) step() {
	if b.over {
		return
	}
	acts := b.acts()
	names := slices.Sorted(maps.Keys(acts)) // the order of a map must not change the run
	name := names[b.random.IntN(len(names))]
	r := b.world.ranks[b.random.IntN(len(b.world.ranks))]
	if ep, err := b.Mod.Connect(b.world.Now(), r.Mod.Name()); err == nil && ep.Connected() {
		acts[name](ep)
		b.kinds[name]++
	}
	b.Kick()
	b.world.After(time.Duration(b.random.IntN(200))*time.Microsecond, b.step)
}

// Ranks beside a host that does all that harms have what the model gives them, and nothing of that
// host is left when it has gone.
func TestBesideBadHost(t *testing.T) {
	t.Parallel()
	const seeds = 24
	sent, ends, kinds := 0, 0, map[string]int{}
	for seed := range uint64(seeds) {
		cfg := modelConfig(rand.New(rand.NewPCG(seed, 21)))
		w := newWorld(t, seed, 2+int(seed%3), &cfg)
		b := newBad(t, w, cfg, seed)
		b.step()
		// When the ranks have done what they do, the bad one goes without a word.
		w.After(60*100*time.Microsecond+5*time.Millisecond, func() {
			b.over = true
			b.Crash()
		})
		if err := w.run(60, false); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sent, ends = sent+b.sent, ends+b.ends
		for name, n := range b.kinds {
			kinds[name] += n
		}
	}
	if sent < 50*seeds || ends < 3*seeds || len(kinds) < 10 {
		t.Errorf("%d messages, %d connections that ended, kinds %v", sent, ends, kinds)
	}
}
