package frag

import "errors"

// The decoders of package frag return the errors below without wrapping them, so that a flood of
// invalid packets causes no memory allocation.
var (
	// ErrShort means that the packet is shorter than the header of a packet of its kind.
	ErrShort = errors.New("frag: packet shorter than its header")
	// ErrMagic means that the first byte is not Magic.
	ErrMagic = errors.New("frag: not a packet of this protocol")
	// ErrVersion means that the packet has an unknown protocol version. For a packet with an unknown
	// protocol version, ForeignHello decides whether it is answered with a Reject.
	ErrVersion = errors.New("frag: unknown protocol version")
	// ErrKind means that the packet has an undefined kind. Assembler.Add returns ErrKind for any
	// packet that is not a Chunk of a message.
	ErrKind = errors.New("frag: unknown packet kind")
	// ErrFlags means that the packet has a reserved flag, has a flag that its kind does not permit, or
	// lacks a flag that its kind requires.
	ErrFlags = errors.New("frag: flags invalid for this packet kind")
	// ErrTag means that the packet's header has a reserved tag, or a tag that packets of its kind must
	// not have.
	ErrTag = errors.New("frag: tag invalid for this packet kind")
	// ErrConn means that the connection tag in the header is zero, which is permitted only in a Hello.
	ErrConn = errors.New("frag: packet without connection tag")
	// ErrLength means that the datagram's length contradicts the payload length in its header, or that
	// the payload length is not permitted for the kind of the packet.
	ErrLength = errors.New("frag: packet length does not match its header")
	// ErrBounds means that an offset, a size or a range in the packet is invalid. Causes of ErrBounds
	// are an empty chunk, a chunk at a wrong position in its fragment, a put whose end offset
	// overflows 64 bits, and an empty range of protocol versions.
	ErrBounds = errors.New("frag: offset or size out of bounds")
	// ErrReserved means that a reserved field of the packet, which must be zero, is not zero.
	ErrReserved = errors.New("frag: reserved field is not zero")
	// ErrHello means that a field in the body of a Hello or HelloAck is out of its range.
	ErrHello = errors.New("frag: malformed hello")
	// ErrName means that the bytes are not a valid Name, or that the Name cannot be encoded.
	ErrName = errors.New("frag: malformed module name")
)
