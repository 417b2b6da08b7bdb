//go:build linux

package shm

import (
	"syscall"

	"gobtl/fabric"
)

const maxPeers = 1 << 24

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
