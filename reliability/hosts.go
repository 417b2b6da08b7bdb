package reliability

import "fmt"

// The type "hosts" divides the receive capacity among hosts, so that a host with many peers takes
// no more than a host with one peer. The equal share of a peer is the equal share of its host,
// divided by the number of the host's active peers. A peer whose host is unknown counts as the only
// peer of its host.
//
// If a host has more active peers than its equal share has buffer slots, each active peer of the
// host still gets one credit. A peer gets its single credit without a reserved buffer slot if the
// credits of the other peers on its host have reserved all buffer slots of the host's equal share.
type hosts struct {
	named   map[string]*host
	further int // active peers, not counting one for each host
}

// The type "host" is the pool's record of one host with peers. A peer is active if its credits have
// not expired.
type host struct {
	name   string
	peers  int32
	active int32
	booked int32 // buffer slots of the active peers
}

// The method "settle" assigns a peer that joins the pool to its host.
func (h *hosts) settle(r *Receiver, name string) {
	at := h.named[name]
	if at == nil {
		if h.named == nil {
			h.named = make(map[string]*host)
		}
		at = &host{name: name}
		h.named[name] = at
	}
	at.peers++
	r.host = at
	h.wakes(r)
}

// The method "depart" removes an active peer without credits from its host.
func (h *hosts) depart(r *Receiver) {
	if r.host == nil {
		return
	}
	h.rests(r)
	if r.host.peers--; r.host.peers == 0 {
		delete(h.named, r.host.name)
	}
	r.host = nil
}

// The method "wakes" counts a peer as active.
func (h *hosts) wakes(r *Receiver) {
	if r.host == nil {
		return
	}
	if r.host.active++; r.host.active > 1 {
		h.further++
	}
}

// The method "rests" subtracts a peer from the count of its host's active peers.
func (h *hosts) rests(r *Receiver) {
	if r.host == nil {
		return
	}
	if r.host.active--; r.host.active > 0 {
		h.further--
	}
}

// The method "share" returns how many buffer slots an active peer gets if the receive capacity is
// shared equally. The result "full" of the method "share" says whether a single credit of the peer
// takes no buffer slot.
func (c *Credits) share(r *Receiver) (slots int, full bool) {
	slots = c.Share()
	if r.host == nil || r.host.active <= 1 {
		return slots, false
	}
	full = int(r.host.active) > slots && int(r.host.booked) >= slots
	return max(1, slots/int(r.host.active)), full
}

// The method "check" returns an error for the first invariant of the hosts that does not hold, or
// nil if all of them hold.
func (h *hosts) check() error {
	further := 0
	for name, at := range h.named {
		if at.name != name || at.active < 0 || at.active > at.peers || at.peers == 0 || at.booked < 0 ||
			at.active == 0 && at.booked > 0 {
			return fmt.Errorf("reliability: host %q has %d peers, of which %d active hold %d slots", name,
				at.peers, at.active, at.booked)
		}
		further += int(max(at.active-1, 0))
	}
	if further != h.further {
		return fmt.Errorf("reliability: %d further peers of hosts, %d counted", further, h.further)
	}
	return nil
}
