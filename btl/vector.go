package btl

import (
	"fmt"

	"gobtl/btl/internal/payload"
	"gobtl/frag"
)

// PiecesMax is the maximum number of memory segments in a fragment.
const PiecesMax = payload.PiecesMax

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
	m.frags.payloads.Scatter(&f.data, pieces)
	return f, nil
}

// settleVector finds the registrations of the memory segments of a fragment.
func (m *Module) settleVector(f *Fragment) (*Fragment, error) {
	if f.size == 0 || int(f.size) < payload.GatherBytesMin && !f.put &&
		int(f.size) <= segmentRoom(f.ep.mtu, frag.KindFrag) {
		if ep := f.ep; !m.takeSeg(ep, &f.seg) {
			m.freeFrag(f)
			return nil, ep.again(wantsFragment)
		}
		f.hasSeg = true
		packet := m.port.Arena.Bytes(segBuf(f.seg))[frag.FragHeaderBytes:][:f.size]
		f.data.CopyTo(packet, 0)
		m.frags.payloads.Join(&f.data)
		f.data.Bytes = packet
		return f, nil
	}
	m.frags.payloads.Find(&f.data)
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
	if f.size == 0 { // an empty payload needs no memory segments
		ep.m.frags.payloads.Join(&f.data)
		return f, nil
	}
	return ep.m.settleVector(f)
}
