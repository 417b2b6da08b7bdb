package stream

import "slices"

// A receiver that accepts a stream and ignores the start message delays the start of the stream. To
// limit the delay that one host can cause, the sender counts the start messages to the receivers of
// each host. The sender sends the next start message to a receiver on the host with the smallest
// count.

// When a sender has counted the start messages of startHostsMax hosts, it resets all counts.
const startHostsMax = 1024

// inTurn returns the receivers that wait for their start messages, in the order in which the sender
// sends the start messages. If the hosts of two receivers have equal counts, the receiver that
// arrived first comes first.
func (s *Sender) inTurn() (waiting []*link) {
	rank, ahead := make(map[*link]int), make(map[string]int)
	for _, k := range s.links {
		if k.state == linkWelcomed {
			host := k.ep.PeerHost()
			rank[k] = s.starts[host] + ahead[host]
			ahead[host]++
			waiting = append(waiting, k)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *link) int { return rank[a] - rank[b] })
	return waiting
}

// countStart counts a start message to a receiver of the given host.
func (s *Sender) countStart(host string) {
	if len(s.starts) >= startHostsMax {
		clear(s.starts)
	}
	if s.starts == nil {
		s.starts = make(map[string]int)
	}
	s.starts[host]++
}
