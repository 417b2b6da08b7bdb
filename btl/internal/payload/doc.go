// Package payload describes the memory of a fragment to be sent, and copies the bytes into packets
// or lets the fabric gather them from registered memory.
//
//	pieces   |1===|=======2========|=====3=====|
//	packets  |c===|======|======|==c=======|===|     c = copied, the rest is gathered
//
// A Payload lies in one block or in several pieces of memory. The fabric gathers at most one
// contiguous part of a packet, which is the end of the packet. The bytes before the gathered part
// are copied behind the packet's header. If a packet contains the end of one piece of memory and
// the beginning of the next piece, only the last piece in the packet can be gathered.
//
// The package knows neither packets nor connections. A Memory and its Payloads belong to one
// goroutine.
package payload
