package reliability

import (
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// creditPeer is a peer in the model of the pool. The model uses absolute numbers of packets instead
// of sequence numbers that wrap.
type creditPeer struct {
	rcv     Receiver
	window  int
	limit   int64 // packets that the peer may have sent
	next    int64 // packets received in order
	charged int64 // the last grant
	earned  earned
	short   bool // granted less than the peer needs, and less than its share
}

func (p *creditPeer) held() int64 { return max(p.limit-p.next, 0) }

// creditModel is a pool with its peers.
type creditModel struct {
	pool  *Credits
	peers []*creditPeer
	gone  []*creditPeer // gone peers may still use their credits, and get ACKs
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
	m.gone = append(m.gone, m.peers[i])
	m.peers = append(m.peers[:i:i], m.peers[i+1:]...)
}

// answer acknowledges packets of a peer that is gone. The peer is told its remaining credits and
// granted no more, whatever number of credits the peer has used.
func (m *creditModel) answer(t failer, p *creditPeer) {
	t.Helper()
	booked := m.pool.Granted()
	ack, credit, _ := p.rcv.TakeAck(m.pool)
	if ack != p.rcv.Next()-1 || int64(credit) != p.held() {
		t.Fatalf("gone: ACK of packet %d (next is %d) with %d credits, it holds %d", ack, p.rcv.Next(),
			credit, p.held())
	}
	if got := p.rcv.Grant(m.pool); int64(got) != p.held() {
		t.Fatalf("gone: granted %d, it holds %d", got, p.held())
	}
	p.rcv.Leave(m.pool) // a second Leave changes nothing
	if m.pool.Granted() != booked {
		t.Fatalf("%d granted before and %d after the answer to one that is gone", booked,
			m.pool.Granted())
	}
}

// take counts packets that arrive in order. Only a peer that breaks the rules sends more packets
// than granted.
func (m *creditModel) take(p *creditPeer, packets int64) {
	rules := Usnic()
	for range packets {
		p.rcv.Accept(0, p.rcv.Next(), &rules)
		p.next++
	}
}

// grant renews a peer's credits, and compares the credits with the rules of the pool.
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
	most := p.earned.grant(p.next, int64(p.window))
	left := free
	free = p.earned.free(free, int64(len(m.peers)))
	allowed, lack := share, false
	for _, q := range m.peers {
		lack = lack || q != p && q.short
	}
	if !lack && free == left {
		allowed = max(allowed, left-int64(m.pool.Capacity())/spareShare)
	}
	got := int64(p.rcv.Grant(m.pool))
	want := max(min(allowed, free, most), held, 1)
	p.short = 2*held <= p.charged && want < min(share, most)
	if got != want {
		t.Fatalf("granted %d, want %d: share %d, free %d, earned %d, held %d, window %d", got, want,
			share, free, most, held, p.window)
	}
	if got > max(int64(m.pool.Capacity())-others, held, 1) {
		t.Fatalf("granted %d of %d free to a peer that held %d", got, free, held)
	}
	if p.next+got < p.limit {
		t.Fatalf("limit retreats from %d to %d", p.limit, p.next+got)
	}
	p.limit, p.charged = p.next+got, got
	p.earned.given(p.next, got)
}

// check checks the guarantee of the pool. Within the peers' limits, the packets in transit do not
// exceed the pool's capacity, except for single packets of peers that found the pool empty. No peer
// holds credits that it did not earn, and each doubling uses a quarter of the previous credits.
func (m *creditModel) check(t failer) {
	t.Helper()
	booked, onTheWay, singles := int64(0), int64(0), int64(0)
	for _, p := range m.peers {
		booked += p.charged
		onTheWay += p.held()
		if p.charged == 1 {
			singles++
		}
		if p.charged > min(firstCredits+4*p.next, int64(p.window)) {
			t.Fatalf("%d credits after %d packets, window %d", p.charged, p.next, p.window)
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
			"takeQuarter": func(t *rapid.T) {
				p := pick(t)
				m.grant(t, p)
				m.take(p, min(p.held(), p.earned.credits/4+rapid.Int64Range(-1, 0).Draw(t, "off")))
				m.grant(t, p)
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
			"use": func(t *rapid.T) {
				p := pick(t)
				for range rapid.IntRange(1, 9).Draw(t, "times") {
					m.take(p, p.held())
					m.grant(t, p)
				}
			},
			"answer": func(t *rapid.T) {
				if len(m.gone) == 0 {
					t.Skip("nobody gone")
				}
				p := rapid.SampledFrom(m.gone).Draw(t, "gone")
				m.take(p, rapid.Int64Range(0, p.held()+2).Draw(t, "packets"))
				m.answer(t, p)
			},
			"": func(t *rapid.T) { m.check(t) },
		})
		m.settle(t)
		for len(m.peers) > 0 {
			m.leave(0)
			m.check(t)
		}
		for _, p := range m.gone {
			m.take(p, p.held())
			m.answer(t, p)
		}
		if m.pool.Granted() != 0 {
			t.Fatalf("%d still granted to nobody", m.pool.Granted())
		}
		if p := m.join(0, 1); m.pool.Share() != capacity {
			t.Fatalf("share of the only peer: %d of %d, %v", m.pool.Share(), capacity, p)
		}
	})
}

