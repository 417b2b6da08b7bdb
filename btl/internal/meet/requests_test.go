package meet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/frag"
	"gobtl/internal/mono"
)

// keptHello is a Hello with valid cookies for its addresses.
func keptHello(s *Handshakes[*node], now Time, addr string, tag uint64) *frag.Hello {
	hello := &frag.Hello{
		Incarnation: 9, Tag: tag, CommandName: []byte(addr), DataName: []byte(addr + "d"),
		WindowPkts: 64, MTUBytes: 1500, CommandBytes: 768, Nonce: 77, Features: frag.FeatureKept,
	}
	hello.CommandCookie = slices.Clone(s.strangers.Retry(now, hello, hello.CommandName).Cookie)
	data := *hello
	data.Probe = frag.ProbeData
	hello.DataCookie = slices.Clone(s.strangers.Retry(now, &data, hello.DataName).Cookie)
	return hello
}

// newKeeping returns Handshakes whose application keeps every request for 5 s.
func newKeeping(t *testing.T, limits Limits) (*Handshakes[*node], *fakeHost) {
	t.Helper()
	s, h := newHandshakes(t, 8)
	s.peers.Init(func(n *node) *End[*node] { return &n.id }, 8, streets{}, limits)
	h.answer.Reason, h.answer.Code = frag.RejectKept, 5000
	return s, h
}

func (h *fakeHost) hello(hello *frag.Hello) bool {
	return h.s.OnHello(hello.Probe, &frag.Header{}, hello, 1000, Claimed(hello, hello.Probe))
}

