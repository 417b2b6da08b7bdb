package reliability

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
)

// joinHost adds a peer of the named host.
func (l *lapsing) joinHost(name string, window int) *creditPeer {
	p := &creditPeer{window: window}
	p.rcv.Init(1<<32-50, window)
	l.pool.JoinHost(&p.rcv, name)
	l.peers = append(l.peers, p)
	return p
}

// TestCreditsOfManyIdle checks that idle peers, however many, leave the receive buffer to an active
// peer, and that their single credits keep no module from resting.
func TestCreditsOfManyIdle(t *testing.T) {
	t.Parallel()
	const capacity = 121
	for _, idle := range []int{10, capacity, 5 * capacity} {
		for _, host := range []string{"", "a"} { // hosts of their own, or one host with the active peer
			l := newLapsing(capacity)
			for range idle {
				p := l.join(0, 4096)
				if host != "" {
					l.leave(len(l.peers) - 1)
					p = l.joinHost(host, 4096)
				}
				l.use(t, p, 2)
			}
			l.wait(creditLapse)
			busy := l.joinHost("a", 4096)
			got := l.use(t, busy, 80)
			if least := capacity - capacity/spareShare - capacity/lapsedShare; got < least {
				t.Errorf("%d credits beside %d idle peers of host %q, want %d", got, idle, host, least)
			}
			if l.pool.Stretched() {
				t.Errorf("%d idle peers of host %q: stretched", idle, host)
			}
			if l.pool.Granted() > capacity {
				t.Errorf("%d of %d slots granted", l.pool.Granted(), capacity)
			}
		}
	}
}

// TestCreditsOfOneHost checks a peer beside active peers of one other host. Whether these peers use
// one credit in 15 ms or all their credits, the first peer gets half of the receive buffer.
func TestCreditsOfOneHost(t *testing.T) {
	t.Parallel()
	const capacity = 121
	for _, crowd := range []int{1, 16, 64, 128, 500} {
		for _, all := range []bool{false, true} {
			l := newLapsing(capacity)
			for range crowd {
				l.use(t, l.joinHost("crowd", 4096), 1)
			}
			busy := l.joinHost("other", 4096)
			rules, got := Usnic(), 0
			for range 40 { // 15 ms each
				for _, p := range l.peers[:crowd] {
					n := min(p.rcv.holds(), 1)
					if all {
						n = p.rcv.holds()
					}
					for range n {
						p.rcv.Accept(l.now, p.rcv.Next(), &rules)
					}
					if p.rcv.Grant(l.pool) == 0 {
						t.Fatal("a peer without credits")
					}
				}
				got = l.use(t, busy, 15)
			}
			if least := capacity / 2; got < least {
				t.Errorf("%d credits beside %d peers of one host (all use all: %v), want %d", got, crowd, all,
					least)
			}
			if all && l.pool.Granted() < capacity*3/4 {
				t.Errorf("%d peers: only %d of %d slots granted", crowd, l.pool.Granted(), capacity)
			}
		}
	}
}

// TestCreditsOfHosts checks peers of several hosts that use their credits, rest, leave and come
// back. Together they take no more than the receive buffer and one slot each.
func TestCreditsOfHosts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 300).Draw(t, "capacity")
		pool, rules, now := NewCredits(capacity), Usnic(), mono.Time(1)
		pool.At(now)
		var peers []*Receiver
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				r := &Receiver{}
				r.Init(drawFirst(t), 1<<rapid.IntRange(0, 12).Draw(t, "windowShift"))
				if host := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "host"); host == "" {
					pool.Join()
				} else {
					pool.JoinHost(r, host)
				}
				peers = append(peers, r)
			},
			"use": func(t *rapid.T) {
				if len(peers) == 0 {
					t.Skip("nobody there")
				}
				r := rapid.SampledFrom(peers).Draw(t, "peer")
				for range rapid.IntRange(1, 12).Draw(t, "times") {
					for range min(r.holds(), rapid.Uint32Range(0, 100).Draw(t, "packets")) {
						r.Accept(now, r.Next(), &rules)
					}
					if r.Grant(pool) == 0 {
						t.Fatal("no credit")
					}
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "ms")) * time.Millisecond)
				pool.At(now)
			},
			"leave": func(t *rapid.T) {
				if len(peers) > 0 {
					i := rapid.IntRange(0, len(peers)-1).Draw(t, "peer")
					peers[i].Leave(pool)
					pool.Leave()
					peers = append(peers[:i:i], peers[i+1:]...)
				}
			},
			"": func(t *rapid.T) {
				if err := pool.Check(); err != nil {
					t.Fatal(err)
				}
				places := 0
				for _, r := range peers {
					if err := r.CheckState(); err != nil {
						t.Fatal(err)
					}
					places += r.Booked()
				}
				if places != pool.Granted() || places > capacity+len(peers) {
					t.Fatalf("%d places of %d, the pool says %d", places, capacity, pool.Granted())
				}
			},
		})
		for _, r := range peers {
			r.Leave(pool)
			pool.Leave()
		}
		if pool.Granted() != 0 || len(pool.named) != 0 || pool.further != 0 || pool.Share() != capacity {
			t.Fatalf("left behind: %d slots, %d hosts, %d further peers", pool.Granted(), len(pool.named),
				pool.further)
		}
	})
}

// TestGrantAllocatesNothing checks that a peer of a crowded host costs no memory per grant.
func TestGrantAllocatesNothing(t *testing.T) {
	l := newLapsing(20)
	for range 30 {
		l.use(t, l.joinHost("crowd", 4096), 1)
	}
	rules := Usnic()
	if n := testing.AllocsPerRun(100, func() {
		for _, p := range l.peers {
			l.wait(time.Millisecond)
			p.rcv.Accept(l.now, p.rcv.Next(), &rules)
			p.rcv.Grant(l.pool)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
