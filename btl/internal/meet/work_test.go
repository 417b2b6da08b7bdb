package meet

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/frag"
)

// crowdWork returns how many endpoints the function "act" looks at. The peer with the address "a:1"
// has two connected endpoints. Each of the argument "others" peers is on another host, and its
// endpoint is in the state of the argument "state".
func crowdWork(
	t *testing.T, others int, state State, act func(*Handshakes[*node], *fakeHost, *node),
) (looked int) {
	t.Helper()
	s, h := newHandshakes(t, 8)
	s.peers.Init(func(n *node) *End[*node] { looked++; return &n.id }, others+3, streets{},
		Limits{PerAddress: 2, PerHost: 100, HalfOpen: max(others, 8)})
	for i := range others {
		put(s.peers, fmt.Sprintf("host%d:1", i), 1, state)
	}
	put(s.peers, "a:1", 9, Connected)
	latest := put(s.peers, "a:1", 9, Connected)
	looked = 0
	act(s, h, latest)
	work := looked
	if err := s.peers.Check(); err != nil {
		t.Error(err)
	}
	return work
}

// The work for a Hello does not grow with the number of endpoints of other hosts.
func TestWorkForHello(t *testing.T) {
	for name, c := range map[string]struct {
		others State
		act    func(*Handshakes[*node], *fakeHost, *node)
	}{
		"crowded": {Connected, func(s *Handshakes[*node], h *fakeHost, _ *node) {
			h.hello(keptHello(s, h.now, "a:1", 77))
			if len(h.rejects) != 1 || h.rejects[0].Reason != frag.RejectCrowded {
				t.Errorf("the answer is %+v", h.rejects)
			}
		}},
		"established": {Connected, func(s *Handshakes[*node], _ *fakeHost, latest *node) {
			if lives := s.peers.EarlierLives(latest); len(lives) != 0 {
				t.Errorf("%d earlier lives", len(lives))
			}
		}},
		"displaces a half-open endpoint": {
			Accepting, func(s *Handshakes[*node], h *fakeHost, _ *node) {
				before := s.peers.HalfOpen
				h.hello(keptHello(s, h.now, "b:1", 77))
				if len(h.ended) != 1 || s.peers.HalfOpen != before {
					t.Errorf("%d endpoints have ended, %d are half open", len(h.ended), s.peers.HalfOpen)
				}
			},
		},
	} {
		few, many := crowdWork(t, 8, c.others, c.act), crowdWork(t, 800, c.others, c.act)
		if few != many {
			t.Errorf("%s: %d endpoints are looked at beside 8 others, %d beside 800", name, few, many)
		}
	}
}

// Hellos of a host without room have the silent peers of this host probed. If peers were probed a
// short time ago, the next Hello of any host without room makes up for it, and so a host that asks
// all the time does not prevent the probes for another host.
func TestSilentPeersOfHosts(t *testing.T) {
	s, h := newHandshakes(t, 8)
	s.peers.Init(func(n *node) *End[*node] { return &n.id }, 8, streets{},
		Limits{PerAddress: 2, PerHost: 1, HalfOpen: 8})
	bad, good := put(s.peers, "bad:1", 9, Connected), put(s.peers, "good:1", 9, Connected)
	first, second := put(s.peers, "full:1", 9, Connected), put(s.peers, "full:1", 9, Connected)
	for _, c := range []struct {
		addr   string
		rested bool
		want   []*node
	}{
		{"good:2", false, nil},
		{"bad:2", true, []*node{bad, good}},
		{"bad:2", true, []*node{bad}},
		{"full:1", false, []*node{first, second}}, // a full address is no matter of its host
	} {
		h.rested, h.probed, h.rejects = c.rested, nil, nil
		h.now = h.now.Add(time.Second) // the answers in a short time are few
		h.hello(keptHello(s, h.now, c.addr, 77))
		if !slices.Equal(h.probed, c.want) || len(h.rejects) != 1 ||
			h.rejects[0].Reason != frag.RejectCrowded {
			t.Errorf("%s: %d peers are probed, want %d; the answer is %+v", c.addr, len(h.probed),
				len(c.want), h.rejects)
		}
	}
}

// The hosts that wait for probes are bounded.
func TestCrowdedHosts(t *testing.T) {
	s, h := newHandshakes(t, 8)
	for i := range 2 * crowdedMost {
		s.askHost(strconv.Itoa(i))
	}
	if len(s.crowded) != crowdedMost {
		t.Errorf("%d hosts wait, at most %d", len(s.crowded), crowdedMost)
	}
	h.rested = true
	if s.askHost("a"); len(s.crowded) != 0 {
		t.Errorf("%d hosts wait after the probes", len(s.crowded))
	}
}
