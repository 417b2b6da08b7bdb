package inbound

import "gobtl/internal/seq"

// Bye is the peer's announcement that it closes the connection, after everything was sent. No
// packet may follow the Bye, and the connection ends when all packets up to the Bye have arrived.
// The zero value means that no Bye has arrived.
type Bye struct {
	seen bool
	code uint16
	seq  seq.Num
}

// Came records that packet n is a Bye with the given code.
func (b *Bye) Came(n seq.Num, code uint16) { b.seen, b.seq, b.code = true, n, code }

// Seen reports whether the Bye has arrived.
func (b *Bye) Seen() bool { return b.seen }

// Code returns the reason in the Bye.
func (b *Bye) Code() uint16 { return b.code }

// Precedes reports whether packet n would follow the Bye, which no packet may.
func (b *Bye) Precedes(n seq.Num) bool { return b.seen && b.seq.Before(n) }

// Due reports whether all packets up to the Bye have arrived, where next is the next packet in
// order.
func (b *Bye) Due(next seq.Num) bool { return b.seen && b.seq.Before(next) }
