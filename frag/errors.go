package frag

import "errors"

// The decoders return the errors of package frag unwrapped, so that a flood of invalid packets
// allocates no memory.
var (
	// ErrShort means that the packet is shorter than the header of its kind.
	ErrShort = errors.New("frag: packet shorter than its header")
	// ErrMagic means that the first byte is not Magic.
	ErrMagic = errors.New("frag: not a packet of this protocol")
	// ErrVersion means that the packet has an unknown protocol version. ForeignHello decides
	// whether to answer a packet of another protocol version with a Reject.
	ErrVersion = errors.New("frag: unknown protocol version")
	// ErrKind means that the packet has an undefined kind. Assembler.Add returns ErrKind for a
	// packet of a kind that is not reassembled.
	ErrKind = errors.New("frag: unknown packet kind")
	// ErrFlags means that the packet has a reserved flag, has a flag that the kind of the packet
	// does not permit, or lacks a flag that the kind requires.
	ErrFlags = errors.New("frag: flags invalid for this packet kind")
	// ErrTag means that the packet has a reserved tag, or a tag or reason that the kind of the
	// packet does not permit.
	ErrTag = errors.New("frag: tag invalid for this packet kind")
	// ErrConn means that a packet other than a Hello has the connection tag zero.
	ErrConn = errors.New("frag: packet without connection tag")
	// ErrLength means that the length of the datagram is not the header plus the payload length in
	// the header. ErrLength has a second meaning: the kind of the packet does not permit a payload
	// of this length.
	ErrLength = errors.New("frag: packet length does not match its header")
	// ErrBounds means that an offset, a size or a range in the packet is invalid. Causes of
	// ErrBounds are an empty chunk, a chunk at a wrong position in its fragment, a put whose end
	// overflows 64 bits, and an empty version range.
	ErrBounds = errors.New("frag: offset or size out of bounds")
	// ErrReserved means that a field that must be zero is not zero.
	ErrReserved = errors.New("frag: reserved field is not zero")
	// ErrHello means that a field in the body of a Hello or HelloAck is out of its range.
	ErrHello = errors.New("frag: malformed hello")
	// ErrName means that the bytes are not a valid Name, or that the Name cannot be encoded.
	ErrName = errors.New("frag: malformed module name")
)
