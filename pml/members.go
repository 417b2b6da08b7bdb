package pml

// Members is a set of peers (see Request.Among). The set contains numbers of peers (Peer.Number),
// so a Members can include peers that have not connected yet. The zero value is the empty set.
type Members struct{ bits []uint64 }

// Add adds the peers with the given number to the set. The number must not be 0.
func (m *Members) Add(number uint32) {
	for uint32(len(m.bits)) <= number/64 {
		m.bits = append(m.bits, 0)
	}
	m.bits[number/64] |= 1 << (number % 64)
}

// Has reports whether the set contains a peer. A peer whose Number is 0 belongs to no set.
func (m *Members) Has(p *Peer) bool {
	n := p.Number
	return n/64 < uint32(len(m.bits)) && m.bits[n/64]>>(n%64)&1 != 0
}

// DropOthers drops messages of peers outside the set "among". DropOthers drops all such messages
// that would be found, before a message of the set's peers, by a Recv from any peer with the
// arguments "tag" and "mask". The send of a dropped message ends as if the message had been
// received. Probe and MProbe do not know the set "among": a program that looks for messages from
// any peer of the set calls DropOthers first.
func (l *Layer) DropOthers(among *Members, tag, mask uint64) {
	for {
		m := l.unexpected.find(nil, tag, mask)
		if m == nil || among.Has(m.peer) {
			return
		}
		l.unexpected.take(m)
		l.drop(m.peer.ep.Now(), m)
		l.memory.release(m)
		l.done.settle()
	}
}
