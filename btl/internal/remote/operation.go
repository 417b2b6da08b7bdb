package remote

import "gobtl/frag"

// Operation is the state of a put with a notification, of a get, of an atomic operation, or of an
// answer.
//   - A put with a notification is sent either in one packet, or in chunks and a last packet with
//     the notification. The target of the put counts the bytes of the received chunks (notice.go).
//   - A get is one request packet. The answer to a get is a put of the peer to the application's
//     memory. The memory for the answer to a get is exposed only to the peer that answers, and only
//     until the answer has arrived.
//   - An atomic operation is one request packet. The answer to an atomic operation is one packet
//     with the old value, and is sent only if it is requested.
//   - An answer is the reply to a get or to an atomic operation of the peer.
type Operation[F any] struct {
	Fragment F
	Code     frag.OpCode // OpPart: a put with a notice; OpGet, OpAtomic; OpResult, OpFailed; 0: bytes
	Number   uint32      // 0 before it is numbered; a put in chunks is numbered at its first send
	body     [frag.NoticeBytesMax]byte
	size     uint8 // bytes of body
	tag      uint8 // of a notice

	numbered bool // number is in use, in asks or places of the Peer
	waits    bool // sent, and waits for its answer
	owed     bool // an answer whose last packet was not sent yet

	into    Region[F] // memory for the answer to a get
	arrived uint32    // bytes of the get that have arrived
	value   uint64    // old value that an atomic operation returned

	from   *Region[F] // region that the answer to a get reads
	reader int        // index of this operation in from.readers
	ask    uint32     // number of the operation to which this operation is the answer
}

// Body returns the payload of an operation that is sent in one packet, which is either a request or
// a short answer.
func (o *Operation[F]) Body() []byte { return o.body[:o.size] }

// Notice returns the content of a put's notification, or nil if the operation is not a put with a
// notification.
func (o *Operation[F]) Notice() []byte {
	if o.Code != frag.OpPart {
		return nil
	}
	return o.body[:o.size]
}

// Notifies reports whether the operation is a put with a notification.
func (o *Operation[F]) Notifies() bool { return o.Code == frag.OpPart }

// Tag returns the tag of the operation's notification.
func (o *Operation[F]) Tag() uint8 { return o.tag }

// Value returns the old value that an atomic operation has fetched.
func (o *Operation[F]) Value() uint64 { return o.value }

// Waits reports whether the operation was sent and waits for its answer.
func (o *Operation[F]) Waits() bool { return o.waits }

// Asks returns the number of the peer's operation that this operation answers. For an operation
// that is not an answer, Asks returns 0.
func (o *Operation[F]) Asks() uint32 { return o.ask }

// Into returns the region of the application's memory that receives the answer to a get.
func (o *Operation[F]) Into() *Region[F] { return &o.into }

// Reads reports whether the operation is an answer that reads region r.
func (o *Operation[F]) Reads(r *Region[F]) bool { return o.from == r }

// Needs returns the rights that the target region must grant, and the number of bytes that the
// operation accesses. For a put with a notification, Needs returns the number 0, because the size
// of the put is stored in the module's fragment.
func (o *Operation[F]) Needs() (Rights, int) {
	if o.Code == frag.OpPart {
		return Write | Notify, 0
	}
	if o.Code == frag.OpAtomic {
		var a frag.Atomic
		frag.DecodeAtomic(o.Body(), &a)
		return Atomic, int(a.WidthBytes)
	}
	return Read, len(o.into.mem)
}

// StopReading records that the answer to a get no longer reads its region.
func (o *Operation[F]) StopReading() {
	if r := o.from; r != nil {
		o.from = nil
		r.forget(o)
	}
}
