package mpi

import "slices"

// Bounds of notices that are sent in parts.
const (
	// noticeBytesMax is the largest message that a notice takes.
	noticeBytesMax = 16 << 10
	// assembliesMax bounds the incomplete notices of a rank. A rank sends a vote and a decision of
	// the two latest rounds of a communicator, and may take part in rounds of a few communicators
	// at once.
	assembliesMax = 64
)

// assembly is a notice of which some parts are missing.
type assembly struct {
	kind    noticeKind
	key     roundKey
	seen    []bool // by part
	missing int    // missing parts before the latest one received, or before the end
	ended   bool   // the last part was received
	dead    []int
}

// noticeRanksMax is the largest number of dead ranks in one message.
func (e *engine) noticeRanksMax() int {
	if n := e.failures.perPart; n > 0 {
		return n
	}
	return max(1, (min(noticeBytesMax, e.m.Limits().FragmentBytesMax)-noticeHeadBytes)/4)
}

// whole adds a received part to a notice of a rank. It reports whether the notice is now complete,
// and then fills it in.
func (e *engine) whole(from int, n *notice) bool {
	if len(n.dead) > min(len(e.names), (noticeBytesMax-noticeHeadBytes)/4) {
		return false // More than there are, or than an honest rank puts into a message.
	}
	if !n.more && n.part == 0 {
		return true
	}
	f := &e.failures
	if int(n.part) > len(e.names) {
		return false // Each but the last has one rank, at least.
	}
	if f.parts == nil {
		f.parts = make(map[int][]*assembly)
	}
	key := roundKey{n.context, n.round}
	list := f.parts[from]
	at := slices.IndexFunc(list, func(a *assembly) bool { return a.kind == n.kind && a.key == key })
	if at < 0 {
		if len(list) >= assembliesMax { // The oldest: a notice sent twice may leave a part.
			list = slices.Delete(list, 0, 1)
		}
		at = len(list)
		list = append(list, &assembly{kind: n.kind, key: key})
		f.parts[from] = list
	}
	a := list[at]
	if !a.add(n) || len(a.dead) > len(e.names) {
		return false
	}
	if !a.ended || a.missing > 0 {
		return false
	}
	n.dead, n.more, n.part = a.dead, false, 0
	slices.Sort(n.dead)
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(f.parts, from)
	} else {
		f.parts[from] = list
	}
	return true
}

// add stores a part. It reports false if the part is already there, or lies behind the end.
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
