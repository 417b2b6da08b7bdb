package pml

import (
	"gobtl/btl"
	"gobtl/internal/recent"
)

// GroupBits is the number of lower bits of a tag that do not belong to the tag's group (see
// Refuse). All higher bits of a tag are the tag's group.
const GroupBits = 24

// The function "group" returns the group of a tag.
func group(tag uint64) uint64 { return tag >> GroupBits }

// refusedMax is the largest number of groups of tags that a Layer refuses at the same time.
const refusedMax = 1 << 16

// The type "refused" contains the groups of tags that were refused most recently, at most
// refusedMax groups. The zero value is ready for use.
type refused struct{ groups recent.Set }

// The method "has" reports whether the group of a tag is refused.
func (s *refused) has(tag uint64) bool { return s.groups.Has(group(tag)) }

// Refuse drops all messages whose tags are in the same group as the argument "tag". Refuse applies
// to messages that have arrived, to messages that MProbe has returned, and to messages that arrive
// later, until 65536 further groups were refused. If many messages have arrived, later calls of
// Progress drop the rest of them, which receives and probes do not find. The send of a dropped
// message ends as if the message had been received, so that the sender does not wait forever. A
// posted receive that can match only tags of the refused group ends with the error "why". If "why"
// is nil, the receive stays posted, and gets a matching message that arrives later. After Refuse,
// the caller must not begin receives for the refused group. The argument "now" of Refuse is the
// current time.
func (l *Layer) Refuse(now btl.Time, tag uint64, why error) {
	g := group(tag)
	l.refused.groups.Add(g, refusedMax)
	if why != nil {
		l.posted.each(func(r *Request) {
			if group(r.tag) == g && group(r.mask) == group(exactly) {
				l.finish(r, why)
			}
		})
	}
	// Refuse removes all messages of the group from the list "probed" before it drops the first of
	// them. The method "drop" can end the connection to a peer, and the end of a connection changes
	// the list.
	var probed []*Message
	for m := l.probed.all.first; m != nil; m = m.order.next {
		if group(m.tag) == g && !m.active {
			probed = append(probed, m)
		}
	}
	for _, m := range probed {
		l.probed.remove(m)
	}
	for _, m := range probed {
		l.drop(now, m)
		l.memory.spend(m)
	}
	if q := &l.unexpected; q.next == nil {
		q.next = q.all.first
	} else {
		q.again = true
	}
	l.swept.sweep()
	l.done.settle()
}

// isRefused reports whether a message belongs to a refused group, and was not dropped yet. Unless a
// look at all messages is due, the list contains no such message.
func (q *unexpected) isRefused(m *Message) bool {
	return (q.next != nil || q.again) && q.refused.has(m.tag)
}

// The method "due" returns the next unexpected message to look at, because its group of tags may
// have been refused after its arrival. If there is none, the method "due" returns nil.
func (q *unexpected) due() *Message {
	if q.next == nil && q.again {
		q.again, q.next = false, q.all.first
	}
	return q.next
}

// The method "drop" discards a message, and replies to the sender as if the message had been
// received.
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
