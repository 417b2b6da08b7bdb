package inbound

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Counted is the receive state of a connection over a reliable and ordered fabric (counted link).
// The chunks of one fragment arrive without chunks of other fragments between them. The peer gets a
// Nack for each refused packet before the Ack that covers the packet. The zero value is the state
// of a new connection.
type Counted struct {
	refusals []Refusal
	reason   uint8  // why the chunks of the fragment refused are refused, or 0
	refused  uint32 // id of the fragment whose later chunks are refused
	arriving uint32 // id of the partly received fragment
	arrived  uint32 // offset, in bytes, of its next chunk
}

// Refusal is a Nack to be sent to the peer, over a reliable fabric. The peer's credits limit the
// number of pending refusals, because credits are renewed only after the Nacks are sent.
type Refusal struct {
	Seq         seq.Num
	Reason, Tag uint8
}

// WhyLost returns an error if a packet's header shows that the fabric has lost, repeated or
// reordered packets, and otherwise nil. WhyLost is only for connections over a reliable fabric.
func WhyLost(h *frag.Header, rcv *reliability.Receiver, snd *reliability.Sender) error {
	data := h.Kind.HasSeq()
	switch {
	case data && h.Seq != 0 && h.Seq != rcv.Expected():
		return fmt.Errorf("packet %d came, %d was the next one", h.Seq, rcv.Expected())
	case data && h.Tag != frag.TagVoid && !rcv.Credited():
		return fmt.Errorf("packet %d came without a credit", rcv.Expected())
	case h.Flags&frag.FlagAck != 0 && !snd.Plausible(h.Ack):
		return fmt.Errorf("packet %d is acknowledged, which was not sent", h.Ack)
	}
	return nil
}

// Next returns an error if the chunk with header h is not the chunk that a reliable fabric must
// deliver next. The argument active is true if a fragment is partly received.
func (c *Counted) Next(h *frag.Header, active bool) error {
	if active && (h.FragID != c.arriving || h.OffsetBytes != c.arrived) ||
		!active && h.OffsetBytes != 0 {
		return fmt.Errorf("a chunk of fragment %d, at byte %d, was not the next one", h.FragID,
			h.OffsetBytes)
	}
	return nil
}

// Came records that the chunk with header h was accepted.
func (c *Counted) Came(h *frag.Header) {
	c.arriving, c.arrived = h.FragID, h.OffsetBytes+uint32(h.PayloadLen)
}

// Refuses reports whether the later chunks of a fragment are refused.
func (c *Counted) Refuses() bool { return c.reason != 0 }

// WhyRefused returns the reason why the chunks of the fragment fragID are refused, or 0.
func (c *Counted) WhyRefused(fragID uint32) (reason uint8) {
	if c.refused != fragID {
		return 0
	}
	return c.reason
}

// Refuse records that packet n, with the header h, is refused. If a chunk is refused, all later
// chunks of the fragment are refused, and only the last one, which requests an ACK, gets a Nack.
func (c *Counted) Refuse(n seq.Num, h *frag.Header, reason uint8) {
	if h.Kind == frag.KindChunk {
		c.reason, c.refused = reason, h.FragID
		if h.OffsetBytes+uint32(h.PayloadLen) == h.SizeBytes {
			c.reason = 0 // the fragment has no later chunks
		}
	}
	if h.Seq != 0 || h.Kind != frag.KindChunk {
		c.refusals = append(c.refusals, Refusal{Seq: n, Reason: reason})
	}
}

// RefuseRecords records that the records of packet n with the given tag are refused, once for each
// tag in refused.
func (c *Counted) RefuseRecords(n seq.Num, tag uint8, refused *Tags) {
	if !refused.Has(tag) {
		refused.Add(tag)
		c.refusals = append(c.refusals, Refusal{Seq: n, Reason: frag.NackRecord, Tag: tag})
	}
}

// Tell calls send for each pending refusal, the oldest first, until send returns false. Tell
// returns true if no refusal is pending any more.
func (c *Counted) Tell(send func(Refusal) bool) bool {
	told := 0
	for told < len(c.refusals) && send(c.refusals[told]) {
		told++
	}
	c.refusals = c.refusals[:copy(c.refusals, c.refusals[told:])]
	return len(c.refusals) == 0
}
