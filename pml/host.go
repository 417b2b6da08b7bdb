package pml

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/internal/fifo"
)

// The memory and the memory regions of a Layer are divided between hosts, and all connected peers
// on one host share the part of this host. A host with many peers cannot use up the memory regions
// of the Layer. When the peers together use more memory than Config.TotalBytes, the Layer ends the
// connection to a peer on the host whose peers use the most memory.

var errTotal = errors.New("pml: unreceived messages exceed TotalBytes")

// The type "host" is the common state of all connected peers on one host.
type host struct {
	name     string
	peers    list[Peer]
	homeless list[Peer]  // peers with receives that need a free region
	regions  int         // number of regions in use
	held     int64       // sum of Peer.held
	all      links[host] // entry in hosts.all
	waits    links[host] // entry in hosts.homeless
}

// The type "hosts" contains the hosts with connected peers, and divides the Layer's memory and
// memory regions between these hosts.
type hosts struct {
	byName map[string]*host
	all    list[host]
	held   int64  // sum of host.held
	ended  uint64 // connections that the methods of hosts have ended

	homeless    list[host] // hosts with receives that need a free region
	holders     list[Peer] // peers with regions
	regions     int        // number of regions in use by the Layer
	regionsMax  int        // number of regions of the module
	peerRegions int        // maximum regions per peer (regionsPart)

	timeout   time.Duration // PeerTimeout of the module
	awake     time.Duration // time of the calls of press, without long pauses
	pressedAt btl.Time      // time of the latest call of press
	wantedAt  time.Duration // since when receives have waited for a region

	open      list[Peer]    // peers with receives from any peer (asked.go)
	hurriedAt time.Duration // value of awake at the latest check of the list "open"
}

func newHosts(cfg *btl.Config) hosts {
	return hosts{
		byName: map[string]*host{}, timeout: cfg.PeerTimeout,
		all:        list[host]{at: func(h *host) *links[host] { return &h.all }},
		homeless:   list[host]{at: func(h *host) *links[host] { return &h.waits }},
		holders:    list[Peer]{at: func(p *Peer) *links[Peer] { return &p.holds }},
		open:       list[Peer]{at: func(p *Peer) *links[Peer] { return &p.opens }},
		regionsMax: cfg.RegionsMax, peerRegions: max(1, cfg.RegionsMax/regionsPart),
	}
}

// The method "enter" adds a peer to the list of connected peers on its host.
func (s *hosts) enter(p *Peer) {
	name := p.ep.PeerHost()
	h := s.byName[name]
	if h == nil {
		h = &host{
			name: name, peers: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.mates }},
			homeless: list[Peer]{at: func(p *Peer) *links[Peer] { return &p.homes }},
		}
		s.byName[name] = h
		s.all.add(h)
	}
	h.peers.add(p)
	p.host = h
}

// The method "leave" removes a peer from the list of connected peers on its host. The peer must no
// longer use memory or regions.
func (s *hosts) leave(p *Peer) {
	h := p.host
	if h == nil {
		return
	}
	p.host = nil
	h.peers.remove(p)
	if h.peers.first == nil {
		delete(s.byName, h.name)
		s.all.remove(h)
	}
}

// The method "charge" adds the argument "bytes", which can be negative, to the counters of the
// memory that the Layer uses for a connected peer and for its host. For a peer whose connection has
// ended, the method "charge" does nothing (see gone.go).
func (p *Peer) charge(bytes int64) {
	if p.err == nil && p.host != nil {
		p.held += bytes
		p.host.held += bytes
		p.l.hosts.held += bytes
	}
}

// headMemory is the memory of a queued control message, in bytes. earlyMemory is the memory of an
// entry of Peer.early, in bytes.
const (
	headMemory  = 40
	earlyMemory = 8
)

// growControl allocates memory for one more control message in a peer's queue, unless the queue has
// reached its maximum length.
func (p *Peer) growControl() {
	before := p.control.Cap()
	p.control.Grow(8 * p.l.cfg.EnvelopesMax)
	p.charge(int64(p.control.Cap()-before) * headMemory)
}

