// Package frag is the wire format of the transport. Package frag encodes and decodes packet
// headers, handshake packets (Hellos) and module names, divides large fragments into chunks, and
// reassembles the chunks. The file docs/protocol.md describes the protocol byte by byte, so that it
// can be implemented a second time.
//
// Every packet is one datagram. A datagram consists of a header and a payload, with little-endian
// numbers and without padding.
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
// Decoding is total, which means that it yields a packet or an error for any bytes, and never
// panics. Decoding is canonical, which means that only one encoding of each packet is accepted.
// Reserved fields of a packet must be zero, and the length fields must match the datagram exactly.
//
// A fragment that is larger than a packet is divided into chunks, which have equal lengths, except
// that the first chunk and the last chunk can have other lengths. The receiver has one Assembler
// per peer, which reassembles the chunks of this peer. All Assemblers of a module take their
// buffers from one Pool.
//
//	                Add, new id              Add, last one missing         Message.Release
//	(Pool, idle) --------------> assembling ---------------------> message ---------------> (Pool)
//	                                 |                                                         ^
//	                                 +------------------- Assembler.Drop ----------------------+
//
// The Assembler copies a chunk to its position in the fragment's buffer (Add), or accepts a chunk
// that the fabric has already written to this position (ChunkMemory, AddLanded). A bitmap with one
// bit per chunk serves to detect chunks that arrive twice. The bitmap of received chunks grows with
// the fragment's buffer. A message is complete only if each of its bytes was received from the
// peer, so that a reused buffer reveals none of its previous content. Every size that a peer can
// choose is bounded. A Pool limits the size of a fragment, the number of unfinished fragments of a
// peer, and the memory for unfinished fragments of each peer and of all peers.
//
// The functions of package frag are safe for concurrent use. Only one goroutine at a time, the one
// that calls the module's Progress, may use a Pool, its Assemblers and its Messages.
package frag
