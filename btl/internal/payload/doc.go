// Package payload describes the memory of a fragment to be sent. Package payload copies the bytes
// of the fragment into packets, or lets the fabric gather these bytes from registered memory.
//
//	pieces   |1===|=======2========|=====3=====|
//	packets  |c===|======|======|==c=======|===|     c = copied, the rest is gathered
//
// A Payload consists of one contiguous block of memory, or of several blocks (pieces). The fabric
// gathers at most one contiguous part of a packet, which is the end of the packet. The payload
// bytes before the gathered part are copied into the packet, after the packet's header. If a packet
// contains bytes of several blocks of memory (pieces), the fabric can gather only the bytes of the
// last of these blocks, and package payload copies the bytes of the preceding blocks into the
// packet.
//
// Package payload does not use the types of packets and connections. A Memory and its Payloads are
// not safe for concurrent use.
package payload