// shrinkControl frees the memory of an empty queue of control messages.
func (p *Peer) shrinkControl() {
	if p.control.Len() == 0 && p.control.Cap() > controlKept {
		p.charge(-int64(p.control.Cap()) * headMemory)
		p.control = fifo.Queue[head]{}
	}
}

// An empty queue of control messages keeps its memory if the memory has room for at most
// controlKept messages.
const controlKept = 1024

// The method "check" returns an error if the counters of memory and regions are wrong for an idle
// Layer, and nil otherwise.
func (s *hosts) check() error {
	held, regions := int64(0), 0
	for h := s.all.first; h != nil; h = h.all.next {
		regions += h.regions
		for p := h.peers.first; p != nil; p = p.mates.next {
			held += int64(len(p.early))*earlyMemory + int64(p.control.Cap())*headMemory
		}
	}
	if held != s.held || regions != 0 || s.regions != 0 || s.holders.first != nil ||
		s.open.first != nil {
		return fmt.Errorf("pml: %d bytes are counted of %d, and %d regions of none", s.held, held,
			s.regions)
	}
	return nil
}

// The method "shed" ends connections to peers until the memory for all peers is at most seven
// eighths of mostBytes, so that Progress rarely has to call the method "shed". In each step, the
// method "shed" finds the host that uses the most memory, and ends the connection to the peer of
// this host that uses the most memory.
func (s *hosts) shed(mostBytes int64) {
	for s.held > mostBytes-mostBytes/8 {
		h := s.all.first
		for o := h; o != nil; o = o.all.next {
			if o.held > h.held {
				h = o
			}
		}
		p := h.peers.first
		for o := p; o != nil; o = o.mates.next {
			if o.held > p.held {
				p = o
			}
		}
		s.ended++
		p.drive(errTotal)
	}
}

// The method "drive" ends the connection to a peer with the error "why".
func (p *Peer) drive(why error) {
	p.l.end(p, why)
	p.ep.Abort()
}

// regionsPart limits the receives from one peer to 1/regionsPart of the module's memory regions.
const regionsPart = 16

// mayExpose reports whether a peer may use one more memory region of the module. The surplus of a
// host is the number of the module's free regions minus twice the number of regions that the host's
// peers use. If the surplus of a peer's host is zero or negative, the peer may use no more regions.
// If the surplus is positive, a peer without a region may use its first region. A peer that uses n
// regions may use one more region if n is less than an eighth of its host's surplus, and less than
// 1/regionsPart of the module's regions. The limits on regions become lower when fewer regions are
// free (the dynamic thresholds of Choudhury and Hahne, 1998), so that no host or peer can use up
// all regions.
func (p *Peer) mayExpose() bool {
	s, h := &p.l.hosts, p.host
	left := s.regionsMax - s.regions - h.regions - h.regions
	return left > 0 && (p.regions == 0 || p.regions < min(s.peerRegions, left/8))
}

// The method "exposes" counts a memory region that was registered for the receive r from a peer.
// The method "concedes" removes the closed memory region of the receive r from the counters.
func (p *Peer) exposes(r *Request) {
	s := &p.l.hosts
	s.regions++
	p.host.regions++
	if p.regions++; p.regions == 1 {
		s.holders.add(p)
	}
	p.exposed.add(r)
	p.exposedBytes += int64(r.Len())
	r.since, r.beside = s.awake, p.exposedBytes
}

func (p *Peer) concedes(r *Request) {
	s := &p.l.hosts
	s.regions--
	p.host.regions--
	if p.regions--; p.regions == 0 {
		s.holders.remove(p)
	}
	p.exposed.remove(r)
	p.exposedBytes -= int64(r.Len())
	if p.landing.first != nil && p.err == nil {
		p.wait()
	}
}

// The method "wait" adds a peer to the list of peers that wait for a free memory region.
func (p *Peer) wait() {
	if p.homes.in {
		return
	}
	p.host.homeless.add(p)
	if s := &p.l.hosts; !p.host.waits.in {
		s.homeless.add(p.host)
	}
}

