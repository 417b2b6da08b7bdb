// Package frag is the wire format of the transport: the codec of packet headers, hellos and module
// names, the cutting of fragments into packets, and their reassembly. docs/protocol.md describes
// the protocol byte by byte, for other implementations.
//
// Every packet is one datagram: a header, then the payload, little-endian without padding.
//
//	 0  magic u8, version and kind u8, flags u8, tag u8
//	 4  conn u64
//	12  number u32, seq u32, ack u32
//	24  payloadLen u16, credit u16, creditBytes u16, extrasWords u8, zero u8
//	32  extras, then the payload
//
//	extra of a Chunk:   fragID u32, sizeBytes u32, offsetBytes u32, first u16, chunkBytes u16
//	extra of a put:     handle u64, offset u64
//	extra of FlagOp:    operation u32, code u8, notice u8, zero u16
//	payload of a Pack:  records: tag u8, flags u8, lengthBytes u16, then so many bytes
//
// Decoding is total (any bytes give a packet or an error, never a panic) and canonical (one packet
// has one encoding): what is reserved must be zero, and lengths must match exactly.
//
// A fragment that is larger than a packet is cut into chunks on a grid: all of the same length but
// the first and the last. At the receiver the chunks of one peer go to its Assembler, which draws
// buffers from the Pool that all peers of a module share:
//
//	                Add, new id              Add, last one missing         Message.Release
//	(Pool, idle) --------------> assembling ---------------------> message ---------------> (Pool)
//	                                 |                                                         ^
//	                                 +------------------- Assembler.Drop ----------------------+
//
// A chunk is copied to its place (Add), or has been put there by the fabric (Landing, AddLanded). A
// bitmap with one bit per chunk refuses overlaps; it grows with the memory. So a complete message
// was written whole, and what a recycled buffer held before can never reach a reader. Every size
// that a peer can choose has a bound: that of a fragment, of one peer's unfinished fragments, of
// all of them, of their number.
//
// Functions are safe for use from any goroutine. A Pool, its Assemblers and its Messages belong
// together to one goroutine at a time: that of the module.
package frag
