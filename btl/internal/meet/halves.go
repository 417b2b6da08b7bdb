package meet

import (
	"fmt"
	"slices"

	"gobtl/internal/list"
)

// The type "halves" contains the half-open endpoints, grouped by host. The time that each method of
// the type "halves" takes does not depend on the number of hosts. A rank is a list of the hosts
// with the same number of half-open endpoints.
//
//	ranks[0]   hosts with one half-open endpoint --> host, host, host
//	ranks[1]   hosts with two                    --> (none)
//	ranks[2]   hosts with three                  --> host
type halves[E comparable] struct {
	byHost map[string]*crowd[E]
	// In each rank (hosts with the same number of half-open endpoints), the host that entered the rank
	// first is at the front. The last rank, of the hosts with the most half-open endpoints, is never
	// empty.
	ranks []*list.List[*crowd[E]]
}

// The type "crowd" contains the half-open endpoints of one host.
type crowd[E comparable] struct {
	host string
	open []E                  // the oldest first
	at   list.Node[*crowd[E]] // in the rank of the host
}

func (s *halves[E]) add(host string, ep E) {
	c := s.byHost[host]
	if c == nil {
		c = &crowd[E]{host: host}
		s.byHost[host] = c
	}
	c.open = append(c.open, ep)
	s.move(c)
}

// The method "remove" removes a half-open endpoint of a host. The endpoint must have been added by
// the method "add".
func (s *halves[E]) remove(host string, ep E) {
	c := s.byHost[host]
	i := slices.Index(c.open, ep)
	c.open = slices.Delete(c.open, i, i+1)
	s.move(c)
}

// The method "move" puts a host into the rank (a list of hosts) for its present number of half-open
// endpoints.
func (s *halves[E]) move(c *crowd[E]) {
	c.at.Remove()
	if n := len(c.open); n == 0 {
		delete(s.byHost, c.host)
	} else {
		if n > len(s.ranks) {
			s.ranks = append(s.ranks, new(list.List[*crowd[E]]))
		}
		s.ranks[n-1].PushBack(&c.at, c)
	}
	for len(s.ranks) > 0 && s.ranks[len(s.ranks)-1].First() == nil {
		s.ranks = s.ranks[:len(s.ranks)-1]
	}
}

// The method "of" returns the number of half-open endpoints of a host.
func (s *halves[E]) of(host string) int {
	if c := s.byHost[host]; c != nil {
		return len(c.open)
	}
	return 0
}

// The method "most" returns the largest number of half-open endpoints that any host has.
func (s *halves[E]) most() int { return len(s.ranks) }

// The method "oldest" returns the oldest half-open endpoint of the host that has the most half-open
// endpoints. If several hosts have the largest number of half-open endpoints, the method "oldest"
// takes the host that reached this number first. The caller may call the method "oldest" only if
// there is a half-open endpoint.
func (s *halves[E]) oldest() E {
	return s.ranks[len(s.ranks)-1].First().open[0]
}

// check verifies the ranks (lists of hosts with the same number of half-open endpoints), and
// returns the number of half-open endpoints.
func (s *halves[E]) check() (count int, err error) {
	hosts := 0
	for i, rank := range s.ranks {
		if err := rank.Check(); err != nil {
			return 0, err
		}
		for c := rank.First(); c != nil; c = c.at.Next() {
			if len(c.open) != i+1 || s.byHost[c.host] != c {
				return 0, fmt.Errorf("a host with %d half-open endpoints is in the rank of %d",
					len(c.open), i+1)
			}
			hosts++
			count += len(c.open)
		}
	}
	if hosts != len(s.byHost) {
		return 0, fmt.Errorf("%d hosts have half-open endpoints, %d counted", hosts, len(s.byHost))
	}
	return count, nil
}
