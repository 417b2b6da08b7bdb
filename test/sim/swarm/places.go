package swarm

import (
	"bytes"

	"gobtl/btl"
)

// Large messages of the first tags are announced, and mostly come into memory of the application's,
// which has a pattern in it while it is nobody's: so what is written there too late shows. Every
// now and then one goes to the pool, or is offered too little, or refused.

// placeTags is how many tags have their large messages announced.
const placeTags = 3

// places is the memory that a life gives to large messages.
type places struct {
	asked int
	given map[*byte]int // its length, by its first byte
	free  [][]byte
}

// openPlaces has the module ask.
func (l *life) openPlaces() error {
	l.places.given = map[*byte]int{}
	for t := range placeTags {
		if err := l.mod.OnAnnounced(btl.Tag(t+1), l.place); err != nil {
			return err
		}
	}
	l.mod.OnAbandoned(l.onAbandoned)
	return nil
}

// place says where a message goes.
func (l *life) place(ep *btl.Endpoint, a btl.Announced) btl.Place {
	const refuse, pool, small = 13, 7, 5
	p, e := &l.places, l.endOf(ep)
	if l.closed || e.over {
		l.w.fail("%s: a message is announced after the end", e)
	}
	switch p.asked++; {
	case p.asked%refuse == 0 && a.OffsetBytes == 0:
		if m := l.w.ledger.claimed(a.Data); m != nil {
			m.refused = true
		}
		return btl.PlaceRefused()
	case p.asked%pool == 0:
		return btl.Place{}
	case p.asked%small == 0:
		return btl.PlaceIn(p.take(l, a.SizeBytes)[:a.SizeBytes-1])
	}
	mem := p.take(l, a.SizeBytes)
	p.given[&mem[0]] = a.SizeBytes
	return btl.PlaceIn(mem)
}

// placePattern is what free memory is filled with.
var placePattern = bytes.Repeat([]byte{0xA5}, 1<<20)

// take returns free memory, on which nobody has written.
func (p *places) take(l *life, size int) []byte {
	if n := len(p.free); n > 0 {
		mem := p.free[n-1]
		p.free = p.free[:n-1]
		for i := 0; i < len(mem); i += len(placePattern) {
			part := mem[i:min(i+len(placePattern), len(mem))]
			if !bytes.Equal(part, placePattern[:len(part)]) {
				l.w.fail("node %s: memory of a message was written that is over", l.host.node.Name())
			}
		}
		if len(mem) >= size {
			return mem
		}
	}
	return make([]byte, size)
}

// back takes memory back, if data is all that was given for a message.
func (p *places) back(l *life, e *end, data []byte) {
	const few = 16
	if len(data) == 0 || p.given[&data[0]] == 0 {
		return
	}
	if size := p.given[&data[0]]; size != len(data) {
		l.w.fail("%s: of memory for %d bytes %d come back", e, size, len(data))
	}
	delete(p.given, &data[0])
	if len(p.free) == few {
		return
	}
	for i := 0; i < len(data); i += len(placePattern) {
		copy(data[i:], placePattern)
	}
	p.free = append(p.free, data)
}

// onAbandoned hears that memory is the application's again.
func (l *life) onAbandoned(ep *btl.Endpoint, tag btl.Tag, mem []byte) {
	e := l.endOf(ep)
	if l.closed || e.over || tag > placeTags || l.places.given[&mem[0]] == 0 {
		l.w.fail("%s: %d bytes for tag %d come back, which it did not have", e, len(mem), tag)
	}
	l.places.back(l, e, mem)
}

// judgeClosed judges that all has come back when the module is closed.
func (p *places) judgeClosed(l *life) {
	if n := len(p.given); n > 0 {
		l.w.fail("node %s: the memory of %d messages has not come back", l.host.node.Name(), n)
	}
}
