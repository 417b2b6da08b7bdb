package receive

import (
	"errors"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/reliability"
)

// notAccepted counts a packet that is a duplicate or is outside of the receive window. If the
// packet is a sign that an ACK was lost, notAccepted schedules a new ACK.
func (rx *Receiver) notAccepted(ep *peer.Endpoint, place reliability.Verdict) {
	switch place {
	case reliability.Duplicate:
		rx.Count[stats.CntDuplicate]++
	case reliability.Below:
		rx.Count[stats.CntBelowWindow]++
	default:
		rx.Count[stats.CntAboveWindow]++
		return
	}
	if ep.Rcv.Repeated(rx.Clock.Now) {
		rx.Acks.Owe(&ep.Rcv, rx.Clock.Now)
	}
	if ep.Snd.Missed(rx.Clock.Now) {
		rx.Sched.Rearm(ep)
	}
}

// notAdded handles a chunk that could not be added to its fragment. If reassembly memory or a slot
// for fragments was lacking, a Nack tells the peer to retransmit the chunk later. The module frees
// reassembly memory of a different peer only if the chunk is the next in sequence, and the chunk's
// peer itself has not caused the lack of memory. For a chunk that arrives out of order, no memory
// is freed, because the last part of the reassembly memory is reserved for chunks that arrive in
// order. If the slot for the chunk's fragment was in use, notAdded discards the fragment that
// occupies the slot, which the peer has already ended with an error. The retransmitted chunk then
// gets the free slot.
func (rx *Receiver) notAdded(in *arrival, err error) {
	rx.drop(stats.CntDropReassembly)
	in.ep.Rcv.AskAck(rx.Clock.Now, 0)
	rx.Acks.Owe(&in.ep.Rcv, rx.Clock.Now)
	if !errors.Is(err, frag.ErrBudget) && !errors.Is(err, frag.ErrSlot) {
		return // no correct sender sends this
	}
	in.ep.Rcv.Refused(in.Seq)
	rx.Writer.SendNack(in.ep, in.Seq, frag.NackMemory, 0)
	if in.Kind == frag.KindChunk && errors.Is(err, frag.ErrSlot) {
		in.ep.Asm.Supersede(in.FragID)
	}
	if frag.Scarce(err) && in.Seq == in.ep.Rcv.Next() {
		rx.Endings.WantsMemory(in.ep, rx.blockedBy(in))
	}
}

// blockedBy returns the id of the fragment because of which a packet was refused for lack of
// reassembly memory.
func (rx *Receiver) blockedBy(in *arrival) (fragID uint32) {
	if in.Kind == frag.KindChunk {
		return in.FragID
	}
	return rx.records.pieces.Blocked()
}

// refuseSequenced sends the peer a Nack for a refused packet.
func (rx *Receiver) refuseSequenced(in *arrival, reason, tag uint8) {
	if in.Kind == frag.KindChunk && in.Flags&frag.FlagPut == 0 {
		in.ep.Refusals.Add(&in.ep.Rcv.Receiver, in.Seq, in.FragID)
	}
	rx.Writer.SendNack(in.ep, in.Seq, reason, tag)
}

// refusedBeforeSequenced handles a chunk of a fragment that was refused before. Until the sender
// has ended the refused fragment with an error, this side refuses each chunk of this fragment
// again. After the sender has ended the refused fragment, this side accepts each chunk of this
// fragment, and drops its payload. refusedBeforeSequenced reports whether the chunk belongs to a
// refused fragment.
func (rx *Receiver) refusedBeforeSequenced(in *arrival) bool {
	ep := in.ep
	if in.Flags&frag.FlagPut != 0 || rx.handlers[in.Tag] == nil {
		return false
	}
	if ep.Refusals.Ended(&ep.Rcv.Receiver, in.FragID) {
		rx.accepted(ep, &in.Header)
		rx.checkBye(ep)
		return true
	}
	if !ep.Refusals.HasFragment(in.FragID) || rx.tooLong(&in.Header) {
		return false // the caller refuses a chunk for its length
	}
	rx.drop(stats.CntDropNoHandler)
	rx.refuseSequenced(in, frag.NackNoHandler, 0)
	return true
}
