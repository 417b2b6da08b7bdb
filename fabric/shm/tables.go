//go:build linux

package shm

import (
	"syscall"

	"gobtl/fabric"
)

const (
	maxPeers   = 1 << 24
	maxRegions = 1 << 20
)

var (
	errUnknownAddr = failure("fi_send", syscall.EINVAL, "unknown or removed peer address")
	errRemoveAddr  = failure("fi_av_remove", syscall.EINVAL, "unknown or removed peer address")
	errBadBuf      = failure("post", syscall.EINVAL, "buffer outside the arena")
	errTooLong     = failure("fi_send", syscall.EMSGSIZE, "datagram larger than the buffer or the MTU")
	errBadRegion   = failure("fi_send", syscall.EINVAL, "unknown region, or bytes outside it")
	errNoRegion    = failure("fi_close", syscall.EINVAL, "unknown region")
)

func failure(op string, errno syscall.Errno, text string) error {
	return &fabric.Error{Provider: ProviderName, Op: op, Errno: int(errno), Text: text}
}

// peerTable is a domain's address vector. An Addr consists of an index into the address vector and
// a generation number. If the generation number of an Addr is not the generation number of the
// entry, the Addr was removed.
type peerTable struct {
	peers  []peer
	free   []uint32
	byName map[name]uint32
}

type peer struct {
	name    name
	gen     uint32
	inserts int        // 0: the slot is free
	links   []*outLink // by the slot of the sending endpoint
}

func (t *peerTable) get(a fabric.Addr) *peer {
	i, gen := uint32(a), uint32(a>>32)
	if uint64(i) >= uint64(len(t.peers)) || t.peers[i].gen != gen || t.peers[i].inserts == 0 {
		return nil
	}
	return &t.peers[i]
}

func (t *peerTable) insert(n name) (fabric.Addr, error) {
	i, known := t.byName[n]
	switch {
	case known:
	case len(t.free) > 0:
		i = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	case len(t.peers) == maxPeers:
		return fabric.AddrUnknown, fabric.ErrAgain
	default:
		i = uint32(len(t.peers))
		t.peers = append(t.peers, peer{})
	}
	p := &t.peers[i]
	p.name = n
	p.inserts++
	t.byName[n] = i
	return fabric.Addr(p.gen)<<32 | fabric.Addr(i), nil
}

// The method "remove" undoes one Insert of an Addr. When every Insert of an Addr has been undone,
// the method "remove" closes the links to the peer, and cancels the sends that wait for room in the
// rings to the peer.
func (t *peerTable) remove(a fabric.Addr) error {
	p := t.get(a)
	if p == nil {
		return errRemoveAddr
	}
	if p.inserts--; p.inserts > 0 {
		return nil
	}
	for i, l := range p.links {
		if l != nil {
			l.close()
			l.fail(syscall.ECANCELED)
			p.links[i] = nil
		}
	}
	delete(t.byName, p.name)
	t.free = append(t.free, uint32(a))
	*p = peer{gen: p.gen + 1, links: p.links}
	return nil
}

// regionTable holds the registered memory regions. A Region is an index into the regionTable, from
// 1 on.
type regionTable struct {
	slots [][]byte
	free  []fabric.Region
}

func (t *regionTable) add(mem []byte) (fabric.Region, error) {
	if len(mem) == 0 {
		return 0, badConfig("a region of no bytes")
	}
	if len(t.slots) == 0 {
		t.slots = make([][]byte, 1)
	}
	if n := len(t.free); n > 0 {
		r := t.free[n-1]
		t.free = t.free[:n-1]
		t.slots[r] = mem
		return r, nil
	}
	if len(t.slots) > maxRegions {
		return 0, fabric.ErrAgain
	}
	t.slots = append(t.slots, mem)
	return fabric.Region(len(t.slots) - 1), nil
}

func (t *regionTable) remove(r fabric.Region) error {
	if uint64(r) >= uint64(len(t.slots)) || t.slots[r] == nil {
		return errNoRegion
	}
	t.slots[r] = nil
	t.free = append(t.free, r)
	return nil
}

// The method "gather" returns the part of a registered region that a send refers to. The result
// "ok" of the method "gather" is true if the bytes of the send are within the region, and otherwise
// false.
func (t *regionTable) gather(s *fabric.Send) (mem []byte, ok bool) {
	if uint64(s.Region) >= uint64(len(t.slots)) {
		return nil, false
	}
	mem = t.slots[s.Region]
	if s.RegionOff > uint64(len(mem)) || uint64(s.RegionLen) > uint64(len(mem))-s.RegionOff {
		return nil, false
	}
	return mem[s.RegionOff : s.RegionOff+uint64(s.RegionLen)], mem != nil
}
