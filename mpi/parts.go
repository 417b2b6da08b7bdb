package mpi

import "slices"

// The constants below limit the control messages that are sent in several parts.
const (
	// noticeBytesMax is the largest size in bytes of one part of a control message. A control message
	// of more than noticeBytesMax bytes is sent in several parts.
	noticeBytesMax = 16 << 10
	// assembliesMax is the largest number of incomplete control messages that are stored for each
	// sender.
	assembliesMax = 64
)

// An assembly is a control message of which some parts have not arrived.
type assembly struct {
	kind    noticeKind
	key     roundKey
	seen    []bool // whether each part has arrived
	missing int    // parts that are known to be missing
	ended   bool   // the last part was received
	dead    []int
}

// noticeRanksMax returns the largest number of dead ranks that fit in one part of a control
// message.
func (e *engine) noticeRanksMax() int {
	if n := e.failures.perPart; n > 0 {
		return n
	}
	return max(1, (min(noticeBytesMax, e.m.Limits().FragmentBytesMax)-noticeHeadBytes)/4)
}

// The type "reassembly" stores the incomplete control messages of all senders, and joins the parts
// of each control message. The zero value is ready for use.
type reassembly struct {
	from map[int][]*assembly // by sender, the oldest first
}

// The method "whole" adds a received part to the incomplete control message to which the part
// belongs. If all parts of the control message have arrived, the method "whole" copies the dead
// ranks of all parts to the argument n and returns true, and otherwise returns false. The argument
// "ranks" is the number of ranks of the job.
func (p *reassembly) whole(from int, n *notice, ranks int) bool {
	if len(n.dead) > min(ranks, (noticeBytesMax-noticeHeadBytes)/4) {
		return false // Too many ranks for the job, or for one message.
	}
	if !n.more && n.part == 0 {
		return true
	}
	if int(n.part) > ranks {
		return false // Each part except the last has at least one rank.
	}
	if p.from == nil {
		p.from = make(map[int][]*assembly)
	}
	key := roundKey{n.context, n.round}
	list := p.from[from]
	at := slices.IndexFunc(list, func(a *assembly) bool { return a.kind == n.kind && a.key == key })
	if at < 0 {
		if len(list) >= assembliesMax { // The oldest may be the rest of a duplicate message.
			list = slices.Delete(list, 0, 1)
		}
		at = len(list)
		list = append(list, &assembly{kind: n.kind, key: key})
		p.from[from] = list
	}
	a := list[at]
	if len(a.dead)+len(n.dead) > ranks || !a.add(n) {
		return false
	}
	if !a.ended || a.missing > 0 {
		return false
	}
	n.dead, n.more, n.part = a.dead, false, 0
	slices.Sort(n.dead)
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(p.from, from)
	} else {
		p.from[from] = list
	}
	return true
}

// The method "drop" deletes the incomplete control messages of a sender.
func (p *reassembly) drop(from int) { delete(p.from, from) }

// The method "add" stores a part of a control message, and reports whether the part was valid. A
// part is invalid if it was already stored, or if its number is higher than the number of the last
// part.
func (a *assembly) add(n *notice) bool {
	part := int(n.part)
	if part < len(a.seen) && a.seen[part] || a.ended && (!n.more || part >= len(a.seen)) {
		return false
	}
	for len(a.seen) <= part {
		a.seen = append(a.seen, false)
		a.missing++
	}
	a.seen[part] = true
	a.missing--
	a.ended = a.ended || !n.more
	a.dead = append(a.dead, n.dead...)
	return true
}
