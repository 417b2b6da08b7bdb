package meet

import (
	"fmt"
	"testing"

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
