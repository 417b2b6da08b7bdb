package attacker

import (
	"gobtl/frag"
	"gobtl/internal/seq"
)

// nobody is a tag for which no honest module has a handler.
const nobody = 150

// nackRecord refuses records that were never sent or cannot be refused.
func (a *Attacker) nackRecord(l *link) {
	h := l.header(frag.KindNack, l.peerNext-seq.Num(a.rng.IntN(16))+4)
	h.Tag = frag.NackRecord
	a.build(actNackRecord, l, h, func(b []byte) int {
		b[0] = uint8(a.rng.IntN(8)) // a handler's, mostly
		if a.chance(4) {
			b[0] = uint8(a.rng.IntN(frag.TagUserMax + 1))
		}
		return 1
	})
}

// abusePack sends Packs, of which some are valid, some too large for the channel, some without a
// handler for a record, and some invalid.
func (a *Attacker) abusePack(l *link) {
	h := l.header(frag.KindPack, a.number(l))
	h.Tag = 0
	room := packetBytesMax - frag.FragHeaderBytes
	switch a.rng.IntN(12) {
	case 10: // as many records as there can be, all of them empty
		a.build(actPack, l, h, func(b []byte) int {
			n := 0
			for n+frag.RecordHeaderBytes <= room {
				n += frag.PutRecord(b[n:], 1, nil)
			}
			return n
		})
	case 11: // a number twice, with other records
		for range 2 {
			a.build(actPack, l, h, func(b []byte) int {
				return a.records(b, 1+a.rng.IntN(200), Filler)
			})
		}
	case 0: // larger than any pack of a peer: as many records as a packet holds
		a.build(actPack, l, h, func(b []byte) int { return a.records(b[:room], room, Filler) })
	case 1, 2, 3:
		a.build(actPack, l, h, func(b []byte) int {
			return a.records(b, 1+a.rng.IntN(400), Filler)
		})
	case 4, 5: // the record without handler is the last, the first, or between others
		with := byte(poison)
		if l.counted { // the others are delivered
			with = Filler
		}
		a.build(actUnhandledPack, l, h, func(b []byte) int {
			n := 0
			if !a.chance(3) {
				n = a.records(b, 1+a.rng.IntN(200), with)
			}
			n += frag.PutRecord(b[n:], nobody+uint8(a.rng.IntN(3)), []byte{poison})
			if a.chance(2) {
				n += a.records(b[n:], 1+a.rng.IntN(200), with)
			}
			return n
		})
	default:
		a.build(actBadPack, l, h, a.badPack)
	}
}

// records writes records with handlers until they have sizeBytes.
func (a *Attacker) records(b []byte, sizeBytes int, with byte) int {
	n, tags := 0, 1
	if a.chance(2) {
		tags = 6
	}
	var data [64]byte
	fill(data[:], with)
	for n == 0 || n+frag.RecordHeaderBytes+len(data) <= sizeBytes {
		n += frag.PutRecord(b[n:], 1+uint8(a.rng.IntN(tags)), data[:a.rng.IntN(len(data))])
	}
	return n
}

// badPack writes records of which at least one is invalid, so that none of them may be delivered.
func (a *Attacker) badPack(b []byte) int {
	n := a.records(b, 1+a.rng.IntN(300), poison)
	last := b[n:] // what makes it bad comes behind some good ones
	switch a.rng.IntN(7) {
	case 0: // longer than the packet, by one or by much
		size := frag.PutRecord(last, 1, []byte{poison, poison})
		le.PutUint16(last[2:], 3+uint16(a.rng.IntN(2)*(1<<16-4)))
		return n + size
	case 1: // a piece of a header
		return n + 1 + a.rng.IntN(frag.RecordHeaderBytes-1)
	case 2: // a byte too much
		size := frag.PutRecord(last, 1, []byte{poison, poison})
		le.PutUint16(last[2:], 1)
		return n + size
	case 3: // the reserved byte
		size := frag.PutRecord(last, 1, []byte{poison})
		last[1] = 1 << a.rng.IntN(8)
		return n + size
	case 4: // a mark
		return n + frag.PutRecord(last, frag.TagUserMax+1+uint8(a.rng.IntN(16)), nil)
	case 5: // the bad one is the first
		le.PutUint16(b[2:], uint16(n))
		return n
	}
	return 0 // none
}

// build sends a packet of the connection whose payload the function write makes.
func (a *Attacker) build(what act, l *link, h frag.Header, write func(b []byte) int) {
	head := frag.HeaderBytes(h.Kind, h.Flags)
	n := write(a.buf[head:])
	from, to := a.ports(l, &h)
	h.PayloadLen = uint16(n)
	h.Encode(a.buf)
	a.send(what, from, to, head+n)
}