// The requests of one host take a quarter of the places, and those of other hosts the rest.
func TestHostsShareKeptRequests(t *testing.T) {
	s, h := newKeeping(t, Limits{PerAddress: 100, PerHost: 100, HalfOpen: 8})
	kept := map[string]int{}
	for _, street := range []string{"a", "b", "c", "d", "e"} {
		for i := range 6 {
			h.now = h.now.Add(time.Millisecond)
			h.hello(keptHello(s, h.now, fmt.Sprintf("%s:%d", street, i), 5))
			last := h.rejects[len(h.rejects)-1]
			if id := h.asked[len(h.asked)-1]; (id != 0) != (last.Reason == frag.RejectKept) {
				t.Fatalf("id %d, and the answer %+v", id, last)
			} else if id != 0 {
				kept[street]++
			} else if last.Reason != frag.RejectLater {
				t.Fatalf("the answer %+v", last)
			}
			if err := s.CheckRequests(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept["a"] != 2 || kept["d"] != 2 || kept["e"] != 0 || s.Requests() != 8 {
		t.Errorf("kept %v", kept)
	}
	h.now = h.now.Add(6 * time.Second)
	if !s.OnRequestsTimer() || s.Requests() != 0 || s.Kept.WakeAt != mono.Never {
		t.Errorf("%d requests stay, the next deadline is %d", s.Requests(), s.Kept.WakeAt)
	}
	if err := s.CheckRequests(); err != nil {
		t.Error(err)
	}
}

// The peer of a decided request is told again and again, with pauses that double, until it asks.
func TestDecisionIsToldUntilAsked(t *testing.T) {
	for _, asks := range []bool{false, true} {
		s, h := newKeeping(t, Limits{PerAddress: 100, PerHost: 100, HalfOpen: 8})
		hello := keptHello(s, h.now, "a:1", 5)
		h.hello(hello)
		h.rejects = nil
		h.now++ // a pass has one Reject for an address
		if !s.Decide(h.asked[0], Answer{Reject: frag.Reject{Reason: frag.RejectOwner, Code: 3}}) {
			t.Fatal("not decided")
		}
		decided := h.now
		if asks {
			h.now++
			h.hello(hello)
			if last := h.rejects[len(h.rejects)-1]; last.Reason != frag.RejectOwner || last.Code != 3 ||
				last.Nonce != hello.Nonce {
				t.Errorf("the answer is %+v", last)
			}
		}
		for s.Requests() > 0 {
			most := 8 * time.Second // the peer asks after 5 s by itself
			if asks {
				most = 3*time.Second + 1
			}
			if h.now = max(h.now+1, s.Kept.WakeAt); h.now.Sub(decided) > most {
				t.Fatalf("kept for %v after the decision", h.now.Sub(decided))
			}
			s.OnRequestsTimer()
			if err := s.CheckRequests(); err != nil {
				t.Fatal(err)
			}
		}
		told := 0
		for _, r := range h.rejects {
			if r.Reason == frag.RejectKept && r.Code == 0 && r.Nonce == hello.Nonce {
				told++
			}
		}
		// 0, 20, 60, 140, 300, 620 ms, and then every 500 ms until 3 s.
		if asks && told != 1 || !asks && told != 10 {
			t.Errorf("told %d times, the peer has asked: %v", told, asks)
		}
	}
}

// A side follows a peer's word only with the nonce of its Hello, only to modules of the peer's
// host, and gives up otherwise.
func TestMovedOnlyOnTheHost(t *testing.T) {
	for _, test := range []struct {
		addr   string
		nonce  uint64 // added to the right one
		ended  bool
		follow bool
	}{
		{"a:9", 0, false, true},
		{"a:9", 1, false, false},
		{"b:9", 0, true, false},
	} {
		s, h := newKeeping(t, Limits{PerAddress: 100, PerHost: 100, HalfOpen: 8})
		ep, err := s.Dial([]byte("a:1"), []byte("a:2"), 768, 1500)
		if err != nil {
			t.Fatal(err)
		}
		name, err := (&frag.Name{
			Provider: "test", Incarnation: 4, MTUBytes: 1500, CommandBytes: 768,
			Command: []byte(test.addr), Data: []byte(test.addr + "d"),
		}).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		before := ep.id.Tag
		ep.id.Agreement = Agreement{Selective: true} // of a handshake that has begun again since
		s.OnHelloAck(0, &frag.Header{Conn: before}, &frag.Hello{
			Incarnation: 3, Tag: 8, Nonce: ep.id.Handshake.Nonces[0] + test.nonce, Moved: name,
		})
		follows := ep.id.Addr == test.addr && ep.id.Peer.Incarnation == 4 && s.peers.Known(ep)
		if follows != test.follow || len(h.ended) > 0 != test.ended || test.ended && h.why != WhyMisled {
			t.Errorf("%+v: follows %v, ended %v, %v", test, follows, len(h.ended) > 0, h.why)
		}
		if err := s.peers.Check(); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
		if !follows {
			continue
		}
		if ep.id.Agreement != (Agreement{}) {
			t.Errorf("agreed with the module that has moved the endpoint: %+v", ep.id.Agreement)
		}
		if ep.id.Tag == before || s.peers.Lookup(before) == ep {
			t.Error("the module that has moved the endpoint can still send to it")
		}
		s.OnHelloAck(0, &frag.Header{Conn: ep.id.Tag}, &frag.Hello{
			Incarnation: 4, Tag: 8, Nonce: ep.id.Handshake.Nonces[0], Moved: name,
		})
		if len(h.ended) != 1 || h.why != WhyMisled {
			t.Errorf("moved twice: %d ended, %v", len(h.ended), h.why)
		}
	}
}

// An endpoint that moves leaves the address to the endpoint that it had displaced, and displaces
// the one at the other address.
func TestTableMove(t *testing.T) {
	table := newTable(8)
	first, second := put(table, "a", 1, Connected), put(table, "a", 2, Connecting)
	table.LeadTo(first)
	table.Displace(second, first)
	third, there := put(table, "a", 3, Connecting), put(table, "b", 7, Connected)
	table.Displace(third, second)
	table.LeadTo(there)
	table.Move(second, "b")
	if table.ByAddr("a") != third || third.id.Displaced() != first || table.ByAddr("b") != there ||
		there.id.Displaced() != second || len(table.atAddr["a"]) != 2 {
		t.Errorf("at a %p behind %p, at b %p behind %p", table.ByAddr("a"), third.id.Displaced(),
			table.ByAddr("b"), second.id.Displaced())
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
	if table.Remove(there); table.ByAddr("b") != second {
		t.Error("the moved endpoint is not found when the other one has ended")
	}
}

// An endpoint that moves is no longer behind an endpoint that has ended and that another endpoint
// has displaced. Otherwise the move of one connection to another module would end it as restarted.
func TestTableMoveBehindEnded(t *testing.T) {
	table := newTable(8)
	moved, ended := put(table, "a", 1, Connecting), put(table, "a", 1, Connecting)
	table.LeadTo(moved)
	table.Displace(ended, moved)
	last := put(table, "a", 1, Connecting)
	table.Displace(last, ended)
	table.Remove(ended)
	table.Move(moved, "b")
	table.SetPeer(moved, PeerTag{Incarnation: 2, Tag: 7})
	if lives := table.EarlierLives(last); len(lives) != 0 {
		t.Errorf("%d endpoints end as earlier lives of the peer", len(lives))
	}
}

// A side whose request is kept sends nothing until the wait is over, or the owner has decided. It
// then uses new nonces, so that no late answer makes it wait again, and it gives up after KeepMax
// and its time-out.
func TestKeptPeerWaits(t *testing.T) {
	s, h := newHandshakes(t, 8)
	ep, err := s.Dial([]byte("a:1"), []byte("a:2"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	began := h.now
	keep := func(waitMs uint16, nonce uint64) bool {
		return s.OnReject(&frag.Header{Conn: ep.id.Tag}, frag.Reject{
			Reason: frag.RejectKept, Code: waitMs, Nonce: nonce,
		})
	}
	first, hellos := ep.id.Handshake.Nonces[0], len(h.hellos)
	if keep(2000, first+1) || ep.id.Handshake.Kept {
		t.Error("waits after a Reject without its nonce")
	}
	if !keep(2000, first) || h.timer != 2*time.Second || len(h.hellos) != hellos {
		t.Fatalf("the timer is %v, %d Hellos were sent", h.timer, len(h.hellos)-hellos)
	}
	if !keep(0, first) || ep.id.Handshake.Kept ||
		len(h.hellos) != hellos+2 || h.timer != HelloIntervalMin {
		t.Fatalf("decided: the timer is %v, %d Hellos were sent", h.timer, len(h.hellos)-hellos)
	}
	if keep(2000, first) || ep.id.Handshake.Kept {
		t.Error("waits again after a late Reject")
	}
	for rounds := 0; len(h.ended) == 0; rounds++ {
		keep(20_000, ep.id.Handshake.Nonces[0])
		if h.now.Sub(began) > KeepMax+3*time.Second || rounds > 5 {
			t.Fatalf("still there after %v", h.now.Sub(began))
		}
		h.now = h.now.Add(h.timer)
		s.OnTimer(ep)
		if err := s.peers.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if h.why != WhyUnanswered || h.now.Sub(began) != KeepMax+3*time.Second {
		t.Errorf("ended after %v: %v", h.now.Sub(began), h.why)
	}
}

// The application is asked once about a peer that changes its label, until the request is decided.
func TestKeptUnderOneLabel(t *testing.T) {
	s, h := newKeeping(t, Limits{PerAddress: 100, PerHost: 100, HalfOpen: 8})
	hello := keptHello(s, h.now, "a:1", 5)
	for i := range 1000 {
		h.now++
		hello.Label = fmt.Appendf(nil, "label %d", i)
		h.hello(hello)
	}
	last := h.rejects[len(h.rejects)-1]
	if len(h.asked) != 1 || s.Requests() != 1 || last.Reason != frag.RejectLater {
		t.Fatalf("asked %d times, %d requests", len(h.asked), s.Requests())
	}
	if !s.Decide(h.asked[0], Answer{}) {
		t.Error("the request of the first label is not decided")
	}
	h.now++
	if h.hello(hello); s.peers.HalfOpen != 0 || len(h.asked) != 2 || s.Requests() != 1 {
		t.Errorf("another label: %d half open, %d requests, asked %d times", s.peers.HalfOpen,
			s.Requests(), len(h.asked))
	}
	if !s.Decide(h.asked[1], Answer{}) {
		t.Error("the request of the other label is not decided")
	}
	h.now++
	if h.hello(hello); s.peers.HalfOpen != 1 || s.Requests() != 0 || len(h.asked) != 2 {
		t.Errorf("%d half open, %d requests, asked %d times", s.peers.HalfOpen, s.Requests(),
			len(h.asked))
	}
}

// A peer that keeps and decides in turns does not set the pace of this side's Hellos.
func TestKeptPeerSetsNoPace(t *testing.T) {
	s, h := newHandshakes(t, 8)
	ep, err := s.Dial([]byte("a:1"), []byte("a:2"), 768, 1500)
	if err != nil {
		t.Fatal(err)
	}
	timer := h.now.Add(h.timer)
	for range 10_000 {
		h.now = h.now.Add(100 * time.Microsecond)
		for _, waitMs := range []uint16{1, 0} {
			h.timer = 0
			s.OnReject(&frag.Header{Conn: ep.id.Tag}, frag.Reject{
				Reason: frag.RejectKept, Code: waitMs, Nonce: ep.id.Handshake.Nonces[0],
			})
			if h.timer != 0 {
				timer = h.now.Add(h.timer)
			}
		}
		if h.timer = 0; h.now >= timer {
			s.OnTimer(ep)
			timer = h.now.Add(h.timer)
		}
	}
	// At 0 ms, and then with pauses of 20, 40, 80, 160, 320 and 500 ms.
	if rounds := len(h.hellos) / 2; rounds > 10 {
		t.Errorf("%d rounds of Hellos in 1 s", rounds)
	}
}

// Decisions about many peers in one pass reach all of them soon, despite the limit on Rejects.
func TestDecisionsTogether(t *testing.T) {
	s, h := newKeeping(t, Limits{PerAddress: 100, PerHost: 100, HalfOpen: 256})
	const peers = 200
	for i := range peers {
		h.now = h.now.Add(time.Millisecond)
		h.hello(keptHello(s, h.now, fmt.Sprintf("%d:1", i), uint64(i+1)))
	}
	if s.Requests() != peers {
		t.Fatalf("%d requests are kept", s.Requests())
	}
	h.rejected = nil
	h.now = h.now.Add(time.Millisecond)
	decided := h.now
	for _, id := range h.asked {
		s.Decide(id, Answer{})
	}
	for h.now = s.Kept.WakeAt; h.now.Sub(decided) < 60*time.Millisecond; {
		s.OnRequestsTimer()
		h.now = max(h.now+1, s.Kept.WakeAt)
	}
	told := map[uint64]bool{}
	for _, tag := range h.rejected {
		told[tag] = true
	}
	if len(told) != peers {
		t.Errorf("%d of %d peers were told to ask again", len(told), peers)
	}
}

// A peer asks again before a NAT has forgotten its ports. The decision is kept until the peer has
// asked again.
func TestKeptPeerAsksAgain(t *testing.T) {
	s, h := newKeeping(t, Limits{PerAddress: 16, HalfOpen: 64})
	h.answer.Code = uint16(KeepMax / time.Millisecond)
	key := peerKey{addr: "a:1", PeerTag: PeerTag{Tag: 5, Incarnation: 9}}
	hello := keptHello(s, h.now, "a:1", 5)
	answer := s.ask(hello, key)
	if wait := time.Duration(answer.Code) * time.Millisecond; wait != askAgainMax {
		t.Errorf("the peer asks again after %v, want %v", wait, askAgainMax)
	}
	asks := h.now.Add(askAgainMax)
	h.now = h.now.Add(time.Second)
	if !s.Decide(1, Answer{}) {
		t.Fatal("no request to decide")
	}
	h.now = asks.Add(s.timeout - 1)
	s.OnRequestsTimer()
	if s.Requests() != 1 {
		t.Error("the decision has lapsed before the peer has asked again")
	}
	h.now++
	s.OnRequestsTimer()
	if s.Requests() != 0 {
		t.Error("the decision is kept longer than the peer can ask")
	}
}

// A peer that gives up and asks again does not take the places of other peers.
func TestStaleRequests(t *testing.T) {
	s, h := newKeeping(t, Limits{PerAddress: 16, HalfOpen: 64})
	for tag := range uint64(8) {
		s.ask(keptHello(s, h.now, "a:1", tag+1),
			peerKey{addr: "a:1", PeerTag: PeerTag{Tag: tag + 1, Incarnation: 9}})
	}
	other := peerKey{addr: "a:2", PeerTag: PeerTag{Tag: 1, Incarnation: 9}}
	s.ask(keptHello(s, h.now, other.addr, other.Tag), other)
	if s.Requests() != undecidedMax+1 || s.Kept.Counts.Lapsed != 8-undecidedMax {
		t.Errorf("%d requests, counts %+v", s.Requests(), s.Kept.Counts)
	}
	h.answer = Answer{} // the next one is accepted at once
	last := peerKey{addr: "a:1", PeerTag: PeerTag{Tag: 9, Incarnation: 9}}
	s.ask(keptHello(s, h.now, last.addr, last.Tag), last)
	if s.Decide(6, Answer{}) || !s.Decide(7, Answer{}) || !s.Decide(8, Answer{}) {
		t.Error("the latest requests are not the ones that are left")
	}
	if err := s.CheckRequests(); err != nil {
		t.Error(err)
	}
}
