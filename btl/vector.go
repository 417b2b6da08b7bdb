package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/reliability"
)

// A fragment's payload may lie in several segments of memory. A small payload is copied to one
// packet buffer. From a large payload, the fabric gathers at most one contiguous part for each
// packet, at the packet's end. The bytes before the gathered part are copied behind the packet's
// header. A short segment before a long one is copied, together with the bytes of the longer
// segments that share its packet.
//
//	pieces:   1    |        2       |     3     |
//	packets:  c....|......|......|..c.......|...|     c: copied; the rest is gathered

// PiecesMax is the maximum number of memory segments in a fragment.
const PiecesMax = 8

// gathersPieces reports whether the fabric gathers any segment of fragment f, and registers long
// segments if registration is cheap. In a fragment of one packet, only the last segment can be
// gathered.
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
				continue // the memory segment is copied
			}
			p.source = source{gather: region, ownRegion: true}
			m.frags.noteOwnRegion(f)
		}
		found = found || p.gather != 0
	}
	return found
}

// gatherPieceMin is the size in bytes from which on a memory segment of a large fragment is
// registered for that fragment alone.
const gatherPieceMin = 1 << 10

// dropPieces ends the memory registrations that were made only for segments of one fragment.
func (m *Module) dropPieces(f *Fragment) {
	for i := range f.vec.all() {
		if p := &f.vec.pieces[i]; p.ownRegion {
			_ = m.port.Dom.DeregisterRegion(p.gather) // as in dropRegion
		}
	}
}

// loadPieces works like load for a fragment in several memory segments, and puts its next
// sizeBytes into send buffer t, behind headBytes of space for the header.
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

// takeVector returns a fragment whose payload lies in the given memory segments.
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

// settleVector finds the registrations of the memory segments of a fragment.
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

// PreparePieces works like Prepare for a payload in up to PiecesMax memory segments. The peer's
// handler gets the bytes of all segments as one contiguous message. The bytes of the segments must
// not change until OnDone is called or Send returns Done. The caller may reuse the slice of slices
// at once. PreparePieces returns the errors of Alloc, where ErrTooLarge may also mean too many
// segments.
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

// PreparePutPieces works like PreparePut for bytes in up to PiecesMax local memory segments, which
// are written contiguously to the peer's region.
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
	if f.vec.count == 0 { // an empty payload needs no memory segments
		ep.m.dropVector(f)
		return f, nil
	}
	return ep.m.settleVector(f)
}

func (m *Module) dropVector(f *Fragment) {
	m.frags.giveVector(f.vec)
	f.vec = nil
}
