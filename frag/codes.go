package frag

import "fmt"

// This file defines all codes with which a module tells a peer why a packet is refused or why a
// connection ends. A table in docs/protocol.md, section 8, lists the codes.

// A Nack carries the reason for which one packet is refused as its tag.
const (
	// NackAccess means that a put has no region, exceeds the region's bounds, or lacks the right to
	// write.
	NackAccess = 1
	// NackNoHandler means that the receiver has no handler for the packet's tag.
	NackNoHandler = 2
	// NackRecord means that a Pack (a packet of several small fragments) has a fragment for whose
	// tag the receiver has no handler. The payload of a Nack with NackRecord is the tag without a
	// handler, one byte. No fragment of the Pack was delivered.
	NackRecord = 3
	// NackMemory means that the receiver has no memory to reassemble the fragment at present. In a
	// reliable connection the sender must send the whole fragment again. The refused packet ends
	// the fragment.
	NackMemory = 4
	// NackBounds means that the bytes of an operation are outside of the region, or not aligned.
	// Without FeatureOps at both ends, the reason is NackAccess.
	NackBounds = 5
	// NackRight means that the region lacks the right that an operation needs. Without FeatureOps
	// at both ends, the reason is NackAccess.
	NackRight = 6
)

// A Reject carries the reason for which a Hello is refused as its tag. A receiver treats an unknown
// reason as RejectFull.
const (
	RejectVersion = 1 // no common protocol version; the payload has the known ones
	RejectFull    = 2 // the receiver takes no more peers
	RejectStale   = 3 // the requested incarnation is gone
	RejectOwner   = 4 // the receiver's owner refuses this peer; the payload has a code
	RejectLater   = 5 // the owner refuses the peer for now: the peer may ask again
	RejectFeature = 6 // a required feature or a critical extension is unknown
	RejectCrowded = 7 // too many peers at this address
	RejectAddress = 8 // an address in the Hello is unusable

	rejectLast = RejectAddress
)

// A Bye carries a code that tells why the connection ends. After ByeClosed and the codes from
// ByeOwner on, the connection ends when all packets before the Bye have arrived. After any other
// code the connection ends at once, because the sender of the Bye has forgotten the connection. A
// receiver treats an unknown code below ByeOwner as ByeAborted.
const (
	ByeClosed  = 0 // the sender has closed the connection; no payload
	ByeAborted = 1 // the sender's owner has aborted the connection
	ByeShed    = 2 // the sender needs the memory for other peers
	ByeNarrow  = 3 // the path carries no datagrams of the minimum size
	ByeBroken  = 4 // the receiver of the Bye, or the fabric, has broken the protocol
	ByeDead    = 5 // the receiver of the Bye has acknowledged nothing for too long
	// ByeOwner is added to the code of the sender's owner, which is 0 to ByeOwnerMax.
	ByeOwner    = 0x8000
	ByeOwnerMax = 0x7FFF
)

// ByeCodeBytes is the length of the payload of a Bye with a code.
const ByeCodeBytes = 2

// ByeCode reads the payload of a Bye as Decode returned the payload. The length of the payload must
// be 0 or ByeCodeBytes.
func ByeCode(payload []byte) uint16 {
	if len(payload) < ByeCodeBytes {
		return ByeClosed
	}
	return le.Uint16(payload)
}

// PutByeCode writes the payload of a Bye, and returns the length of the payload. The length is 0
// for ByeClosed.
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
