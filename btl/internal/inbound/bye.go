package inbound

import "gobtl/internal/seq"

// Bye records the peer's Bye, which is the last packet of the peer and closes the connection. The
// connection ends when all packets up to the Bye have arrived. A zero Bye means that no Bye has
// arrived.
type Bye struct {
	Seen bool
	Code uint16
	seq  seq.Num
}

// Came records that packet n is a Bye with the given code.
func (b *Bye) Came(n seq.Num, code uint16) { b.Seen, b.seq, b.Code = true, n, code }

// Precedes reports whether the sequence number of the Bye is lower than n. A packet with a higher
// sequence number than the Bye violates the protocol.
func (b *Bye) Precedes(n seq.Num) bool { return b.Seen && b.seq.Before(n) }

// Due reports whether the Bye and all packets before it have arrived. The argument "next" of Due is
// the sequence number of the next packet in order.
func (b *Bye) Due(next seq.Num) bool { return b.Seen && b.seq.Before(next) }
