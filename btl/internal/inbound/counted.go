package inbound

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Counted is the receive state of a connection over a reliable and ordered fabric (counted link).
// On a counted link, all chunks of one fragment arrive before the first chunk of the next fragment.
// On a counted link, the Nack for a refused packet is sent before the Ack that covers the packet. A
// zero Counted is the state of a new connection.
type Counted struct {
	refusals []refused
	told     int    // number of elements of refusals, from the front, whose Nacks were sent
	reason   uint8  // why chunks of the fragment "refused" are refused, or 0
	refused  uint32 // id of the fragment whose remaining chunks are refused
	arriving uint32 // id of the partly received fragment
	arrived  uint32 // offset, in bytes, of the next chunk of the fragment "arriving"
}

// Refusal describes a Nack that must be sent to the peer, over a reliable fabric.
type Refusal struct {
	Seq         seq.Num
	Reason, Tag uint8
}

// The type "refused" describes a refused packet, or a packet with refused records. The peer's
// credits limit the number of packets with pending Nacks, because the peer gets new credits only
// after the Nacks are sent.
type refused struct {
	seq    seq.Num
	reason uint8
	tags   Tags // tags of refused records without a Nack so far; empty if the whole packet is refused
}

// WhyLost returns an error if a packet's header shows that the fabric has lost, duplicated or
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
// deliver next. The argument "active" of Next says whether a fragment is partly received.
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

// Refuses reports whether more chunks of a refused fragment are still expected.
func (c *Counted) Refuses() bool { return c.reason != 0 }

// WhyRefused returns the reason why this side refuses the chunks of the fragment with the id
// fragID, or 0 if this side accepts these chunks.
func (c *Counted) WhyRefused(fragID uint32) (reason uint8) {
	if c.refused != fragID {
		return 0
	}
	return c.reason
}

// Refuse records that this side refuses packet n, with the header h. After a refused chunk, this
// side refuses all remaining chunks of its fragment. For all chunks of a refused fragment together,
// this side sends one Nack, which refers to the last chunk.
func (c *Counted) Refuse(n seq.Num, h *frag.Header, reason uint8) {
	if h.Kind == frag.KindChunk {
		c.reason, c.refused = reason, h.FragID
		if h.OffsetBytes+uint32(h.PayloadLen) == h.SizeBytes {
			c.reason = 0 // this is the last chunk of the fragment
		}
	}
	if h.Seq != 0 || h.Kind != frag.KindChunk {
		c.refusals = append(c.refusals, refused{seq: n, reason: reason})
	}
}

// RefuseRecords queues one Nack for each tag of the refused small fragments (records) in packet n.
func (c *Counted) RefuseRecords(n seq.Num, tags *Tags) {
	if *tags != (Tags{}) {
		c.refusals = append(c.refusals, refused{seq: n, reason: frag.NackRecord, tags: *tags})
	}
}

// Tell calls the function "send" for each pending refusal, the oldest first, until a call returns
// false. Tell reports whether all pending refusals were sent.
func (c *Counted) Tell(send func(Refusal) bool) bool {
	for c.told < len(c.refusals) {
		r := &c.refusals[c.told]
		tag := r.tags.First()
		if !send(Refusal{Seq: r.seq, Reason: r.reason, Tag: tag}) {
			if 2*c.told >= len(c.refusals) { // half of the slice is unused
				c.refusals, c.told = c.refusals[:copy(c.refusals, c.refusals[c.told:])], 0
			}
			return false
		}
		if r.tags.Remove(tag); r.tags == (Tags{}) {
			c.told++
		}
	}
	c.refusals, c.told = c.refusals[:0], 0
	return true
}