// settle makes all peers use their credits repeatedly. After a few rounds, of single packets at
// worst, no peer is a newcomer any more. Each further round doubles the permitted credits.
func (m *creditModel) settle(t failer) {
	t.Helper()
	for range firstCredits / 4 {
		for _, p := range m.peers {
			m.take(p, p.held())
			m.grant(t, p)
			m.check(t)
		}
	}
	for round, most := 1, firstCredits; most <= WindowMax; round++ {
		for _, p := range m.peers {
			m.take(p, p.held())
			m.grant(t, p)
			m.check(t)
		}
		if round < 2 {
			continue
		}
		for _, p := range m.peers {
			if least := int64(min(m.pool.Share(), p.window, most)); p.charged < least {
				t.Fatalf("round %d: %d credits, want %d at least", round, p.charged, least)
			}
		}
		most *= 2
	}
	for _, p := range m.peers {
		if want := int64(min(m.pool.Share(), p.window)); p.charged < want {
			t.Fatalf("%d credits, the share is %d", p.charged, want)
		}
	}
}

// TestCreditsGrowth checks that credits double with each grant after a quarter of the credits was
// used, and with no other grant, up to share and window.
func TestCreditsGrowth(t *testing.T) {
	t.Parallel()
	type step struct{ use, want int64 } // packets, and the grant after them
	cases := []struct {
		name             string
		capacity, window int
		steps            []step
	}{
		{"idle", 4096, 4096, []step{{0, 32}, {0, 32}, {0, 32}}},
		{"a quarter", 4096, 4096, []step{
			{0, 32},
			{8, 64},
			{16, 128},
			{32, 256},
			{64, 512},
			{128, 1024},
			{256, 2048},
			{512, 4096},
			{1024, 4096},
		}},
		{"all", 4096, 4096, []step{{0, 32}, {32, 64}, {64, 128}, {128, 256}}},
		{"a quarter in two steps", 4096, 4096, []step{{0, 32}, {7, 32}, {1, 64}, {15, 64}, {1, 128}}},
		{"kept while idle", 4096, 4096, []step{{0, 32}, {8, 64}, {0, 64}, {0, 64}, {16, 128}}},
		{"more than granted", 4096, 4096, []step{{0, 32}, {500, 64}, {15, 64}, {500, 128}}},
		{"before the first grant", 4096, 4096, []step{{500, 32}, {7, 32}}},
		{"up to the share", 100, 4096, []step{{0, 25}, {8, 64}, {16, 100}, {100, 100}}},
		{"up to the window", 4096, 64, []step{{0, 32}, {8, 64}, {64, 64}}},
		{"window below the first credits", 4096, 16, []step{{0, 16}, {16, 16}}},
		{"share below the first credits", 20, 4096, []step{{0, 5}, {7, 5}, {20, 20}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachStart(t, func(t *testing.T, first seq.Num) {
				m := &creditModel{pool: NewCredits(c.capacity)}
				p := m.join(first, c.window)
				for i, s := range c.steps {
					m.take(p, s.use)
					m.grant(t, p)
					m.check(t)
					if p.charged != s.want {
						t.Fatalf("step %d: %d credits, want %d", i, p.charged, s.want)
					}
				}
			})
		})
	}
}

// TestCreditsIdle checks that idle peers keep their initial credits, however often credits are
// granted, and leave all other credits to the active peer.
func TestCreditsIdle(t *testing.T) {
	t.Parallel()
	m := &creditModel{pool: NewCredits(1000)}
	for range 4 {
		p := m.join(0, 4096)
		for range 20 {
			m.grant(t, p)
			if p.charged != firstCredits {
				t.Fatalf("an idle peer holds %d", p.charged)
			}
		}
	}
	busy := m.join(1<<32-50, 4096)
	for range 20 {
		m.take(busy, busy.held())
		m.grant(t, busy)
		m.check(t)
	}
	if busy.charged != 747 || m.pool.Granted() != 747+4*firstCredits { // an eighth of 1000 stays free
		t.Fatalf("%d of a share of 200, %d granted", busy.charged, m.pool.Granted())
	}
}

