package swarm

import (
	"encoding/binary"

	"gobtl/frag"
)

// packs counts what happens to Packs on the wire.
type packs struct {
	count [numPackKinds]uint64
	seen  map[packKey]int // of each that was sent, the length that it had last
}

type packKey struct {
	conn uint64
	seq  uint32
}

// The constants below say what has happened to Packs.
const (
	packSent = iota
	packRecords
	packAgain
	packStripped
	packVoided
	packRefused
	numPackKinds
)

// PackNames name the entries of Result.Packs.
var PackNames = [numPackKinds]string{
	"packs sent", "records in them", "packs sent again", "packs sent again without refused records",
	"voids in place of packs", "nacks of records",
}

// see handles a packet that a module sends.
func (p *packs) see(b []byte) {
	if len(b) < frag.FragHeaderBytes {
		return
	}
	switch kind := frag.Kind(b[1] & 15); {
	case kind == frag.KindPack:
		p.pack(b)
	case kind == frag.KindFrag && b[3] == frag.TagVoid && frag.Flags(b[2])&frag.FlagPut == 0:
		if p.seen[packOf(b)] > 0 {
			p.count[packVoided]++
		}
	case kind == frag.KindNack && b[3] == frag.NackRecord:
		p.count[packRefused]++
	}
}

func packOf(b []byte) packKey {
	return packKey{binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint32(b[16:])}
}

func (p *packs) pack(b []byte) {
	key := packOf(b)
	switch had := p.seen[key]; {
	case had == 0:
		p.count[packSent]++
		for rest := b[frag.FragHeaderBytes:]; len(rest) >= frag.RecordHeaderBytes; {
			_, _, rest = frag.NextRecord(rest)
			p.count[packRecords]++
		}
	case had > len(b):
		p.count[packStripped]++
	default:
		p.count[packAgain]++
	}
	if p.seen == nil {
		p.seen = map[packKey]int{}
	}
	p.seen[key] = len(b)
}
