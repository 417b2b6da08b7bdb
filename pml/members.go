package pml

// Members is a set of peers (see Request.Among). Members holds the numbers of the peers
// (Peer.Number), which can include peers that have not connected yet. The zero value is the empty
// set.
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

// DropOthers drops messages of peers outside the set "among" that match the arguments "tag" and
// "mask", up to the first matching message of a peer in the set. The send of a dropped message ends
// as if the message had been received. Because Probe and MProbe have no argument for a set of
// peers, a program calls DropOthers before it probes for messages from any peer of a set.
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