// TestCreditsNewcomer checks that the first peer keeps its earned credits for a while. A newcomer
// gets single packets, each acknowledged at once, until the first peer sends and thereby gives up
// credits. If the first peer never used its credits, the newcomer has its own initial credits from
// the beginning.
func TestCreditsNewcomer(t *testing.T) {
	t.Parallel()
	m := &creditModel{pool: NewCredits(100)}
	first := m.join(7, 4096)
	for range 5 {
		m.grant(t, first)
		m.take(first, first.held())
	}
	m.grant(t, first) // the first peer has all credits, and becomes idle
	newcomer := m.join(1<<32-20, 4096)
	rules := Usnic()
	for now := range mono.Time(50) {
		if m.grant(t, newcomer); newcomer.charged != 1 || m.pool.Granted() != 101 {
			t.Fatalf("the newcomer has %d, %d granted", newcomer.charged, m.pool.Granted())
		}
		newcomer.rcv.Accept(now, newcomer.rcv.Next(), &rules)
		newcomer.next++
		if newcomer.rcv.AckDue() != now {
			t.Fatalf("packet %d: ACK due at %d, now is %d", newcomer.next, newcomer.rcv.AckDue(), now)
		}
		m.check(t)
		if _, credit, _ := newcomer.rcv.TakeAck(m.pool); credit != 1 {
			t.Fatalf("packet %d: ACK with %d credits", newcomer.next, credit)
		}
	}
	for i, want := range []int64{10, 20, 30, 40, 50} { // the first peer sends ten packets each time
		m.take(first, 10)
		m.grant(t, first)
		m.take(newcomer, newcomer.held())
		if m.grant(t, newcomer); newcomer.charged != want {
			t.Fatalf("%d: the newcomer has %d, want %d", i, newcomer.charged, want)
		}
		m.check(t)
	}

	idle := &creditModel{pool: NewCredits(100)}
	for i, want := range []int64{25, 19, 14, 11, 7} {
		p := idle.join(0, 4096)
		if idle.grant(t, p); p.charged != want {
			t.Fatalf("peer %d has %d, want %d", i, p.charged, want)
		}
		idle.check(t)
	}
}

// TestCreditsLeft checks a peer that is gone but sends packets within and beyond its credits. The
// peer is granted no more, and the other peers may have the whole pool.
func TestCreditsLeft(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		m := &creditModel{pool: NewCredits(100)}
		p := m.join(first, 4096)
		m.grant(t, p)
		m.take(p, 12)
		m.leave(0)
		for _, packets := range []int64{0, 12, 8, 0, 3} { // the last three exceed the credits
			m.take(p, packets)
			m.answer(t, p)
			if m.pool.Granted() != 0 {
				t.Fatalf("%d granted to one that is gone", m.pool.Granted())
			}
		}
		other := m.join(0, 4096)
		m.settle(t)
		m.answer(t, p)
		if other.charged != 100 || m.pool.Granted() != 100 {
			t.Fatalf("the other has %d, %d granted", other.charged, m.pool.Granted())
		}
		p.rcv.Init(first, 4096) // the peer comes back
		if p.rcv.Grant(m.pool) != 1 || m.pool.Granted() != 101 {
			t.Fatalf("%d granted after it came back", m.pool.Granted())
		}
	})
}

// TestCreditsShare shows the rule of the pool by an example.
func TestCreditsShare(t *testing.T) {
	t.Parallel()
	m := &creditModel{pool: NewCredits(100)}
	first := m.join(1<<32-50, 4096)
	m.settle(t)
	if first.charged != 100 {
		t.Fatalf("the only peer has %d", first.charged)
	}
	used := first.next
	second := m.join(0, 4096)
	m.grant(t, second) // the pool is empty: one packet, which prevents an endless wait
	if second.charged != 1 || m.pool.Granted() != 101 {
		t.Fatalf("the second has %d, %d granted", second.charged, m.pool.Granted())
	}
	m.take(first, 30)
	m.grant(t, first) // still above its share: no new credits, none taken back
	if first.charged != 70 || first.limit != used+100 {
		t.Fatalf("the first has %d up to packet %d", first.charged, first.limit)
	}
	m.take(first, 60)
	m.grant(t, first)
	m.grant(t, second)
	if first.charged != 50 || second.charged != 13 { // a quarter of the free credits
		t.Fatalf("%d and the newcomer's %d", first.charged, second.charged)
	}
	m.take(second, 8)
	m.grant(t, second)
	if first.charged != 50 || second.charged != 50 {
		t.Fatalf("shares %d and %d", first.charged, second.charged)
	}
	m.leave(0)
	m.take(second, 16)
	m.grant(t, second)
	if second.charged != 100 {
		t.Fatalf("the only one again: %d", second.charged)
	}
	m.check(t)
}

// TestCreditsSmallWindow checks that credits that a window cannot use stay in the pool.
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

// TestCreditsExtremes checks sizes at the limits of the numbers on the wire.
func TestCreditsExtremes(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{-5, 0, 1} {
		if got := NewCredits(capacity).Capacity(); got != 1 {
			t.Errorf("capacity %d became %d", capacity, got)
		}
	}
	huge := &creditModel{pool: NewCredits(1 << 28)}
	p := huge.join(1<<32-1, 1<<16)
	got := p.rcv.Grant(huge.pool)
	for want := 64; want <= 1<<17; want *= 2 { // one round more than necessary to fill the field
		huge.take(p, int64(got))
		if got = p.rcv.Grant(huge.pool); int(got) != min(want, 1<<16-1) {
			t.Fatalf("%d credits, want %d", got, want)
		}
	}
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
