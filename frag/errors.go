package frag

import "errors"

// The decoders return the errors of this package unwrapped, and therefore a flood of bad packets
// allocates no memory. A caller counts the errors by reason and drops the packet.
var (
	// ErrShort means that the packet has fewer bytes than the header of its kind needs.
	ErrShort = errors.New("frag: packet shorter than its header")
	// ErrMagic means that the first byte is not Magic. The packet belongs to another protocol.
	ErrMagic = errors.New("frag: not a packet of this protocol")
	// ErrVersion means that the packet has another protocol version. ForeignHello tells whether the
	// packet is answered with a Reject.
	ErrVersion = errors.New("frag: unknown protocol version")
	// ErrKind means an undefined packet kind. Assembler.Add returns ErrKind for a kind that is not
	// reassembled.
	ErrKind = errors.New("frag: unknown packet kind")
	// ErrFlags means a reserved flag, or a flag that this kind of packet may not carry or must
	// carry.
	ErrFlags = errors.New("frag: flags invalid for this packet kind")
	// ErrTag means a reserved tag, or a tag or reason that this kind of packet may not carry.
	ErrTag = errors.New("frag: tag invalid for this packet kind")
	// ErrConn means that a packet other than a Hello has the connection tag zero.
	ErrConn = errors.New("frag: packet without connection tag")
	// ErrLength means that the datagram's length is not the header plus the payload length.
	// ErrLength also means that this kind of packet may not have a payload of that length.
	ErrLength = errors.New("frag: packet length does not match its header")
	// ErrBounds means a bad offset, size or range. Examples are an empty chunk, a chunk outside of
	// its fragment or off the grid, a put whose end overflows 64 bits, and an empty version range.
	ErrBounds = errors.New("frag: offset or size out of bounds")
	// ErrReserved means that a field that must be zero is not zero.
	ErrReserved = errors.New("frag: reserved field is not zero")
	// ErrHello means that the body of a Hello or HelloAck holds a value out of its range.
	ErrHello = errors.New("frag: malformed hello")
	// ErrName means that the bytes are not a valid Name, or that the Name cannot be encoded.
	ErrName = errors.New("frag: malformed module name")
)
