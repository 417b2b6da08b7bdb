package reliability

import (
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/seq"
)

// creditPeer is a peer as the pool's model sees it: absolute numbers of packets instead of sequence
// numbers that wrap.
type creditPeer struct {
	rcv     Receiver
	window  int
	limit   int64 // packets that it may have sent
	next    int64 // packets received in order
	charged int64 // the last grant
}

func (p *creditPeer) held() int64 { return max(p.limit-p.next, 0) }

// creditModel is a pool with its peers.
type creditModel struct {
	pool  *Credits
	peers []*creditPeer
}

func (m *creditModel) join(first seq.Num, window int) *creditPeer {
	p := &creditPeer{window: window}
	p.rcv.Init(first, window)
	m.pool.Join()
	m.peers = append(m.peers, p)
	return p
}

func (m *creditModel) leave(i int) {
	m.peers[i].rcv.Leave(m.pool)
	m.pool.Leave()
	m.peers = append(m.peers[:i:i], m.peers[i+1:]...)
}

// take books packets that arrive in order; more than granted only from a peer that breaks the
// rules.
func (m *creditModel) take(p *creditPeer, packets int64) {
	rules := Usnic()
	for range packets {
		p.rcv.Accept(0, p.rcv.Next(), &rules)
		p.next++
	}
}

// grant renews a peer's credits and compares them with what the rules of the pool allow.
func (m *creditModel) grant(t failer, p *creditPeer) {
	t.Helper()
	others := int64(0)
	for _, q := range m.peers {
		if q != p {
			others += q.charged
		}
	}
	free := int64(m.pool.Capacity()) - others
	share := max(1, int64(m.pool.Capacity())/int64(len(m.peers)))
	held := p.held()
	got := int64(p.rcv.Grant(m.pool))
	want := min(max(min(share, free), held, 1), int64(p.window))
	if got != want {
		t.Fatalf("granted %d, want %d: share %d, free %d, held %d, window %d", got, want, share, free,
			held, p.window)
	}
	if got > max(free, held, 1) {
		t.Fatalf("granted %d of %d free to a peer that held %d", got, free, held)
	}
	if p.next+got < p.limit {
		t.Fatalf("limit retreats from %d to %d", p.limit, p.next+got)
	}
	p.limit, p.charged = p.next+got, got
}

// check is the promise of the pool: whatever the peers do within their limits, no more than its
// capacity is on the way, but for single packets of peers that found it empty.
func (m *creditModel) check(t failer) {
	t.Helper()
	booked, onTheWay, singles := int64(0), int64(0), int64(0)
	for _, p := range m.peers {
		booked += p.charged
		onTheWay += p.held()
		if p.charged == 1 {
			singles++
		}
	}
	if int64(m.pool.Granted()) != booked {
		t.Fatalf("%d granted, the peers know of %d", m.pool.Granted(), booked)
	}
	capacity := int64(m.pool.Capacity())
	if onTheWay > booked || booked > capacity+singles {
		t.Fatalf("%d on the way, %d granted, capacity %d, %d single packets", onTheWay, booked,
			capacity, singles)
	}
}

func TestCreditsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(20, 20000)).Draw(t, "capacity")
		m := &creditModel{pool: NewCredits(capacity)}
		pick := func(t *rapid.T) *creditPeer {
			if len(m.peers) == 0 {
				t.Skip("nobody there")
			}
			return rapid.SampledFrom(m.peers).Draw(t, "peer")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				window := 1 << rapid.IntRange(0, 12).Draw(t, "windowShift")
				m.join(rapid.SampledFrom(starts).Draw(t, "first"), window)
			},
			"leave": func(t *rapid.T) {
				if len(m.peers) > 0 {
					m.leave(rapid.IntRange(0, len(m.peers)-1).Draw(t, "peer"))
				}
			},
			"take": func(t *rapid.T) {
				p := pick(t)
				m.take(p, rapid.Int64Range(0, p.held()).Draw(t, "packets"))
			},
			"takeAll": func(t *rapid.T) {
				p := pick(t)
				m.take(p, p.held())
			},
			"takeTooMuch": func(t *rapid.T) {
				p := pick(t)
				m.take(p, p.held()+rapid.Int64Range(1, 9).Draw(t, "packets"))
			},
			"grant":      func(t *rapid.T) { m.grant(t, pick(t)) },
			"grantAgain": func(t *rapid.T) { p := pick(t); m.grant(t, p); m.grant(t, p) },
			"":           func(t *rapid.T) { m.check(t) },
		})
		// Once everybody has used up what it had, two rounds of grants leave each with its share.
		for range 2 {
			for _, p := range m.peers {
				m.take(p, p.held())
				m.grant(t, p)
				m.check(t)
			}
		}
		for _, p := range m.peers {
			if want := int64(min(m.pool.Share(), p.window)); p.charged != want {
				t.Fatalf("%d credits, the share is %d", p.charged, want)
			}
		}
		for len(m.peers) > 0 {
			m.leave(0)
			m.check(t)
		}
		if m.pool.Granted() != 0 {
			t.Fatalf("%d still granted to nobody", m.pool.Granted())
		}
		if p := m.join(0, 1); m.pool.Share() != capacity {
			t.Fatalf("share of the only peer: %d of %d, %v", m.pool.Share(), capacity, p)
		}
	})
}

// TestCreditsShare is the pool's rule by example.
func TestCreditsShare(t *testing.T) {
	t.Parallel()
	m := &creditModel{pool: NewCredits(100)}
	first := m.join(1<<32-50, 4096)
	m.grant(t, first)
	if first.charged != 100 {
		t.Fatalf("the only peer has %d", first.charged)
	}
	second := m.join(0, 4096)
	m.grant(t, second) // the pool is empty: one packet, so that it does not wait for nothing
	if second.charged != 1 || m.pool.Granted() != 101 {
		t.Fatalf("the second has %d, %d granted", second.charged, m.pool.Granted())
	}
	m.take(first, 30)
	m.grant(t, first) // still above its share: nothing new, nothing taken back
	if first.charged != 70 || first.limit != 100 {
		t.Fatalf("the first has %d up to packet %d", first.charged, first.limit)
	}
	m.take(first, 60)
	m.grant(t, first)
	m.grant(t, second)
	if first.charged != 50 || second.charged != 50 {
		t.Fatalf("shares %d and %d", first.charged, second.charged)
	}
	m.leave(0)
	m.grant(t, second)
	if second.charged != 100 {
		t.Fatalf("alone again: %d", second.charged)
	}
	m.check(t)
}

// TestCreditsSmallWindow: what a window cannot use stays in the pool.
func TestCreditsSmallWindow(t *testing.T) {
	t.Parallel()
	m := &creditModel{pool: NewCredits(10000)}
	for range 3 {
		p := m.join(0, 64)
		for range 5 {
			m.grant(t, p)
			m.take(p, p.held())
			m.check(t)
		}
		if m.pool.Granted() != 64 {
			t.Fatalf("%d granted for a window of 64", m.pool.Granted())
		}
		m.leave(0)
		if m.pool.Granted() != 0 {
			t.Fatalf("%d granted to nobody", m.pool.Granted())
		}
	}
}

// TestCreditsExtremes: sizes at which the numbers on the wire end.
func TestCreditsExtremes(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{-5, 0, 1} {
		if got := NewCredits(capacity).Capacity(); got != 1 {
			t.Errorf("capacity %d became %d", capacity, got)
		}
	}
	huge := &creditModel{pool: NewCredits(1 << 40)}
	p := huge.join(1<<32-1, 1<<16)
	got := p.rcv.Grant(huge.pool)
	if got != 65535 || huge.pool.Granted() != 65535 {
		t.Errorf("%d credits, %d granted; the field on the wire holds 65535", got, huge.pool.Granted())
	}
	crowd := &creditModel{pool: NewCredits(3)}
	for range 10 {
		crowd.grant(t, crowd.join(0, 4096))
		crowd.check(t)
	}
	if crowd.pool.Share() != 1 {
		t.Errorf("share %d", crowd.pool.Share())
	}
	if empty := NewCredits(7); empty.Share() != 7 {
		t.Errorf("share of nobody: %d", empty.Share())
	}
}
