package remote

import "gobtl/frag"

// Notice is the state of a put with a notification. The notification tells the target that all
// bytes of the put are written. Because each packet is accepted only once, the put is complete when
// the number of accepted bytes equals the total in the notification. A put with a refused packet
// never completes.
type Notice struct {
	number uint32
	used   bool // number is valid
	here   bool // the notification has arrived
	tag    uint8
	length uint8
	placed uint64 // bytes written
	total  uint64
	says   [frag.NoticeBytesMax]byte
}

// Here reports whether the notification of the put has arrived.
func (n *Notice) Here() bool { return n.here }

// Take returns the notification of a put, if all bytes of the put are written. The result "says" of
// Take is the content of the notification, and is valid until the next packet of the peer. The
// result "ok" of Take says whether the put is complete.
func (n *Notice) Take() (tag uint8, says []byte, ok bool) {
	if !n.here || n.placed < n.total {
		return 0, nil, false
	}
	n.used, n.here = false, false
	return n.tag, n.says[:n.length], true
}

// The method "notice" returns the state of the peer's put with the given number. The state of a new
// put replaces the state of the put whose number is lower by noticePlaces, because this earlier put
// has already ended.
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

// Placed records that sizeBytes of a peer's put were written to the target region, and returns the
// state of this put.
func (p *Peer[F]) Placed(number uint32, sizeBytes int) *Notice {
	n := p.notice(number)
	n.placed += uint64(sizeBytes)
	return n
}

// noticeCame stores the notification of a put. The argument inOrder of noticeCame says whether the
// link keeps the order of packets, so that all packets of the put arrive before the notification.
// On a link that keeps the order of packets, noticeCame refuses a notification whose put has
// missing bytes. The second result of noticeCame is the reason for a Nack, or 0 if the notification
// is accepted.
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
