package remote

import "gobtl/frag"

// Notice is what is known of a put of a peer that has a notice. Each packet is accepted once, so
// its bytes are all in place when as many have been accepted as the notice says; of a put of which
// one was refused they never are.
type Notice struct {
	number uint32
	used   bool // number counts
	here   bool // the notice is
	tag    uint8
	length uint8
	placed uint64 // bytes
	total  uint64
	says   [frag.NoticeBytesMax]byte
}

// Here says whether the notice itself has come.
func (n *Notice) Here() bool { return n.here }

// Take returns the notice of a put that is all in place. What it says is valid until the next
// packet of the peer. False means that there is none yet.
func (n *Notice) Take() (tag uint8, says []byte, ok bool) {
	if !n.here || n.placed < n.total {
		return 0, nil, false
	}
	n.used, n.here = false, false
	return n.tag, n.says[:n.length], true
}

// notice is where a put of the peer is counted. A number takes the place of that 64 before it,
// which is over: so nothing has to be said when one fails.
func (p *Peer[F]) notice(number uint32) *Notice {
	if p.notices == nil {
		p.notices = new([noticePlaces]Notice)
	}
	n := &p.notices[number%noticePlaces]
	if !n.used || n.number != number {
		*n = Notice{number: number, used: true}
	}
	return n
}

// Placed counts bytes of a put of the peer that are in their place.
func (p *Peer[F]) Placed(number uint32, sizeBytes int) *Notice {
	n := p.notice(number)
	n.placed += uint64(sizeBytes)
	return n
}

// noticeCame takes a notice in. inOrder says that nothing comes behind it that could be missing:
// then it is refused if something is.
func (p *Peer[F]) noticeCame(h *frag.Header, payload []byte, inOrder bool) (*Notice, uint8) {
	total, says := frag.DecodeNotice(payload)
	n := p.notice(h.Op)
	if inOrder && n.placed < uint64(total) {
		return nil, frag.NackAccess
	}
	n.here, n.tag, n.total = true, h.Tag, uint64(total)
	n.length = uint8(copy(n.says[:], says))
	return n, 0
}
