package peer

import (
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
)

// takeVector returns a fragment whose payload consists of the given memory blocks (pieces).
func (ds *Descriptors) takeVector(ep *Endpoint, pieces [][]byte) (*Fragment, error) {
	if len(pieces) > payload.PiecesMax {
		return nil, fmt.Errorf("%w: %d pieces, at most %d", errs.ErrTooLarge, len(pieces),
			payload.PiecesMax)
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	f, err := ds.takeFrag(ep, size)
	if err != nil {
		return nil, err
	}
	ds.Payloads.Scatter(&f.Data, pieces)
	return f, nil
}

// settleVector copies the payload of a small fragment to a send buffer. For a fragment that is not
// small, settleVector looks up which of its memory blocks are registered with the fabric.
func (ds *Descriptors) settleVector(f *Fragment) (*Fragment, error) {
	if f.size == 0 || int(f.size) < payload.GatherBytesMin && !f.put &&
		int(f.size) <= segmentRoom(f.Ep.MTU(), frag.KindFrag) {
		if ep := f.Ep; !ds.Buffers.takeSeg(ep, &f.seg) {
			ds.FreeFrag(f)
			return nil, ds.Outbox.again(ep, wantsFragment)
		}
		f.hasSeg = true
		packet := ds.Port.Arena.Bytes(fabric.Buf(f.seg))[frag.FragHeaderBytes:][:f.size]
		f.Data.CopyTo(packet, 0)
		ds.Payloads.Join(&f.Data)
		f.Data.Hold(packet)
		return f, nil
	}
	ds.Payloads.Find(&f.Data)
	return f, nil
}

// PreparePieces does the work of btl.Endpoint.PreparePieces.
func (ds *Descriptors) PreparePieces(ep *Endpoint, tag uint8, pieces ...[]byte) (*Fragment, error) {
	if tag > frag.TagUserMax {
		return nil, errs.ErrTag
	}
	f, err := ds.takeVector(ep, pieces)
	if err != nil {
		return nil, err
	}
	f.tag = tag
	return ds.settleVector(f)
}

// PreparePutPieces does the work of btl.Endpoint.PreparePutPieces.
func (ds *Descriptors) PreparePutPieces(ep *Endpoint, target remote.Handle, offset uint64,
	pieces ...[]byte,
) (*Fragment, error) {
	f, err := ds.takeVector(ep, pieces)
	if err != nil {
		return nil, err
	}
	if offset+uint64(f.size) < offset {
		size := f.size
		ds.FreeFrag(f)
		return nil, fmt.Errorf("%w: %d bytes at offset %d", errs.ErrRemoteAccess, size, offset)
	}
	f.put, f.handle, f.offset = true, target, offset
	if f.size == 0 { // an empty payload needs no memory blocks
		ds.Payloads.Join(&f.Data)
		return f, nil
	}
	return ds.settleVector(f)
}
