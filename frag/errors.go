package frag

import "errors"

// Errors of the decoders. They are returned as they are, unwrapped, so that a flood of bad packets
// allocates nothing; a caller counts them by reason and drops the packet.
var (
	// ErrShort: fewer bytes than the header of this kind needs.
	ErrShort = errors.New("frag: packet shorter than its header")
	// ErrMagic: the first byte is not Magic; the packet belongs to another protocol.
	ErrMagic = errors.New("frag: not a packet of this protocol")
	// ErrVersion: another protocol version. ForeignHello tells whether it deserves a Reject.
	ErrVersion = errors.New("frag: unknown protocol version")
	// ErrKind: an undefined packet kind, or, from Assembler.Add, one that is not reassembled.
	ErrKind = errors.New("frag: unknown packet kind")
	// ErrFlags: a reserved flag, or one that this kind of packet may not or must carry.
	ErrFlags = errors.New("frag: flags invalid for this packet kind")
	// ErrTag: a reserved tag, or a tag or reason that this kind of packet may not carry.
	ErrTag = errors.New("frag: tag invalid for this packet kind")
	// ErrConn: connection tag zero on a packet other than a Hello.
	ErrConn = errors.New("frag: packet without connection tag")
	// ErrLength: the datagram's length is not header plus payload length, or the payload has a
	// length that this kind of packet may not have.
	ErrLength = errors.New("frag: packet length does not match its header")
	// ErrBounds: a chunk that is empty, lies outside of its fragment or off the chunk grid; a put
	// whose end overflows 64 bits; a version range that is none.
	ErrBounds = errors.New("frag: offset or size out of bounds")
	// ErrReserved: a field that must be zero is not.
	ErrReserved = errors.New("frag: reserved field is not zero")
	// ErrHello: the body of a Hello or HelloAck holds a value out of its range.
	ErrHello = errors.New("frag: malformed hello")
	// ErrName: bytes that are no Name, or a Name that cannot be encoded.
	ErrName = errors.New("frag: malformed module name")
)
