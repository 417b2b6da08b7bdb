// Package receive processes received packets, from the completion that the fabric reports to the
// call of the handler for the fragment.
//
//	Handle --> decode --> admit ------> accept -----> accepted ----> deliver
//	           header,    its ACK, and  handler, put, the next ACK   the handler
//	           endpoint   a new number  chunk, Pack   will cover it  of its tag
//
//	ReceiveFast         a single fragment first goes to its handler, and the rest follows later
//	DirectChunks        chunks that the provider has written to their destination memory
//	Records             Packs, which are packets of several fragments
//	Asides              path MTU probes, and slices of packets
//
// A packet that cannot be accepted is dropped and counted. The files link.go, link_seq.go and
// link_counted.go contain the code that depends on the kind of link (sequenced, or counted over a
// reliable fabric). Package receive does not write the fields of an endpoint. To change an
// endpoint, package receive calls methods of package peer, or of the types of the endpoint's
// fields, such as reliability.Receiver and frag.Assembler. To read the code, begin with
// read_headers.go. A Receiver is not safe for concurrent use, and reads no clock.
package receive