// waitNoMore removes a peer from the list of peers that wait for a free memory region.
func (p *Peer) waitNoMore() {
	if p.homes.in {
		p.host.homeless.remove(p)
		if p.host.homeless.first == nil {
			p.l.hosts.homeless.remove(p.host)
		}
	}
}

// houseAll registers memory regions for the receives that wait for a free region.
func (s *hosts) houseAll() {
	for h := s.homeless.first; h != nil; {
		next := h.waits.next
		for p := h.homeless.first; p != nil && p.house(); p = h.homeless.first {
			p.waitNoMore()
		}
		h = next
	}
}

// The method "house" registers memory regions for the matched receives from a peer, in the order of
// matching. The method "house" returns false if the peer has to wait until regions of other peers
// are closed, and true otherwise. If the peer has reached its limit of regions, the method "house"
// returns true, because Progress calls the method "house" again after one of the peer's own regions
// was closed. If the connection to the peer has ended, the method "house" returns true.
func (p *Peer) house() bool {
	for p.ep.Err() == nil && p.landing.first != nil {
		r := p.landing.first
		if r.Layout == nil && !p.mayExpose() {
			return p.regions > 0
		}
		if !p.l.expose(r) {
			return false
		}
	}
	return true
}

const (
	// slowestBytesPerSecond is the transfer rate below which a peer counts as stalled while receives
	// wait for a free memory region.
	slowestBytesPerSecond = 64 << 10
	// stalledAfter is added to the module's PeerTimeout, because a peer that computes is allowed to be
	// silent for up to a minute longer (btl.Config.Away).
	stalledAfter = time.Minute
)

// watches reports whether the Layer must call the method "press", because peers use memory regions
// or have not yet sent the data of matched receives from any peer.
func (s *hosts) watches() bool { return s.holders.first != nil || s.open.first != nil }

// pressAt returns the time at which the method "press" must be called next, so that the whole time
// since its latest call counts towards hosts.awake.
func (s *hosts) pressAt() btl.Time { return s.pressedAt.Add(s.timeout / awakeParts) }

// Each call of the method "press" adds the time since the previous call to hosts.awake, but at most
// 1/awakeParts of the module's PeerTimeout.
const awakeParts = 16

// press ends the connections to stalled peers while receives wait for a free memory region. If a
// host uses fewer regions than every host with a waiting receive, press does not end the
// connections to the peers of this host.
func (s *hosts) press(now btl.Time) {
	s.awake += min(now.Sub(s.pressedAt), s.timeout/awakeParts) // without the time of a long pause
	s.pressedAt = now
	s.hurry()
	switch {
	case s.homeless.first == nil:
		s.wantedAt = s.awake
		return
	case s.awake-s.wantedAt < s.timeout:
		return
	}
	s.wantedAt = s.awake
	least := s.homeless.first.regions
	for h := s.homeless.first; h != nil; h = h.waits.next {
		least = min(least, h.regions)
	}
	for p := s.holders.first; p != nil; {
		next := p.holds.next
		if p.host.regions >= least && s.stalled(p) {
			s.ended++
			p.drive(btl.ErrStalled)
		}
		p = next
	}
}

// The method "stalled" reports whether a peer has used its oldest memory region for longer than the
// time limit. The time limit is the longest permitted silence of a peer (hosts.timeout plus
// stalledAfter), plus the transfer time of all bytes of the peer's regions at the rate
// slowestBytesPerSecond. The bytes of the regions are the present value of Peer.exposedBytes, or
// its value when the oldest region was registered, whichever is larger. Completed messages do not
// prolong the time limit, because a peer could complete small messages and keep all other regions
// in use.
func (s *hosts) stalled(p *Peer) bool {
	r := p.exposed.first
	if r == nil { // the end of another peer has just ended this one
		return false
	}
	slow := time.Duration(max(r.beside, p.exposedBytes)/slowestBytesPerSecond) * time.Second
	return s.awake-r.since > s.timeout+stalledAfter+slow
}
