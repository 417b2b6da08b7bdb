package pml

import (
	"time"

	"gobtl/btl"
)

// A matched receive cannot be cancelled, and a receive from any peer can match a message of a peer
// that the program does not know. If a message has matched a receive from any peer, and its sender
// does not send the data in time, the Layer ends the connection to the sender. The time limit for
// the data of a matched receive begins when this side asks the sender for the data, after the
// receive has got its memory region.

// slowestAskedBytesPerSecond is the transfer rate below which a peer counts as stalled even if no
// receive waits for a free memory region. slowestAskedBytesPerSecond is lower than
// slowestBytesPerSecond, so that peers behind a slow shared path are not disconnected.
const slowestAskedBytesPerSecond = slowestBytesPerSecond / 8

// The type "asked" is the state of a matched receive for whose data this side has asked the sender.
type asked struct {
	is     bool
	open   links[Request] // entry in Peer.open
	since  time.Duration  // value of hosts.awake when this side asked for the data
	beside int64          // value of Peer.askedBytes when this side asked for the data
}

// The method "asks" records that this side has asked the sender of a matched receive for the data.
func (p *Peer) asks(r *Request) {
	p.askedBytes += int64(r.Len())
	r.asked = asked{is: true, since: p.l.hosts.awake, beside: p.askedBytes}
	if !r.anyPeer {
		return
	}
	if p.open.first == nil {
		p.l.hosts.open.add(p)
	}
	p.open.add(r)
}

// asksNoMore records the end of a receive for whose data this side has asked the sender. For a
// request whose data was not asked for, asksNoMore does nothing.
func (p *Peer) asksNoMore(r *Request) {
	if !r.asked.is {
		return
	}
	r.asked.is = false
	p.askedBytes -= int64(r.Len())
	if p.open.remove(r); p.open.first == nil {
		p.l.hosts.open.remove(p)
	}
}

// The method "hurry" ends the connection to each peer that has not sent the data of a matched
// receive from any peer in time (see the method "late").
func (s *hosts) hurry() {
	if s.awake-s.hurriedAt < s.timeout {
		return
	}
	s.hurriedAt = s.awake
	for p := s.open.first; p != nil; {
		next := p.opens.next
		if s.late(p) {
			s.ended++
			p.drive(btl.ErrStalled)
		}
		p = next
	}
}

// The method "late" reports whether a peer has exceeded the time limit for the data of its oldest
// receive in the list Peer.open. The time limit is the longest permitted silence of a peer
// (hosts.timeout plus stalledAfter), plus the transfer time of the requested bytes at the rate
// slowestAskedBytesPerSecond. The requested bytes are the present value of Peer.askedBytes, or its
// value when this side asked for the data of the oldest receive, whichever is larger. Arriving data
// does not prolong the time limit, because a malicious peer could send single bytes at long
// intervals.
func (s *hosts) late(p *Peer) bool {
	r := p.open.first
	if r == nil {
		return false
	}
	past := (s.awake - r.asked.since - s.timeout - stalledAfter) / time.Second
	return int64(past) > max(r.asked.beside, p.askedBytes)/slowestAskedBytesPerSecond
}
