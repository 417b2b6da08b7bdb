package reliability

import (
	"math/bits"

	"gobtl/internal/seq"
)

// The type "scoreboard" records what became of packets in a send window (RFC 6675 calls this record
// the scoreboard). A scoreboard holds two bitmaps, each with one bit for each packet of the send
// window. The index of a packet's bit is its sequence number modulo the length of the bitmap. With
// the bitmaps, a search in a large send window examines 64 packets at a time. When a packet leaves
// the send window, the Sender must remove the marks of the packet. The methods that read a
// scoreboard accept a nil scoreboard, which stands for a send window without marks.
type scoreboard struct {
	// The bitmap "early" marks the packets that have arrived before a packet with a lower number. For
	// each packet that is marked in the bitmap "early", the Sender's ring contains noToken.
	early []uint64
	// The bitmap "aside" marks the packets on the retransmission list, and the packets that the
	// profile adaptive has declared lost.
	aside []uint64
}

// newScoreboard returns a scoreboard for a send window of at most the given number of packets. The
// number of packets must be a power of two.
func newScoreboard(packets int) *scoreboard {
	words := (packets + 63) / 64
	return &scoreboard{early: make([]uint64, words), aside: make([]uint64, words)}
}

// needBoard returns the scoreboard of the Sender, and allocates it if the Sender has none.
func (s *Sender) needBoard() *scoreboard {
	if s.board == nil {
		s.board = newScoreboard(len(s.ring))
	}
	return s.board
}

// The method "grown" returns a scoreboard for a larger send window, with the marks of the packets
// from "oldest" up to, but excluding, "next". The method "grown" returns nil if none of these
// packets has a mark.
func (b *scoreboard) grown(packets int, oldest, next seq.Num) *scoreboard {
	var bigger *scoreboard
	for n := oldest; b != nil && n != next; n++ {
		early, aside := b.marked(n)
		if bigger == nil && (early || aside) {
			bigger = newScoreboard(packets)
		}
		if early {
			bigger.markEarly(n)
		}
		if aside {
			bigger.setAside(n)
		}
	}
	return bigger
}

// The method "place" returns the position of the bit for sequence number n in both bitmaps, which
// is the index of a 64-bit word and the position of the bit in this word.
func (b *scoreboard) place(n seq.Num) (word, shift uint32) {
	return uint32(n) >> 6 & uint32(len(b.early)-1), uint32(n) & 63
}

func (b *scoreboard) markEarly(n seq.Num) {
	word, shift := b.place(n)
	b.early[word] |= 1 << shift
}

func (b *scoreboard) unmarkEarly(n seq.Num) {
	word, shift := b.place(n)
	b.early[word] &^= 1 << shift
}

func (b *scoreboard) setAside(n seq.Num) {
	word, shift := b.place(n)
	b.aside[word] |= 1 << shift
}

func (b *scoreboard) takeBack(n seq.Num) {
	word, shift := b.place(n)
	b.aside[word] &^= 1 << shift
}

// The method "marked" reports whether packet n is marked in the bitmap "early" (arrived out of
// order), and whether it is marked in the bitmap "aside" (lost or to be retransmitted).
func (b *scoreboard) marked(n seq.Num) (early, aside bool) {
	if b == nil {
		return false, false
	}
	word, shift := b.place(n)
	return b.early[word]>>shift&1 != 0, b.aside[word]>>shift&1 != 0
}

// nextOpen returns the first sequence number, not before n, of a packet that is marked neither in
// the bitmap "early" nor in the bitmap "aside". If all packets from n up to, but excluding, "end"
// are marked, nextOpen returns "end".
func (b *scoreboard) nextOpen(n, end seq.Num) seq.Num {
	if b == nil {
		return n
	}
	for n.Before(end) {
		word, shift := b.place(n)
		open := ^(b.early[word] | b.aside[word]) >> shift
		if open != 0 {
			if n = n.Add(uint32(bits.TrailingZeros64(open))); n.Before(end) {
				return n
			}
			break // the bit has no number
		}
		n = n.Add(64 - shift)
	}
	return end
}

// nextAside returns the first sequence number, not before n, of a packet that is marked in the
// bitmap "aside". If no packet from n up to, but excluding, "end" is marked in this bitmap,
// nextAside returns "end".
func (b *scoreboard) nextAside(n, end seq.Num) seq.Num {
	if b == nil {
		return end
	}
	for n.Before(end) {
		word, shift := b.place(n)
		if aside := b.aside[word] >> shift; aside != 0 {
			if n = n.Add(uint32(bits.TrailingZeros64(aside))); n.Before(end) {
				return n
			}
			break // the bit belongs to an older packet
		}
		n = n.Add(64 - shift)
	}
	return end
}

// earlyFrom returns 64 bits of the bitmap "early", for the packets with the sequence numbers n to
// n+63. A set bit in the result of earlyFrom means that the packet has arrived out of order. The
// bit of a packet beyond the send window can belong to an older packet.
func (b *scoreboard) earlyFrom(n seq.Num) uint64 {
	if b == nil {
		return 0
	}
	word, shift := b.place(n)
	behind := (word + 1) & uint32(len(b.early)-1)
	return b.early[word]>>shift | b.early[behind]<<(64-shift)
}
