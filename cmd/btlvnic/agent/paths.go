//go:build linux

package agent

import (
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

// sizesMax is the maximum number of size probes and answers of one host that a receiver handles in
// a second. Other agents send fewer than 300.
const sizesMax = 512

// doubt makes the control thread probe all paths, because the operating system has refused a
// packet as too large, or has no room for packets. Any thread may call doubt.
func (a *Agent) doubt() {
	if !a.doubted.Swap(true) {
		a.wake()
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

// probePaths sends the size probes that are due.
func (a *Agent) probePaths(now mono.Time) (n int) {
	doubted := now >= a.doubtAt && a.doubted.Swap(false)
	if now < a.pathsAt && !doubted {
		return n
	}
	if doubted {
		a.doubtAt = now.Add(doubtPause)
	}
	a.pathsAt = mono.Never
	for lid, s := range a.paths {
		if doubted {
			s.Doubt(now)
		}
		was := s.Silent()
		a.asks = s.Probes(now, a.asks[:0])
		a.silenceChanged = a.silenceChanged || s.Silent() != was
		for _, p := range a.asks {
			a.senders[0].probeSize(now, lid, vnic.SizeAsks, p)
			n++
		}
		a.pathsAt = a.pathsAt.Min(s.Due())
	}
	return n
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

// probeSize sends a size probe, or an answer to one, to the first receiving address of a host. The
// probe is lost if the host has no address, if the sender has no buffer, or if the send queue is
// full. It is also lost if the host is silent, the part of the silent hosts in the send buffer is
// full, and they have got rareProbes in the present second.
func (s *sender) probeSize(now mono.Time, lid uint32, kind uint8, p vnic.SizeProbe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.agent.peers.Load(); seen != s.link.seen && len(s.batch) == 0 {
		s.learn(seen)
	}
	addrs := s.byLID[lid]
	if len(addrs) == 0 || s.reap() != nil || len(s.free) == 0 { // the sender's thread tells errors
		return
	}
	s.quiet.known = false
	if !s.quiet.admits(lid, kernelBytes(p.Bytes)) && !s.agent.rare.take(now, rareProbes) {
		return
	}
	buf := s.free[len(s.free)-1]
	mem := s.link.arena.Bytes(buf)
	if p.Bytes > len(mem) {
		return
	}
	s.free = s.free[:len(s.free)-1]
	s.refs[buf]++
	vnic.PutSizeProbe(mem[:p.Bytes], kind, p.Number)
	one := fabric.Send{To: addrs[0], Buf: buf, Len: uint32(p.Bytes)}
	if err := s.link.offer(one); err != nil || p.Bytes <= s.link.caps.InjectBytes {
		s.release(buf)
	}
}
