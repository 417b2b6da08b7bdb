package pml

import (
	"time"

	"gobtl/btl"
)

// A matched receive cannot be cancelled, and a receive from any peer can be matched by a peer that
// the program does not know. The Layer therefore ends the connection to a peer that matches
// receives from any peer, and does not send the data. Only receives for which this side has asked
// for the data count, and not receives that wait for a memory region.

// slowestAskedBytesPerSecond is the transfer rate below which a peer counts as stalled even if
// nobody waits for the peer's memory regions. The rate is lower than slowestBytesPerSecond, so that
// peers behind a slow shared path are not disconnected.
const slowestAskedBytesPerSecond = slowestBytesPerSecond / 8

// The type "asked" is the state of a matched receive for whose data this side has asked the sender.
type asked struct {
	is     bool
	open   links[Request] // entry in Peer.open
	since  time.Duration  // when this side asked for the data, as of hosts.awake
	beside int64          // bytes that this side had asked the peer for, including the receive's
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

// asksNoMore records the end of a receive. For other requests, asksNoMore does nothing.
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

// The method "hurry" ends the connections to peers that hold receives from any peer for too long.
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

// The method "late" reports whether a peer has held its oldest receive from any peer for too long.
// The longest permitted time is the longest silence that a peer may have, plus the time in which a
// very slow path transfers all bytes that this side has asked the peer for, now or when it asked
// for the data of the oldest receive, whichever are more. Data that arrives meanwhile does not
// prolong the time, because a peer could send a byte now and then.
func (s *hosts) late(p *Peer) bool {
	r := p.open.first
	if r == nil {
		return false
	}
	past := (s.awake - r.asked.since - s.timeout - stalledAfter) / time.Second
	return int64(past) > max(r.asked.beside, p.askedBytes)/slowestAskedBytesPerSecond
}
