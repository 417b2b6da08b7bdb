// Package frag is the wire format of the transport. The package has the codec of packet headers,
// Hellos and module names, cuts fragments into packets, and reassembles fragments. The file
// docs/protocol.md describes the protocol byte by byte, for other implementations.
//
// Every packet is one datagram. A datagram is a header and a payload, little-endian without
// padding.
//
//	 0  magic u8, version and kind u8, flags u8, tag u8
//	 4  conn u64
//	12  number u32, seq u32, ack u32
//	24  payloadLen u16, credit u16, creditBytes u16, extrasWords u8, zero u8
//	32  extras, then the payload
//
//	extra of a Chunk    fragID u32, sizeBytes u32, offsetBytes u32, first u16, chunkBytes u16
//	extra of a put      handle u64, offset u64
//	extra of FlagOp     operation u32, code u8, notice u8, zero u16
//	payload of a Pack   records, tag u8, flags u8, lengthBytes u16, then so many bytes
//
// Decoding is total, which means that any bytes give a packet or an error and never a panic.
// Decoding of packets is also canonical, which means that each packet has only one encoding.
// Reserved fields must be zero, and lengths must match exactly.
//
// A fragment that is larger than a packet is divided into chunks of equal length. Only the first
// chunk and the last chunk may have other lengths. The receiver has an Assembler for the chunks of
// each peer. The Assembler takes buffers from the Pool of the module.
//
//	                Add, new id              Add, last one missing         Message.Release
//	(Pool, idle) --------------> assembling ---------------------> message ---------------> (Pool)
//	                                 |                                                         ^
//	                                 +------------------- Assembler.Drop ----------------------+
//
// The Assembler copies a chunk to its position in the fragment (Add), or accepts a chunk
// that the fabric has already written there (Landing, AddLanded). A bitmap with one bit per
// chunk detects overlaps. The bitmap grows with the memory of the fragment. A complete
// message has no byte that was not received, and a reader never sees the previous content
// of a reused buffer. Every size that a peer can choose is bounded. The limits of a Pool
// apply to the size of a fragment, to the memory of the unfinished fragments of one peer
// and of all peers, and to the number of fragments.
//
// Functions are safe for use from any goroutine. A Pool, its Assemblers and its Messages are used
// by only one goroutine at a time, the goroutine of the module.
package frag
