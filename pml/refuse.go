package pml

import "gobtl/btl"

// GroupBits is the number of low bits of a tag that do not belong to the group number. The bits
// above them are the tag's group, for Refuse.
const GroupBits = 24

// group returns the group of a tag.
func group(tag uint64) uint64 { return tag >> GroupBits }

// Refuse permanently drops all messages whose tags are in the group of tag. This includes messages
// that have arrived, that MProbe has returned, and that arrive later. Their sends end as if the
// messages had been received, so no sender waits for a receive that will not come. Waiting receives
// of this group alone end with the error why. No more such receives may begin. now is the present
// instant.
func (l *Layer) Refuse(now btl.Time, tag uint64, why error) {
	if l.refused == nil {
		l.refused = make(map[uint64]bool)
	}
	g := group(tag)
	l.refused[g] = true
	l.posted.each(func(r *Request) {
		if group(r.tag) == g && group(r.mask) == group(exactly) {
			l.finish(r, why)
		}
	})
	// An answer may end a peer, and with it other kept messages, so all messages are removed first.
	var come, probed []*Message
	for m := l.unexpected.all.first; m != nil; m = m.order.next {
		if group(m.tag) == g {
			come = append(come, m)
		}
	}
	for m := l.probed.first; m != nil; m = m.order.next {
		if group(m.tag) == g && !m.active {
			probed = append(probed, m)
		}
	}
	for _, m := range come {
		l.takeOut(m)
	}
	for _, m := range probed {
		l.probed.remove(m)
	}
	for _, m := range come {
		l.drop(now, m)
		l.release(m)
	}
	for _, m := range probed {
		l.drop(now, m)
		l.spend(m)
	}
	l.settle()
}

// drop answers a message that will not be received as if it had been received.
func (l *Layer) drop(now btl.Time, m *Message) {
	l.stats.Refused++
	switch {
	case !m.eager:
		l.took(now, m.peer, m.cost())
		l.answer(now, m.peer, head{kind: kindClear, a: m.id})
		return
	case m.sync:
		l.answer(now, m.peer, head{kind: kindMatched, a: m.id})
	}
	l.took(now, m.peer, m.cost())
}
