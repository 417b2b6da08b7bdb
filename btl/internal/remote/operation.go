package remote

import "gobtl/frag"

// Operation is the state of a send that is not a message or a plain put:
//
//	put with a notice   its chunks name the operation; a packet behind them is the notice. What fits
//	                    one packet is one. The target counts: notice.go
//	get                 one packet asks; the answer is a put of the peer into the caller's memory,
//	                    which is exposed for that, and to that peer, alone
//	atomic              one packet asks; if the old value is wanted one packet answers
//	answer              to a get or to an atomic operation of the peer
type Operation[F any] struct {
	fragment F
	code     frag.OpCode // OpPart: a put with a notice; OpGet, OpAtomic; OpResult, OpFailed; 0: bytes
	number   uint32      // 0 until it has one: of a put in chunks when the first is sent
	body     [frag.NoticeBytesMax]byte
	size     uint8 // bytes of body
	tag      uint8 // of a notice

	numbered bool // its number is in use: in the peer's asks, or of its notices
	waits    bool // for an answer
	owed     bool // an answer whose last packet has not left

	into    Region[F] // of a get: the caller's memory, for the peer
	arrived uint32    // bytes of it
	value   uint64    // of an atomic: the old one

	from *Region[F] // of the answer to a get: what is read
	ask  uint32     // of an answer: the number of what was asked
}

// Fragment is the owner's record of the send.
func (o *Operation[F]) Fragment() F { return o.fragment }

// Code is the operation's code on the wire.
func (o *Operation[F]) Code() frag.OpCode { return o.code }

// Number is the operation's number on the wire.
func (o *Operation[F]) Number() uint32 { return o.number }

// Body is the payload of its packet: a question, or an answer of one packet.
func (o *Operation[F]) Body() []byte { return o.body[:o.size] }

// Notice is what the notice of a put says, nil if it has none.
func (o *Operation[F]) Notice() []byte {
	if o.code != frag.OpPart {
		return nil
	}
	return o.body[:o.size]
}

// Notifies says whether the operation is a put with a notice.
func (o *Operation[F]) Notifies() bool { return o.code == frag.OpPart }

// Tag is the tag of the operation's notice.
func (o *Operation[F]) Tag() uint8 { return o.tag }

// Value is what an atomic operation has found: the old value.
func (o *Operation[F]) Value() uint64 { return o.value }

// Waits says whether the operation was sent and its answer has not come.
func (o *Operation[F]) Waits() bool { return o.waits }

// Asks is the number of the operation that this answer answers.
func (o *Operation[F]) Asks() uint32 { return o.ask }

// Into is the region that is exposed for the answer to a get.
func (o *Operation[F]) Into() *Region[F] { return &o.into }

// Reads says whether it is an answer that reads a region.
func (o *Operation[F]) Reads(r *Region[F]) bool { return o.from == r }

// Needs is the right that the region must have, and how many bytes are accessed. Of a put with a
// notice the size is that of its fragment, and 0 here.
func (o *Operation[F]) Needs() (Rights, int) {
	if o.code == frag.OpPart {
		return Write | Notify, 0
	}
	if o.code == frag.OpAtomic {
		var a frag.Atomic
		frag.DecodeAtomic(o.Body(), &a)
		return Atomic, int(a.WidthBytes)
	}
	return Read, len(o.into.mem)
}

// StopReading notes that nothing of the answer to a get is read from its region any more.
func (o *Operation[F]) StopReading() {
	if r := o.from; r != nil {
		o.from = nil
		r.forget(o)
	}
}
