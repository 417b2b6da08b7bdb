package receive

import (
	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// admit processes the ACK and the sequence number of a received packet, and reports whether the
// packet's payload must be processed. The function "admissible" must test the same conditions as
// admit.
func (rx *Receiver) admit(in *arrival) bool {
	ep := in.ep
	if ep.ID.Counted {
		return rx.admitCounted(in)
	}
	place := reliability.Accept
	if in.Kind.HasSeq() {
		place = ep.Rcv.Check(in.Seq)
	}
	if in.Flags&frag.FlagSack != 0 {
		if !rx.onSack(in) {
			return rx.drop(stats.CntDropAck)
		}
	} else if in.Flags&frag.FlagAck != 0 &&
		!rx.Sent.OnAck(ep, &in.Header, place != reliability.Accept) {
		return rx.drop(stats.CntDropAck)
	}
	ep.Life.Heard(rx.Clock.Unpaused, int(rx.via))
	if place != reliability.Accept {
		rx.notAccepted(ep, place)
		return false
	}
	return true
}

// The function "admissible" reports whether admit would return true for a packet, and changes
// nothing. The function "admissible" must test the same conditions as admit.
func admissible(ep *peer.Endpoint, h *frag.Header) bool {
	if ep.ID.Counted {
		return h.Flags&frag.FlagAck == 0 && inbound.WhyLost(h, &ep.Rcv.Receiver, &ep.Snd) == nil
	}
	return ep.Rcv.Check(h.Seq) == reliability.Accept && ep.ID.Allows(h.Flags) &&
		(h.Flags&frag.FlagAck == 0 || ep.Snd.Plausible(h.Ack) && ep.Snd.Honest(h.Ack))
}

// numberOf returns the sequence number of the packet that was accepted last. Over a reliable
// fabric, numberOf derives the number from the count of received packets, because few packets
// contain their sequence number.
func numberOf(ep *peer.Endpoint, h *frag.Header) seq.Num {
	if ep.ID.Counted { // not every packet carries its count
		return ep.Rcv.Next() - 1
	}
	return h.Seq
}

// The method "accepted" updates the receive state for an accepted packet, so that the next ACK
// covers this packet.
func (rx *Receiver) accepted(ep *peer.Endpoint, h *frag.Header) {
	if ep.ID.Counted {
		rx.count(ep, h, true)
	} else {
		if h.Seq != ep.Rcv.Next() {
			rx.Count[stats.CntEarly]++
		}
		if h.Flags&frag.FlagLater != 0 {
			ep.Rcv.AcceptLone(rx.Clock.Now, h.Seq, ep.Snd.InFlight() == 0 && !ep.Closing, &rx.Rules)
		} else {
			ep.Rcv.Accept(rx.Clock.Now, h.Seq, &rx.Rules)
		}
		ep.Rcv.Weigh(frag.HeaderBytes(h.Kind, h.Flags) + int(h.PayloadLen))
		ep.Rcv.Unread(rx.queuedMost)
		ep.Numbers.Saw(h.Number, rx.via)
		rx.Acks.Owe(&ep.Rcv, rx.Clock.Now)
		ep.SweepParts()
	}
	rx.Count[acceptedCounter(h)]++
}

// refuse updates the receive state for a permanently refused packet, and sends the peer a Nack with
// the reason for the refusal.
func (rx *Receiver) refuse(in *arrival, reason uint8) {
	if in.ep.ID.Counted {
		rx.refuseCounted(in.ep, &in.Header, reason)
	} else {
		rx.refuseSequenced(in, reason, 0)
	}
}

// The function "refuses" reports whether the caller must call refusedBefore for each chunk, because
// a fragment of the peer was refused recently.
func refuses(ep *peer.Endpoint) bool {
	return ep.Refusals.Any() || ep.ID.Counted && ep.Counts.Inbound.Refuses()
}

// If this side has refused an earlier chunk of the same fragment, refusedBefore drops or refuses
// the chunk and returns true. Otherwise, refusedBefore returns false.
func (rx *Receiver) refusedBefore(in *arrival) bool {
	if in.ep.ID.Counted {
		return rx.refusedBeforeCounted(in)
	}
	return rx.refusedBeforeSequenced(in)
}

// assemble adds a chunk to its fragment. The first result of assemble is the fragment if the chunk
// has completed the fragment, and otherwise nil. The second result of assemble says whether the
// chunk was accepted.
func (rx *Receiver) assemble(in *arrival) (*frag.Message, bool) {
	if in.ep.ID.Counted {
		return rx.assembleCounted(in)
	}
	msg, err := in.ep.Asm.Add(&in.Header, in.payload, in.Seq == in.ep.Rcv.Next())
	if err != nil {
		rx.notAdded(in, err)
	}
	return msg, err == nil
}

// nacked handles a received Nack.
func (rx *Receiver) nacked(in *arrival) {
	if in.ep.ID.Counted {
		rx.Sent.OnNackCounted(in.ep, &in.Header, in.payload)
	} else {
		rx.Sent.OnNack(in.ep, &in.Header, in.payload)
	}
}

// lands reports whether the provider can write chunks from this endpoint's peer directly to their
// destination memory (direct receive). A module uses direct receive on only one of its two
// channels.
func (ld *DirectChunks) lands(ep *peer.Endpoint) bool {
	on := &ld.Port.Data
	if ep.ID.Counted {
		on = &ld.Port.Command
	}
	return ld.Plan.Channel == on
}

// askedForAck handles a received Ack packet with the flag that requests an ACK in return.
func (rx *Receiver) askedForAck(in *arrival) {
	ep := in.ep
	ep.Rcv.AskAckOf(rx.Clock.Now, in.Seq)
	if ep.Rcv.Owed {
		rx.Acks.Owe(&ep.Rcv, rx.Clock.Now)
	}
}
