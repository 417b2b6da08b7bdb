package pml

import "gobtl/btl"

// GroupBits are the lowest bits of a tag; those above name its group, for Refuse.
const GroupBits = 24

// group is that of a tag.
func group(tag uint64) uint64 { return tag >> GroupBits }

// Refuse has messages with tags of tag's group be dropped, for good: those that have come, also if
// MProbe has taken them out, and those that come. Their sends end as if they had been received, so
// nobody waits for what nobody will receive. Receives that wait for such messages alone end with
// why. Begin no others. now is the present instant.
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
	// An answer may end a peer, and with it others that are kept: so all are taken out first.
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

// drop answers a message that nobody will receive as if it had been received.
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
