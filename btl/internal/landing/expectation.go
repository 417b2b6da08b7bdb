package landing

import (
	"fmt"

	"gobtl/frag"
)

// Expectation is the prediction of the next chunk (of a message or put) that a peer sends.
type Expectation[E any] struct {
	Of      E // the endpoint; the zero value after End
	asm     *frag.Assembler
	counted bool // the fabric is reliable, so that the next packets are the expected chunks
	ended   bool

	fragID uint32
	offset uint32 // of the chunk in its fragment
	missed uint32 // consecutive polls without the expected chunk
	open   bool   // a chunk is expected
	begins bool   // the expected chunk is the first of its fragment
	bytes  uint32 // size of the latest complete large fragment
	first  uint16 // size of the first chunk of the latest complete large fragment
	chunk  uint16
	put    Put
	puts   progress // the peer's latest put
	// The field "next" is the Expectation of the peer whose chunks usually arrive in the poll after
	// this peer's chunks. The field "rival" is the Expectation that replaces "next" if chunks of its
	// peer arrive once more in the poll after this peer's chunks.
	next, rival *Expectation[E]
}

// Put describes the memory for the next chunk of a put.
type Put struct {
	Flags  frag.Flags // the put and operation flags of the chunk; 0: a chunk of a message
	Handle uint64     // of the region
	At     uint64     // offset in the region
	Bytes  uint32     // bytes of the put from At on; in a result of Expectation.Put: at most bytesMax
	op     uint32
}

// New returns the Expectation for the peer of endpoint "of". The argument asm of New is the
// Assembler that reassembles the messages of the peer. The argument "counted" of New says whether
// the fabric between the two sides is reliable and ordered.
func New[E any](of E, asm *frag.Assembler, counted bool) *Expectation[E] {
	return &Expectation[E]{Of: of, asm: asm, counted: counted}
}

// End must be called when the endpoint of the Expectation ends.
func (x *Expectation[E]) End() { *x = Expectation[E]{ended: true} }

// The method "living" returns the Expectation x if its endpoint still exists, and nil if the
// endpoint has ended.
func (x *Expectation[E]) living() *Expectation[E] {
	if x == nil || x.ended {
		return nil
	}
	return x
}

// close records that the Plan makes no prediction about the peer's next chunk.
func (x *Expectation[E]) close() { x.open, x.begins = false, false }

// Message returns the memory into which a provider can directly receive the next chunks of the
// peer's message, or nil if direct receive is not possible. The memory that Message returns ends at
// a chunk boundary, and is valid for one poll.
func (x *Expectation[E]) Message() (mem []byte) {
	if !x.begins {
		return x.asm.ChunkMemory(x.fragID, x.offset, bytesMax)
	}
	if mem = x.asm.Anticipate(x.bytes, x.first, x.chunk, bytesMax); mem == nil {
		x.close()
	}
	return mem
}

// Put describes the memory into which a provider can directly receive the next chunks of the peer's
// put. The result "ok" of Put says whether the expected chunk belongs to a put, and not to a
// message. The field Bytes of the returned Put is a multiple of the chunk size, or the number of
// bytes to the end of the put.
func (x *Expectation[E]) Put() (p Put, ok bool) {
	p = x.put
	if n := min(p.Bytes, bytesMax); n < p.Bytes {
		p.Bytes = n - n%uint32(x.chunk)
	}
	return p, p.Flags != 0
}

// Check verifies an endpoint's Expectation between two polls. The argument "lands" of Check says
// whether direct receive is possible for the endpoint's chunks.
func (x *Expectation[E]) Check(lands bool) error {
	if x.ended || x.begins && !x.open || x.open && !lands || x.missed >= MissedMax && x.open {
		return fmt.Errorf("fragment %d from offset %d on is expected: %v, its beginning: %v, "+
			"%d missed, ended: %v", x.fragID, x.offset, x.open, x.begins, x.missed, x.ended)
	}
	return nil
}

// The type "progress" records the highest offset up to which bytes of a peer's latest put (of
// several chunks) have arrived. The provider must not overwrite bytes of a put that have already
// arrived.
type progress struct {
	fragID uint32
	high   uint32 // no byte from this offset on has arrived
	known  bool   // fragID and high are valid
}

// The method "reached" records an accepted chunk of a put, where "end" is the offset of the first
// byte after the chunk. The method "reached" returns true if the chunk belongs to the peer's latest
// put, and no bytes that follow the chunk in this put have arrived.
func (p *progress) reached(fragID, end uint32) bool {
	switch ahead := int32(fragID - p.fragID); {
	case p.known && ahead == 0:
		p.high = max(p.high, end)
	case p.known && ahead < 0:
		return false
	default:
		*p = progress{fragID: fragID, high: end, known: true}
	}
	return end == p.high
}
