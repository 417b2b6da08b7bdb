// Package payload describes the memory of a fragment to be sent. Package payload copies the bytes
// of the fragment into packets, or lets the fabric gather them from registered memory.
//
//	pieces   |1===|=======2========|=====3=====|
//	packets  |c===|======|======|==c=======|===|     c = copied, the rest is gathered
//
// A Payload consists of one block or of several pieces of memory. The fabric gathers at most one
// contiguous part of a packet, which is the end of the packet. The bytes before the gathered part
// are copied into the packet, after its header. If a packet contains the end of one piece of memory
// and the beginning of the next piece, only the last piece in the packet can be gathered.
//
// Package payload does not use the types of packets and connections. Only one goroutine may use a
// Memory and its Payloads.
package payload
