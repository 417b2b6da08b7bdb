//go:build linux

package agent

import (
	"errors"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// The control thread searches for the largest packets that the paths to other hosts carry
// (vnic.PathSearch). The first sender thread's endpoint sends the probes, and the receiver threads
// pass received probes and answers to the control thread.

// sizeProbe is a received size probe, or an answer to one.
type sizeProbe struct {
	from   uint32 // LID
	kind   uint8
	number uint64
}

// sizedWaiting is the maximum number of size probes that wait for the control thread.
const sizedWaiting = 256

// doubtPause is the minimum time between probes because of refused packets. The operating system
// refuses each large packet if the MTU of the network device is below pathFloorBytes.
const doubtPause = time.Second

// probesMax is the maximum number of probes of one host, with the answers to probes, that a
// receiving thread handles in a second. A limit holds for size probes, and another one for the
// probes of Ping. Agents send fewer than 300 size probes a second.
const probesMax = 512

// doubt makes the control thread probe all paths, because the operating system has refused a
// packet as too large. Any thread may call doubt.
func (a *Agent) doubt() {
	if !a.doubted.Swap(true) {
		a.wake()
	}
}

// stick makes the control thread look which of the hosts of the waiting batch are silent, because
// the send queue has no room for the batch. The control thread looks at most once in doubtPause.
func (s *sender) stick() {
	if s.agent.stuck.Load() != nil {
		return
	}
	to := make(map[fabric.Addr]bool)
	for i := range s.batch {
		to[s.batch[i].To] = true
	}
	lids := make(map[uint32]bool)
	for lid, addrs := range s.byLID {
		for _, one := range addrs {
			if to[one] {
				lids[lid] = true
			}
		}
	}
	if s.agent.stuck.CompareAndSwap(nil, &lids) {
		s.agent.wake()
	}
}

// sizeProbed handles a size probe on a receiving thread.
func (a *Agent) sizeProbed(p sizeProbe) {
	select {
	case a.sized <- p:
		a.wake()
	default: // each host probes again
	}
}

// findPaths begins a search for each host to which a port sends packets, and ends the searches for
// all other hosts.
func (a *Agent) findPaths(now mono.Time) {
	most := make(map[uint32]int)
	for _, p := range a.ports {
		if p == nil || p.tables == nil || p.tables.Options.Carrier == vnic.CarrierFragment {
			continue
		}
		bytes := min(vnic.PacketBytes(int(p.tables.Info.EthMTU)+ethernetBytes), a.datagramBytes(),
			a.senders[0].link.arena.Size())
		for _, m := range p.tables.Members {
			if m != a.core.LID() {
				most[m] = max(most[m], bytes)
			}
		}
	}
	for lid := range a.paths {
		if most[lid] == 0 {
			delete(a.paths, lid)
		}
	}
	for lid, bytes := range most {
		if a.paths[lid] == nil {
			a.paths[lid] = vnic.NewPathSearch(Random)
		}
		if a.paths[lid].SetMost(now, bytes) {
			a.pathsAt = now
		}
	}
	a.usePaths()
	a.tellSilent()
}

// hearSizes handles the received size probes and answers. The result changed of hearSizes is true
// if the largest packet of a path has changed.
func (a *Agent) hearSizes(now mono.Time) (n int, changed bool) {
	for n < sizedWaiting {
		var p sizeProbe
		select {
		case p = <-a.sized:
		default:
			return n, changed
		}
		n++
		switch s := a.paths[p.from]; {
		case p.kind == vnic.SizeAsks:
			if s != nil {
				s.Heard()
				a.pathsAt = a.pathsAt.Min(s.Due())
			}
			a.senders[0].probeSize(now, p.from, vnic.SizeTells, vnic.SizeProbe{
				Bytes: vnic.SizeProbeBytes, Number: p.number,
			})
		case p.kind == vnic.SizeTells && s != nil:
			was := s.Silent()
			changed = s.Answered(now, p.number) || changed
			a.silenceChanged = a.silenceChanged || s.Silent() != was
			a.pathsAt = a.pathsAt.Min(s.Due())
		}
	}
	return n, changed
}

// measure sends the size probes that are due, and handles the received ones.
func (a *Agent) measure(now mono.Time) (n int) {
	n, changed := a.hearSizes(now)
	if changed {
		a.usePaths()
	}
	n += a.probePaths(now)
	if a.silenceChanged {
		a.tellSilent()
	}
	return n
}

// probePaths sends the size probes that are due. If the send queue is full, the other probes wait
// for fullPause.
func (a *Agent) probePaths(now mono.Time) (n int) {
	doubted := now >= a.doubtAt && a.doubted.Swap(false)
	var stuck map[uint32]bool
	if now >= a.stuckAt {
		if lids := a.stuck.Swap(nil); lids != nil {
			stuck, a.stuckAt = *lids, now.Add(doubtPause)
		}
	}
	if now < a.pathsAt && !doubted && stuck == nil {
		return n
	}
	if doubted {
		a.doubtAt = now.Add(doubtPause)
	}
	a.pathsAt = mono.Never
	full := false
	for lid, s := range a.paths {
		if doubted {
			s.Doubt(now)
		}
		if stuck[lid] {
			s.Check(now)
		}
		if !full {
			sent := 0
			sent, full = a.probePath(now, lid, s)
			n += sent
		}
		a.pathsAt = a.pathsAt.Min(s.Due())
	}
	if full {
		a.pathsAt = max(a.pathsAt, now.Add(fullPause))
	}
	return n
}

// fullPause is the time until the control thread sends probes again after the send queue was full.
const fullPause = time.Millisecond

// probePath sends the size probes that are due for one host, until the send queue is full.
func (a *Agent) probePath(now mono.Time, lid uint32, s *vnic.PathSearch) (n int, full bool) {
	was := s.Silent()
	a.asks = s.Probes(now, a.asks[:0])
	for _, p := range a.asks {
		if full = !a.senders[0].probeSize(now, lid, vnic.SizeAsks, p); full {
			break
		}
		n++
	}
	if full && n == 0 {
		s.Unsent(now)
	}
	a.silenceChanged = a.silenceChanged || s.Silent() != was
	return n, full
}

// The method met tells the searches which hosts have new addresses.
func (a *Agent) met(before, after []vnic.LIDEntry) {
	old := make(map[uint32]*vnic.Ways, len(before))
	for i := range before {
		old[before[i].LID] = &before[i].Ways
	}
	for i := range after {
		e := &after[i]
		if s := a.paths[e.LID]; s != nil && (old[e.LID] == nil || !e.Ways.Equal(old[e.LID])) {
			s.Heard()
			a.pathsAt = a.pathsAt.Min(s.Due())
		}
	}
}

// usePaths gives each port the smallest of the sizes that the paths to the port's hosts carry.
func (a *Agent) usePaths() {
	for _, p := range a.ports {
		if p == nil || p.dev == nil || p.tables == nil {
			continue
		}
		was := p.pathMTU
		if p.pathMTU = a.pathOf(p.tables); p.pathMTU == was {
			continue
		}
		if p.pathMTU > 0 && (was == 0 || p.pathMTU < was) {
			a.notef("port %d: the path takes no more than %d bytes", p.num, p.pathMTU)
		}
		p.apply(a.datagramBytes())
		a.exchange(p)
	}
}

// pathOf returns the size of the largest packet that the paths to all members of a switch carry, or
// 0 if no path limits the size.
func (a *Agent) pathOf(t *vnic.Tables) (bytes int) {
	for _, m := range t.Members {
		if s := a.paths[m]; s != nil {
			if size, less := s.Bytes(); less && (bytes == 0 || size < bytes) {
				bytes = size
			}
		}
	}
	return bytes
}

// probeSize sends a size probe, or an answer to one, to the first receiving address of a host.
// probeSize returns false if this host has no room for the packet now, so that the packet says
// nothing about the other host. The packet is lost, and probeSize returns true, if the other host
// has no address, or if the operating system refuses the packet. It is also lost if the other host
// is silent, the part of the silent hosts in the send buffer is full, and they have got rareProbes
// packets of this kind in the present second.
func (s *sender) probeSize(now mono.Time, lid uint32, kind uint8, p vnic.SizeProbe) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.agent.peers.Load()
	if seen != s.link.seen && len(s.batch) == 0 {
		s.learn(seen)
	}
	if s.reap() != nil { // the sender's thread tells errors
		return true
	}
	addrs := s.byLID[lid]
	switch {
	case len(addrs) == 0:
		return seen == s.link.seen
	case len(s.free) == 0:
		return false
	}
	s.quiet.known = false
	if !s.quiet.admits(lid, kernelBytes(p.Bytes)) && !s.agent.rare(now, lid, kind) {
		return true
	}
	buf := s.free[len(s.free)-1]
	mem := s.link.arena.Bytes(buf)
	if p.Bytes > len(mem) {
		return true
	}
	s.free = s.free[:len(s.free)-1]
	s.refs[buf]++
	vnic.PutSizeProbe(mem[:p.Bytes], kind, p.Number)
	one := fabric.Send{To: addrs[0], Buf: buf, Len: uint32(p.Bytes)}
	err := s.link.offer(one)
	if err != nil || p.Bytes <= s.link.caps.InjectBytes {
		s.release(buf)
	}
	return !errors.Is(err, fabric.ErrAgain)
}
