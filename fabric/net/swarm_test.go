package net_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/internal/testenv"
)

const (
	swarmNodes   = 8
	swarmSenders = 4  // goroutines of each node that send at once
	swarmEach    = 60 // messages of each of them
	swarmTag     = btl.Tag(1)
	swarmHead    = 16 // bytes: sender, receiver, number, size

	swarmMTUBytes = 1472
)

// swarm is some nodes in one process that send each other messages through real sockets.
type swarm struct {
	nodes [swarmNodes]*runner.Runner
	names [swarmNodes][]byte

	mu  sync.Mutex
	got [swarmNodes][swarmSenders * swarmEach]int // deliveries of each message, by sender and number
	bad int                                       // messages that nobody has sent
}

// open opens a node over a provider whose datagrams get lost, doubled and reordered.
func (s *swarm) open(t *testing.T, i int, provider string, seed uint64) {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: provider, Node: "127.0.0.1"})
	check(t, err)
	cfg := btl.Config{MTUBytes: swarmMTUBytes} // the buffers of many nodes are small
	sizes, err := cfg.DomainConfig(infos[0])
	check(t, err)
	d, err := impair.Open(infos[0], impair.Reserve(sizes), impair.Faults{
		Seed: seed + uint64(i), Loss: .01, Dup: .02, Reorder: .05,
	})
	check(t, err)
	m, err := btl.Open(d, cfg)
	check(t, err)
	check(t, m.Handle(swarmTag, func(_ *btl.Endpoint, _ btl.Tag, b []byte) { s.note(i, b) }))
	s.names[i] = m.Name()
	s.nodes[i] = runner.New(m, runner.Config{Wait: runner.WaitEvent}, nil)
}

// swarmMessage makes the message of a sender with a number. Each byte behind the head depends on
// both.
func swarmMessage(from, to, number, size int) []byte {
	b := make([]byte, swarmHead+size)
	for i, v := range []int{from, to, number, size} {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	for i := range size {
		b[swarmHead+i] = byte(from + 7*number + i + i>>8)
	}
	return b
}

// note records a message that node i was given.
func (s *swarm) note(i int, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) < swarmHead {
		s.bad++
		return
	}
	from, number := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[8:]))
	if from >= swarmNodes || number >= swarmSenders*swarmEach ||
		string(b) != string(swarmMessage(from, i, number, len(b)-swarmHead)) {
		s.bad++
		return
	}
	s.got[from][number]++
}

// send sends the messages of one goroutine of a node to nodes and of sizes drawn at random.
func (s *swarm) send(ctx context.Context, t *testing.T, from, sender int, random *rand.Rand) {
	const largest = 17 // binary logarithm
	for n := range swarmEach {
		to := (from + 1 + random.IntN(swarmNodes-1)) % swarmNodes
		ep, err := s.nodes[from].Connect(ctx, s.names[to])
		if err == nil {
			size := random.IntN(1 << random.IntN(largest))
			err = s.nodes[from].Send(ctx, ep, swarmTag,
				swarmMessage(from, to, sender*swarmEach+n, size))
		}
		if err != nil {
			t.Errorf("node %d, message %d to %d: %v", from, n, to, err)
			return
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes over provider net, and nodes over net beside nodes over udp, send each other messages of
// all sizes at random. Each message is delivered once, to its receiver alone, and whole.
func TestSwarm(t *testing.T) {
	for name, providers := range map[string][]string{"net": {"net"}, "net and udp": {"net", "udp"}} {
		t.Run(name, func(t *testing.T) {
			seed := testenv.Seed(t, rand.Uint64())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := &swarm{}
			for i := range s.nodes {
				s.open(t, i, providers[i%len(providers)], seed)
			}
			var all sync.WaitGroup
			for i := range s.nodes {
				for sender := range swarmSenders {
					random := rand.New(rand.NewPCG(seed, uint64(i*swarmSenders+sender)))
					all.Go(func() { s.send(ctx, t, i, sender, random) })
				}
			}
			all.Wait()
			for i, r := range s.nodes {
				if err := r.Close(ctx); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
			}
			for from := range s.got {
				for number, count := range s.got[from] {
					if count != 1 {
						t.Errorf("message %d of node %d was delivered %d times", number, from, count)
					}
				}
			}
			if s.bad > 0 {
				t.Errorf("%d messages were not as they were sent", s.bad)
			}
		})
	}
}
