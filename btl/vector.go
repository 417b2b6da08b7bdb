package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/reliability"
)

// A fragment's payload may lie in several pieces of memory. A small payload is copied into one
// packet buffer. Of a large payload, the fabric gathers at most one contiguous run of bytes per
// packet, at the packet's end. The bytes before the gathered run are copied behind the packet's
// header. Of a short piece followed by a long one, only the short piece is copied. Of a piece
// between two others, only the last bytes, which share a packet with the next piece, are copied.
//
//	pieces:   1    |        2       |     3     |
//	packets:  c....|......|......|..c.......|...|     c: copied; the rest is gathered

// PiecesMax is the maximum number of pieces in a fragment.
const PiecesMax = 8

// gathersPieces says whether the fabric gathers any piece of fragment f, and registers long pieces
// if registration is cheap. In a fragment of one packet, only the last piece can be gathered.
func (m *Module) gathersPieces(f *Fragment) (found bool) {
	pieces := f.vec.all()
	if !f.large {
		pieces = pieces[len(pieces)-1:]
	}
	for i := range pieces {
		p := &pieces[i]
		if p.gather == 0 && m.port.Data.Caps().FreeRegions && len(p.mem) >= gatherPieceMin {
			region, err := m.port.Dom.RegisterRegion(p.mem)
			if err != nil {
				continue // the piece is copied
			}
			p.source = source{gather: region, ownRegion: true}
			m.frags.noteOwnRegion(f)
		}
		found = found || p.gather != 0
	}
	return found
}

// gatherPieceMin is the size in bytes from which on a piece of a large fragment is registered for
// that fragment alone.
const gatherPieceMin = 1 << 10

// dropPieces ends the memory registrations that were made for pieces of this fragment alone.
func (m *Module) dropPieces(f *Fragment) {
	for i := range f.vec.all() {
		if p := &f.vec.pieces[i]; p.ownRegion {
			_ = m.port.Dom.DeregisterRegion(p.gather) // as in dropRegion
		}
	}
}

// loadPieces is load for a fragment in pieces. loadPieces puts the fragment's next sizeBytes into
// send buffer t, behind headBytes of space for the header. The last run of bytes in the packet is
// gathered if possible, and the bytes before that run are copied.
func (m *Module) loadPieces(f *Fragment, t reliability.Token, headBytes int, sizeBytes uint32) {
	v := f.vec
	dst := m.port.Arena.Bytes(segBuf(t))[headBytes:][:sizeBytes]
	last := v.holding(f.cursor + sizeBytes - 1)
	if last.gather == 0 {
		v.copyTo(dst, f.cursor)
		return
	}
	at := max(last.at, f.cursor)
	v.copyTo(dst[:at-f.cursor], f.cursor)
	s := &m.segs[t]
	s.frag, s.gatherAt, s.gatherLen = f, at, uint16(f.cursor+sizeBytes-at)
	m.stats.counters[CntSentGatheredBytes] += uint64(s.gatherLen)
}

// takeVector returns a fragment whose payload lies in the given pieces.
func (ep *Endpoint) takeVector(pieces [][]byte) (*Fragment, error) {
	if len(pieces) > PiecesMax {
		return nil, fmt.Errorf("%w: %d pieces, at most %d", ErrTooLarge, len(pieces), PiecesMax)
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	m := ep.m
	f, err := m.takeFrag(ep, size)
	if err != nil {
		return nil, err
	}
	v := m.frags.takeVector()
	var at uint32
	for _, p := range pieces {
		at = v.add(p, at)
	}
	f.vec = v
	return f, nil
}

// settleVector finds the memory registrations that the pieces of a fragment have. A small payload
// is copied into one packet buffer, so that the fragment may share a packet.
func (m *Module) settleVector(f *Fragment) (*Fragment, error) {
	v := f.vec
	if v.count == 0 || int(f.size) < gatherBytesMin && !f.put &&
		int(f.size) <= segmentRoom(f.ep.mtu, frag.KindFrag) {
		if ep := f.ep; !m.takeSeg(ep, &f.seg) {
			m.freeFrag(f)
			return nil, ep.again(wantsFragment)
		}
		f.hasSeg = true
		f.mem = m.port.Arena.Bytes(segBuf(f.seg))[frag.FragHeaderBytes:][:f.size]
		v.copyTo(f.mem, 0)
		m.dropVector(f)
		return f, nil
	}
	if m.port.Data.Caps().Gather {
		for i := range v.all() {
			p := &v.pieces[i]
			p.gather, p.gatherOff = m.frags.registered.Find(p.mem)
		}
	}
	return f, nil
}

// PreparePieces is Prepare for a payload that lies in up to PiecesMax pieces. The peer's handler
// gets the pieces as one contiguous message. The bytes of the pieces must not change until OnDone
// is called or Send returns Done. The caller may reuse the slice of slices at once. The errors are
// those of Alloc; ErrTooLarge also means too many pieces.
func (ep *Endpoint) PreparePieces(tag Tag, pieces ...[]byte) (*Fragment, error) {
	if tag > TagMax {
		return nil, ErrTag
	}
	f, err := ep.takeVector(pieces)
	if err != nil {
		return nil, err
	}
	f.tag = uint8(tag)
	return ep.m.settleVector(f)
}

// PreparePutPieces is PreparePut for bytes in up to PiecesMax local pieces, which are written
// contiguously into the peer's region.
func (ep *Endpoint) PreparePutPieces(target Handle, offset uint64, pieces ...[]byte) (
	*Fragment, error,
) {
	f, err := ep.takeVector(pieces)
	if err != nil {
		return nil, err
	}
	if offset+uint64(f.size) < offset {
		size := f.size
		ep.m.freeFrag(f)
		return nil, fmt.Errorf("%w: %d bytes at offset %d", ErrRemoteAccess, size, offset)
	}
	f.put, f.handle, f.offset = true, target, offset
	if f.vec.count == 0 { // an empty payload needs no pieces
		ep.m.dropVector(f)
		return f, nil
	}
	return ep.m.settleVector(f)
}

// dropVector returns the vector of a fragment to the pool.
func (m *Module) dropVector(f *Fragment) {
	m.frags.giveVector(f.vec)
	f.vec = nil
}
