package frag

import "fmt"

// This file has all the codes with which one side tells the other that it refuses something, or
// that the connection is over, and why. docs/protocol.md, section 8, has them in a table.

// Reasons of a Nack, carried as its tag: one packet is refused.
const (
	// NackAccess: a put to no region, out of its bounds, or without the right to write.
	NackAccess = 1
	// NackNoHandler: the receiver has no handler for the packet's tag.
	NackNoHandler = 2
	// NackRecord: a Pack holds a record for whose tag the receiver has no handler. The Nack's payload
	// is one byte, that tag. Nothing of the Pack was delivered.
	NackRecord = 3
	// NackMemory: the receiver has no memory to put the fragment together for now. In a reliable
	// connection the fragment, which ends with the refused packet, is to be sent again as a whole.
	NackMemory = 4
	// NackBounds: of an operation: the region is there, and the bytes are not in it, or not aligned.
	// Only where both sides have FeatureOps, elsewhere it is NackAccess.
	NackBounds = 5
	// NackRight: likewise, for want of a right.
	NackRight = 6
)

// Reasons of a Reject, carried as its tag: a Hello is refused. A receiver treats an unnamed reason
// as RejectFull.
const (
	RejectVersion = 1 // no protocol version in common; the payload tells which are spoken
	RejectFull    = 2 // the receiver takes no more peers
	RejectStale   = 3 // the incarnation asked for is gone
	RejectOwner   = 4 // the receiver's owner does not want this peer; the payload has its code
	RejectLater   = 5 // the receiver's owner does not want it now: it may go on asking
	RejectFeature = 6 // it requires a feature, or has a critical extension, that is not known
	RejectCrowded = 7 // too many peers of this address
	RejectAddress = 8 // an address of its is of no use

	rejectLast = RejectAddress
)

// Codes of a Bye: why the connection ends. ByeClosed, and those from ByeOwner on, end it in order,
// when everything before the Bye has arrived. The others end it at once: their sender has forgotten
// it. A receiver treats an unnamed one of these codes as ByeAborted.
const (
	ByeClosed  = 0 // the sender has closed it; such a Bye has no payload
	ByeAborted = 1 // the sender's owner has given it up
	ByeShed    = 2 // the sender needs the place, or the memory, for others
	ByeNarrow  = 3 // the path carries no datagrams of the least size
	ByeBroken  = 4 // the receiver of the Bye, or the carrier, has broken the protocol
	ByeDead    = 5 // the receiver of the Bye has not acknowledged anything for too long
	// ByeOwner is added to the code of the sender's owner, 0 to ByeOwnerMax.
	ByeOwner    = 0x8000
	ByeOwnerMax = 0x7FFF
)

// ByeCodeBytes is the payload of a Bye with a code.
const ByeCodeBytes = 2

// ByeCode reads the payload of a Bye as Decode returned it: 0 or ByeCodeBytes.
func ByeCode(payload []byte) uint16 {
	if len(payload) < ByeCodeBytes {
		return ByeClosed
	}
	return le.Uint16(payload)
}

// PutByeCode writes the payload of a Bye, and returns its length: ByeClosed has none.
func PutByeCode(b []byte, code uint16) int {
	if code == ByeClosed {
		return 0
	}
	le.PutUint16(b, code)
	return ByeCodeBytes
}

// ByeEndsAtOnce says whether a Bye with that code waits for nothing that was sent before it.
func ByeEndsAtOnce(code uint16) bool { return code != ByeClosed && code < ByeOwner }

var byeWords = [...]string{
	ByeClosed: "closed", ByeAborted: "given up", ByeShed: "shed for others",
	ByeNarrow: "the path is too narrow", ByeBroken: "protocol broken", ByeDead: "no acknowledgement",
}

// ByeWord says what the code of a Bye means, in a few words.
func ByeWord(code uint16) string {
	switch {
	case code >= ByeOwner:
		return fmt.Sprintf("its owner says %d", code-ByeOwner)
	case int(code) < len(byeWords):
		return byeWords[code]
	}
	return fmt.Sprintf("code %d", code)
}
