package frag

import "fmt"

// A module tells a peer by the codes below why a packet is refused or why a connection ends. A
// table of the codes is in docs/protocol.md, section 8.

// The tag of a Nack is the reason for which a packet is refused.
const (
	// NackAccess means that the memory region of a put does not exist, is too small, or is not
	// writable.
	NackAccess = 1
	// NackNoHandler means that the receiver has no handler for the packet's tag.
	NackNoHandler = 2
	// NackRecord means that a Pack (a packet of several small fragments) has a fragment with a
	// tag for which the receiver has no handler. The payload of a Nack with NackRecord is the tag
	// without a handler, in one byte. After NackRecord, no fragment of the Pack was delivered. In a
	// reliable connection, which counts packets instead of retransmitting them, the other fragments
	// of the Pack were delivered.
	NackRecord = 3
	// NackMemory means that the receiver had no memory to reassemble the fragment when the packet
	// arrived. In a reliable connection, the sender must retransmit the whole fragment after
	// NackMemory.
	NackMemory = 4
	// NackBounds means that the bytes of an operation are outside of the memory region, or not
	// aligned. A peer without FeatureOps gets NackAccess instead of NackBounds.
	NackBounds = 5
	// NackRight means that the memory region does not permit the operation. A peer without
	// FeatureOps gets NackAccess instead of NackRight.
	NackRight = 6
)

// The tag of a Reject is the reason for which a Hello is refused. A receiver treats an unknown
// reason as RejectFull.
const (
	RejectVersion = 1 // no common protocol version; the payload has the known ones
	RejectFull    = 2 // the receiver takes no more peers
	RejectStale   = 3 // the requested incarnation is gone
	RejectOwner   = 4 // the application of the receiver refuses this peer; the payload has a code
	RejectLater   = 5 // the application refuses the peer for now: the peer may ask again
	RejectFeature = 6 // a required feature or a critical extension is unknown
	RejectCrowded = 7 // too many peers at this address
	RejectAddress = 8 // an address in the Hello is unusable
	// RejectKept means that the receiver's application has kept the connection request, and will
	// accept or refuse the connection later. The payload of a RejectKept is the time, in
	// milliseconds, after which the peer sends its Hello again. A time of 0 means that the
	// application has decided about the connection, and that the peer sends its Hello again at
	// once. A RejectKept is sent only to a peer with FeatureKept.
	RejectKept = 9

	rejectLast = RejectKept
)

// The payload of a Bye is a code that says why the connection ends. After ByeClosed and the codes
// from ByeOwner on, the connection ends when all packets sent before the Bye have arrived. After
// any other code the connection ends at once, because the sender of the Bye has already discarded
// the connection. A receiver treats an unknown code below ByeOwner as ByeAborted.
const (
	ByeClosed  = 0 // the sender has closed the connection; no payload
	ByeAborted = 1 // the sender's application has aborted the connection
	ByeShed    = 2 // the sender needs the memory for other peers
	ByeNarrow  = 3 // the path carries no datagrams of the minimum size
	ByeBroken  = 4 // the receiver of the Bye, or the fabric, has broken the protocol
	ByeDead    = 5 // the receiver of the Bye has acknowledged nothing for too long
	// A Bye with a code of the sender's application, which is 0 to ByeOwnerMax, carries the sum of
	// ByeOwner and that code.
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
// of a Bye is empty for ByeClosed, and has ByeCodeBytes for all other codes.
func PutByeCode(b []byte, code uint16) int {
	if code == ByeClosed {
		return 0
	}
	le.PutUint16(b, code)
	return ByeCodeBytes
}

// ByeEndsAtOnce reports whether a Bye with the given code ends the connection without waiting for
// packets sent before the Bye.
func ByeEndsAtOnce(code uint16) bool { return code != ByeClosed && code < ByeOwner }

var byeWords = [...]string{
	ByeClosed: "closed", ByeAborted: "given up", ByeShed: "shed for others",
	ByeNarrow: "the path is too narrow", ByeBroken: "protocol broken", ByeDead: "no acknowledgement",
}

// ByeWord describes the code of a Bye in a few words.
func ByeWord(code uint16) string {
	switch {
	case code >= ByeOwner:
		return fmt.Sprintf("its owner says %d", code-ByeOwner)
	case int(code) < len(byeWords):
		return byeWords[code]
	}
	return fmt.Sprintf("code %d", code)
}
