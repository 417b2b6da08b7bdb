//go:build linux

package udp

import (
	"fmt"
	"net/netip"

	"gobtl/fabric"
)

const (
	peerChunk = 256
	maxPeers  = 1<<31 - 1
)

// peerTable is a domain's address vector. An Addr consists of an index into the address vector and
// a generation number. If the generation number of an Addr is not the generation number of the
// entry, the Addr was removed.
type peerTable struct {
	chunks []*[peerChunk]peerSlot // blocks that never move: the kernel reads addresses in them
	peers  []peer                 // by index
	free   []uint32
	byName map[netip.AddrPort]uint32
	// The field "changes" counts the changes of the address vector. After each change of the address
	// vector, earlier results of the method "find" are invalid.
	changes uint64
}

// peerSlot is the part of a peer's entry that a send needs.
type peerSlot struct {
	sock sockaddr
	gen  uint32 // 0 while the slot is free
}

type peer struct {
	name    netip.AddrPort
	gen     uint32
	inserts int
}

// The method "slot" returns the entry of an Addr, or nil if the Addr is not valid.
func (t *peerTable) slot(a fabric.Addr) *peerSlot {
	i, gen := uint32(a), uint32(a>>32)
	if uint64(i/peerChunk) >= uint64(len(t.chunks)) {
		return nil
	}
	s := &t.chunks[i/peerChunk][i%peerChunk]
	if s.gen != gen || gen == 0 {
		return nil
	}
	return s
}

func (t *peerTable) find(name netip.AddrPort) fabric.Addr {
	i, ok := t.byName[name]
	if !ok {
		return fabric.AddrUnknown
	}
	return t.addr(i)
}

func (t *peerTable) addr(i uint32) fabric.Addr {
	return fabric.Addr(t.peers[i].gen)<<32 | fabric.Addr(i)
}

func (t *peerTable) insert(name netip.AddrPort, scope uint32) (fabric.Addr, error) {
	if i, ok := t.byName[name]; ok {
		t.peers[i].inserts++
		return t.addr(i), nil
	}
	if len(t.free) == 0 {
		if err := t.grow(); err != nil {
			return fabric.AddrUnknown, err
		}
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	p := &t.peers[i]
	p.name, p.inserts = name, 1
	p.gen++
	if p.gen == 0 {
		p.gen = 1
	}
	s := &t.chunks[i/peerChunk][i%peerChunk]
	s.sock, _ = makeSockaddr(name, scope)
	s.gen = p.gen
	t.byName[name] = i
	t.changes++
	return t.addr(i), nil
}

func (t *peerTable) grow() error {
	n := len(t.peers)
	if n+peerChunk > maxPeers {
		return fmt.Errorf("%w: %d peers", fabric.ErrAgain, n)
	}
	t.chunks = append(t.chunks, new([peerChunk]peerSlot))
	t.peers = append(t.peers, make([]peer, peerChunk)...)
	for i := n + peerChunk - 1; i >= n; i-- {
		t.free = append(t.free, uint32(i))
	}
	return nil
}

func (t *peerTable) remove(a fabric.Addr) bool {
	s := t.slot(a)
	if s == nil {
		return false
	}
	i := uint32(a)
	p := &t.peers[i]
	p.inserts--
	if p.inserts == 0 {
		s.gen = 0
		delete(t.byName, p.name)
		t.changes++
		t.free = append(t.free, i)
	}
	return true
}
