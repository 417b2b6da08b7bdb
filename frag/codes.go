package frag

import "fmt"

// With the codes below, a module tells a peer why the module refuses a packet or ends a connection.
// Section 8 of docs/protocol.md has a table of the codes.

// In a Nack, the header field for the tag contains the reason why the receiver refuses a packet,
// which is one of the codes below.
const (
	// NackAccess means that the memory region of a put does not exist, is too small, or is not
	// writable.
	NackAccess = 1
	// NackNoHandler means that the receiver has no handler for the packet's tag.
	NackNoHandler = 2
	// NackRecord means that the receiver has no handler for the tag of one fragment in a Pack (a
	// packet of several small fragments). The payload of a Nack with NackRecord is one byte: the tag
	// that has no handler. On a network without loss, those fragments of the Pack whose tag has a
	// handler were delivered. On a network that can lose packets, no fragment of the refused Pack was
	// delivered.
	NackRecord = 3
	// NackMemory means that the receiver had no memory to reassemble the packet's fragment. On a
	// network without loss, the sender must send the whole fragment again after NackMemory.
	NackMemory = 4
	// NackBounds means that an operation would access memory at an address that is not aligned, or
	// outside of the memory region. A peer that has not announced FeatureOps receives NackAccess
	// instead of NackBounds.
	NackBounds = 5
	// NackRight means that the memory region does not permit the operation. A peer that has not
	// announced FeatureOps receives NackAccess instead of NackRight.
	NackRight = 6
)

// In a Reject, the header field for the tag contains the reason why a module refuses a Hello, which
// is one of the codes below. A receiver treats an unknown reason of a Reject as RejectFull.
const (
	RejectVersion = 1 // no common protocol version; the payload has the known ones
	RejectFull    = 2 // the receiver takes no more peers
	RejectStale   = 3 // the requested incarnation is gone
	RejectOwner   = 4 // the application of the receiver refuses this peer; the payload has a code
	RejectLater   = 5 // the application refuses the peer for now: the peer may ask again
	RejectFeature = 6 // a required feature or a critical extension is unknown
	RejectCrowded = 7 // too many peers at this address
	RejectAddress = 8 // an address in the Hello is unusable
	// RejectKept means that the application of the Hello's receiver has stored the connection request,
	// and will accept or refuse it later. The payload of a RejectKept is the time, in milliseconds,
	// after which the peer must send its Hello again. If the payload of a RejectKept is 0, the
	// application has already decided about the request, and the peer must send its Hello again
	// immediately. A module sends a RejectKept only to a peer that has announced FeatureKept.
	RejectKept = 9

	rejectLast = RejectKept
)

// The payload of a Bye is a code that says why the connection ends. After a Bye with ByeClosed or a
// code of at least ByeOwner, the connection ends when all packets sent before the Bye have arrived.
// After a Bye with a code from 1 to ByeOwner-1, the connection ends immediately, because the sender
// of the Bye has already discarded the connection. A receiver of a Bye treats an unknown code below
// ByeOwner as ByeAborted.
const (
	ByeClosed  = 0 // the sender has closed the connection; no payload
	ByeAborted = 1 // the sender's application has aborted the connection
	ByeShed    = 2 // the sender needs the memory for other peers
	ByeNarrow  = 3 // the path carries no datagrams of the minimum size
	ByeBroken  = 4 // the receiver of the Bye, or the fabric, has broken the protocol
	ByeDead    = 5 // the receiver of the Bye has acknowledged nothing for too long
	// If the application of the Bye's sender closes the connection with a code that it has chosen (0
	// to ByeOwnerMax), the code in the Bye is ByeOwner plus this code.
	ByeOwner    = 0x8000
	ByeOwnerMax = 0x7FFF
)

// ByeCodeBytes is the length of the payload of a Bye with a code.
const ByeCodeBytes = 2

// ByeCode returns the code in the payload of a Bye that Decode has accepted.
func ByeCode(payload []byte) uint16 {
	if len(payload) < ByeCodeBytes {
		return ByeClosed
	}
	return le.Uint16(payload)
}

// PutByeCode writes the payload of a Bye to b, and returns the length of the payload. The payload
// of a Bye is empty for the code ByeClosed, and ByeCodeBytes long for all other codes.
func PutByeCode(b []byte, code uint16) int {
	if code == ByeClosed {
		return 0
	}
	le.PutUint16(b, code)
	return ByeCodeBytes
}

// ByeEndsAtOnce reports whether a Bye with the given code ends the connection immediately, even if
// packets sent before the Bye have not arrived.
func ByeEndsAtOnce(code uint16) bool { return code != ByeClosed && code < ByeOwner }

var byeWords = [...]string{
	ByeClosed: "closed", ByeAborted: "given up", ByeShed: "shed for others",
	ByeNarrow: "the path is too narrow", ByeBroken: "protocol broken",
	ByeDead: "it got no acknowledgement from here in time",
}

// ByeWord returns a short text that describes the code of a Bye.
func ByeWord(code uint16) string {
	switch {
	case code >= ByeOwner:
		return fmt.Sprintf("its owner says %d", code-ByeOwner)
	case int(code) < len(byeWords):
		return byeWords[code]
	}
	return fmt.Sprintf("code %d", code)
}
