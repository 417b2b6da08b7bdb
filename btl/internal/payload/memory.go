package payload

import (
	"fmt"

	"gobtl/btl/internal/regcache"
	"gobtl/fabric"
)

// GatherBytesMin is the minimum size, in bytes, of a payload that the fabric gathers from the
// payload's memory without a copy by the module.
const GatherBytesMin = 4 << 10

// gatherPieceMin is the minimum size, in bytes, of a piece of memory that is registered for the
// send of one payload.
const gatherPieceMin = 1 << 10

// Memory registers the memory of a module's payloads with the fabric.
type Memory struct {
	registered regcache.Cache // memory that the caller has registered
	dom        fabric.Domain  // nil after Close
	gathers    bool           // the fabric gathers
	registers  bool           // a registration is cheap enough for a single send
	own        int            // payloads whose memory is registered only for them
	idle       []*pieces
}

// Init makes the Memory empty, and ready for use with a fabric domain. The argument "caps" of Init
// describes the channel that carries large payloads.
func (m *Memory) Init(dom fabric.Domain, caps *fabric.Caps) {
	m.dom, m.gathers, m.registers = dom, caps.Gather, caps.FreeRegions
	m.registered.Init(dom)
}

// Close records that the fabric is closed, so that the Memory must no longer use the fabric.
func (m *Memory) Close() { m.dom = nil }

// Own returns the number of payloads that have registered memory only for the time of one send.
func (m *Memory) Own() int { return m.own }

// Check returns an error if the registrations are inconsistent, and nil otherwise. The argument
// "own" of Check is the number of payloads in use for which Payload.Registered returns true.
func (m *Memory) Check(own int) error {
	if own != m.own {
		return fmt.Errorf("%d regions of fragments under way, %d counted", own, m.own)
	}
	return m.registered.Check()
}

// Register registers the memory "mem" with the fabric for the caller, see regcache.Cache.Register.
func (m *Memory) Register(mem []byte) (*regcache.Registration, error) {
	return m.registered.Register(mem)
}

// Find looks up the caller's registrations that cover the payload's memory. If the fabric does not
// gather payloads, Find does nothing.
func (m *Memory) Find(p *Payload) {
	switch {
	case !m.gathers:
	case p.pieces == nil:
		p.region, p.off = m.registered.Find(p.Bytes)
	default:
		for i := range p.pieces.all() {
			piece := &p.pieces.list[i]
			piece.region, piece.off = m.registered.Find(piece.mem)
		}
	}
}

// Gather reports whether the fabric reads any of the payload's bytes in place, without a copy. If
// registration is cheap (Caps.FreeRegions), Gather registers the payload's memory for the time of
// the send. If a payload in several memory blocks (pieces) fits into one packet, only the last
// block can be gathered. The argument "chunked" of Gather says whether the payload is sent in
// several packets.
func (m *Memory) Gather(p *Payload, chunked bool) bool {
	if p.pieces != nil {
		return m.gatherPieces(p, chunked)
	}
	if p.region != 0 || !m.registers {
		return p.region != 0
	}
	region, err := m.dom.RegisterRegion(p.Bytes)
	if err != nil {
		return false // the payload is copied
	}
	p.region, p.off = region, 0
	m.noteOwn(p)
	return true
}

func (m *Memory) gatherPieces(p *Payload, chunked bool) (found bool) {
	list := p.pieces.all()
	if !chunked {
		list = list[len(list)-1:]
	}
	for i := range list {
		piece := &list[i]
		if piece.region == 0 && m.registers && len(piece.mem) >= gatherPieceMin {
			region, err := m.dom.RegisterRegion(piece.mem)
			if err != nil {
				continue // the piece is copied
			}
			piece.source = source{region: region, own: true}
			m.noteOwn(p)
		}
		found = found || piece.region != 0
	}
	return found
}

// noteOwn counts a payload whose memory is registered only for the send of this payload.
func (m *Memory) noteOwn(p *Payload) {
	if !p.own {
		p.own = true
		m.own++
	}
}

// Drop removes the memory registrations that Gather has made for the payload, if there are any.
func (m *Memory) Drop(p *Payload) {
	if p.own { // inlined
		m.drop(p)
	}
}

func (m *Memory) drop(p *Payload) {
	switch {
	case m.dom == nil: // a closed module has no fabric any more
	case p.pieces == nil:
		_ = m.dom.DeregisterRegion(p.region)
	default:
		for i := range p.pieces.all() {
			if piece := &p.pieces.list[i]; piece.own {
				_ = m.dom.DeregisterRegion(piece.region)
			}
		}
	}
	p.region, p.own = 0, false
	m.own--
}

// Scatter makes p a payload that consists of the given memory blocks (pieces), of which there are
// at most PiecesMax. Scatter skips empty memory blocks, and returns the number of memory blocks
// that are not empty.
func (m *Memory) Scatter(p *Payload, mems [][]byte) (count int) {
	if n := len(m.idle); n > 0 {
		p.pieces, m.idle = m.idle[n-1], m.idle[:n-1]
	} else {
		p.pieces = new(pieces)
	}
	var at uint32
	for _, mem := range mems {
		at = p.pieces.add(mem, at)
	}
	return p.pieces.count
}

// Join frees the list of memory blocks that Scatter has made, and leaves the payload empty.
func (m *Memory) Join(p *Payload) {
	if p.pieces != nil { // inlined
		m.join(p)
	}
}

func (m *Memory) join(p *Payload) {
	v := p.pieces
	clear(v.all())
	v.count = 0
	m.idle = append(m.idle, v)
	p.pieces = nil
}
