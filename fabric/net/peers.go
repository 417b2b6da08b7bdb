package net

import (
	"fmt"
	"net/netip"
	"syscall"

	"gobtl/fabric"
)

// maxPeers is the largest number of entries of the address vector.
const maxPeers = 1<<31 - 1

// peerTable is a domain's address vector. An Addr consists of an index into the address vector and
// a generation number. If the generation number of an Addr is not the generation number of the
// entry, the Addr was removed.
type peerTable struct {
	peers   []peer
	free    []uint32
	byName  map[netip.AddrPort]uint32
	changes uint64 // number of changes, after each of which earlier results of find are invalid
}

// A peer is an entry of the address vector. An entry of the address vector is unused if its field
// "inserts" is 0.
type peer struct {
	to      netip.AddrPort // with the zone of a link-local address
	name    netip.AddrPort // without
	gen     uint32
	inserts int

	sockaddr syscall.Sockaddr // to, for the sender; made by the first send
}

func (t *peerTable) get(a fabric.Addr) *peer {
	i, gen := uint64(uint32(a)), uint32(a>>32)
	if i >= uint64(len(t.peers)) || t.peers[i].gen != gen || t.peers[i].inserts == 0 {
		return nil
	}
	return &t.peers[i]
}

func (t *peerTable) addr(i uint32) fabric.Addr {
	return fabric.Addr(t.peers[i].gen)<<32 | fabric.Addr(i)
}

func (t *peerTable) find(name netip.AddrPort) fabric.Addr {
	if i, ok := t.byName[name]; ok {
		return t.addr(i)
	}
	return fabric.AddrUnknown
}

// The method "insert" adds a name to the address vector, or increments the insert count of a name
// that is already in the address vector. The argument "zone" of the method "insert" is the IPv6
// zone of link-local addresses.
func (t *peerTable) insert(name netip.AddrPort, zone string) (fabric.Addr, error) {
	if i, ok := t.byName[name]; ok {
		t.peers[i].inserts++
		return t.addr(i), nil
	}
	if len(t.free) == 0 {
		if len(t.peers) == maxPeers {
			return fabric.AddrUnknown, fmt.Errorf("%w: %d peers", fabric.ErrAgain, maxPeers)
		}
		t.free = append(t.free, uint32(len(t.peers)))
		t.peers = append(t.peers, peer{})
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	p := &t.peers[i]
	p.name, p.to, p.inserts, p.sockaddr = name, name, 1, nil
	if name.Addr().IsLinkLocalUnicast() && name.Addr().Is6() {
		p.to = netip.AddrPortFrom(name.Addr().WithZone(zone), name.Port())
	}
	p.gen++
	t.byName[name] = i
	t.changes++
	return t.addr(i), nil
}

func (t *peerTable) remove(a fabric.Addr) bool {
	p := t.get(a)
	if p == nil {
		return false
	}
	if p.inserts--; p.inserts == 0 {
		delete(t.byName, p.name)
		t.free = append(t.free, uint32(a))
		t.changes++
	}
	return true
}
