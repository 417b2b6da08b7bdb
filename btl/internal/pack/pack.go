// Package pack fills a packet with small fragments. A packet that several fragments share is called
// a Pack, and each fragment in it a record.
//
//	one fragment  --> | header |        payload        |
//	several       --> | header | tag, size | payload | tag, size | payload | ...
//
// The first fragment of a Pack has no record header while it is the only fragment, so that a Pack
// of one fragment is an ordinary packet (Frag). When the second fragment is added, the payload of
// the first fragment is moved to make room for its record header. Package pack implements only the
// layout of a Pack, and uses neither connections nor buffers. A Pack is not safe for concurrent
// use.
package pack

import (
	"fmt"

	"gobtl/frag"
)

// Pack describes a packet to which small fragments can still be added. A zero Pack is not open.
type Pack struct {
	bytes   uint32 // datagram size with header, or 0 if the Pack is not open
	records uint32
	tag     uint8 // tag of the first record
}

// Open reports whether the Pack contains at least one fragment.
func (p *Pack) Open() bool { return p.bytes != 0 }

// Bytes returns the size of the Pack as a datagram, or 0 if the Pack is not open.
func (p *Pack) Bytes() int { return int(p.bytes) }

// Records returns the number of fragments in the Pack.
func (p *Pack) Records() int { return int(p.records) }

// Header sets the fields of a packet's header that depend on the fragments in the Pack.
func (p *Pack) Header(h *frag.Header) {
	h.Kind, h.PayloadLen = frag.KindPack, uint16(p.bytes-frag.FragHeaderBytes)
	if p.records == 1 {
		h.Kind, h.Tag = frag.KindFrag, p.tag
	}
}

// Fits reports whether a fragment of sizeBytes can be added to the Pack without making its datagram
// longer than mostBytes. Any fragment fits into a Pack that is not open.
func (p *Pack) Fits(sizeBytes, mostBytes int) bool {
	if p.records > 1 {
		return int(p.bytes)+frag.RecordHeaderBytes+sizeBytes <= mostBytes
	}
	return !p.Open() || int(p.bytes)+2*frag.RecordHeaderBytes+sizeBytes <= mostBytes
}

// Begin opens the Pack with a fragment of sizeBytes. The caller copies the fragment's payload to
// the packet, at the offset frag.FragHeaderBytes.
func (p *Pack) Begin(tag uint8, sizeBytes int) {
	*p = Pack{bytes: uint32(frag.FragHeaderBytes + sizeBytes), records: 1, tag: tag}
}

// Append copies the payload of one more fragment to the datagram b of the Pack. The caller must
// have checked with Fits that the fragment fits.
func (p *Pack) Append(b []byte, tag uint8, payload []byte) {
	if p.records == 1 {
		const at = frag.FragHeaderBytes + frag.RecordHeaderBytes
		first := b[at:][:copy(b[at:], b[frag.FragHeaderBytes:p.bytes])]
		frag.PutRecord(b[frag.FragHeaderBytes:], p.tag, first)
		p.bytes += frag.RecordHeaderBytes
	}
	p.bytes += uint32(frag.PutRecord(b[p.bytes:], tag, payload))
	p.records++
}

// Check returns an error if the Pack is larger than mostBytes, or if its number of records
// contradicts its size, and nil otherwise.
func (p *Pack) Check(mostBytes int) error {
	if !p.Open() {
		if *p != (Pack{}) {
			return fmt.Errorf("no pack is open, and %d records are in it", p.records)
		}
		return nil
	}
	if p.records == 0 || int(p.bytes) > mostBytes ||
		p.records > 1 && frag.FragHeaderBytes+p.records*frag.RecordHeaderBytes > p.bytes {
		return fmt.Errorf("the open pack has %d records in %d bytes, at most %d", p.records, p.bytes,
			mostBytes)
	}
	return nil
}

// Count returns the number of records in the payload of a Pack.
func Count(payload []byte) (count int) {
	for rest := payload; len(rest) > 0; count++ {
		_, _, rest = frag.NextRecord(rest)
	}
	return count
}

// CountTag returns the number of records with the given tag in the payload of a Pack.
func CountTag(payload []byte, tag uint8) (count int) {
	for rest := payload; len(rest) > 0; {
		var got uint8
		if got, _, rest = frag.NextRecord(rest); got == tag {
			count++
		}
	}
	return count
}
