// Package payload knows where the bytes of a fragment to be sent lie, and copies them into packets
// or lets the fabric gather them from registered memory.
//
//	pieces:   1    |        2       |     3     |
//	packets:  c....|......|......|..c.......|...|     c: copied; the rest is gathered
//
// A Payload lies in one block or in several pieces of memory. The fabric gathers at most one
// contiguous part for each packet, at the packet's end. The bytes before the gathered part are
// copied behind the packet's header. A short piece before a long piece is copied, together with
// those bytes of the long piece that are in the same packet.
//
// The package knows neither packets nor connections. A Memory and its Payloads belong to one
// goroutine.
package payload
