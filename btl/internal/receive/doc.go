// Package receive handles received packets, from a completion of the fabric to the handler that
// gets the fragment.
//
//	Handle --> decode --> admit ------> accept -----> accepted ----> deliver
//	           header,    its ACK, and  handler, put, the next ACK   the handler
//	           endpoint   a new number  chunk, Pack   will cover it  of its tag
//
//	ReceiveFast         a single fragment first goes to its handler, and the rest follows later
//	DirectChunks        chunks that the provider has written to their final memory
//	Records             Packs, which are packets of several fragments
//	Asides              path MTU probes, and slices of packets
//
// A packet that cannot be accepted is dropped and counted. The files link.go, link_seq.go and
// link_counted.go contain the code that depends on the kind of connection. Package receive writes
// no field of an endpoint: it calls methods of package peer, and methods of the types that an
// endpoint consists of, such as reliability.Receiver and frag.Assembler. Begin with
// read_headers.go. A Receiver belongs to one goroutine, and has no lock and no clock.
package receive
