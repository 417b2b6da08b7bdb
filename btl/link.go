package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A connection uses one of two kinds of link, on which both ends agree at the handshake:
//
//	sequenced  link_seq.go      any fabric: sequence numbers, a window, ACKs, timers, resends
//	counted    link_counted.go  one that loses nothing, as both ends say: packets are only counted
//
// Fragments, chunks, packs and puts are written once for both. The functions of this file hide the
// differences in sending, receiving and completing them. Other files only reset or pass on the kind
// (handshake_host.go), count and check it (handshake_host.go, check.go), or test it to find
// the owner of a packet without a send buffer (egress.go).

// link is an endpoint's state of its link.
type link struct {
	asking    bool    // the next ACK goes alone, and asks for one of what was sent
	failedFor uint8   // counted: reason for which what comes of a fragment is refused; 0: nothing is
	asksFor   seq.Num // up to here
	refusals  []refusal
	counts    *countedState // of a counted link; else it may be nil
}

// features are the optional abilities of this side.
func (m *Module) features() (bits uint64) {
	bits = frag.FeatureOps | frag.FeatureAsk
	if m.rules.Adaptive {
		bits |= frag.FeatureSack
		// Else the ACK delay of a lone answer would be too large a part of the peer's time-out.
		if m.cfg.PeerTimeout/4 >= 2*reliability.LoneAckDelay {
			bits |= frag.FeatureLater
		}
	}
	if m.port.Reliable() {
		bits |= frag.FeatureReliable
	}
	return bits
}

// beginLink begins the kind of link on which both sides have agreed, with the recovery rules that
// suit the peer's Hello. The first credits of a counted link come with the peer's first ACK.
func (m *Module) beginLink(ep *Endpoint, hello *frag.Hello) {
	ep.asking, ep.rcv.Selective = false, ep.id.Selective
	if ep.id.Counted {
		if ep.counts == nil {
			ep.counts = new(countedState)
		}
		ep.useSize(ep.mtuMost)
		ep.tiny = ep.mtu // all goes one way
		ep.snd.Unbind()
		return
	}
	ep.useSize(pathBase(ep.mtuMost))
	ep.snd.Grant(hello.Credit)
	m.recovery.Join(&ep.snd, time.Duration(hello.AckDelayUs)*time.Microsecond, ep.id.Selective)
}

// seal makes a packet ready to be posted: number, piggybacked ACK, header, timer. It returns the
// datagram's length.
func (m *Module) seal(p *packet) int {
	if p.ep.id.Counted {
		return m.sealCounted(p)
	}
	return m.sealSequenced(p)
}

// sealRun is seal for a run of chunks, as far as possible before their headers are written.
func (m *Module) sealRun(r *chunkRun, run []reliability.Token) {
	if !r.ep.id.Counted { // each of which is sealed by itself
		m.sealRunSequenced(r, run)
	}
}

// bulkPath is the channel that carries chunks, and the peer's address on it.
func (ep *Endpoint) bulkPath() (*port.Channel, fabric.Addr) {
	if ep.id.Counted {
		return &ep.m.port.Command, ep.cmdAddr
	}
	return &ep.m.port.Data, ep.dataAddr
}

// ackPath is the channel of ACKs and Nacks: on a counted link, the one without data packets.
func (ep *Endpoint) ackPath() (*port.Channel, fabric.Addr) {
	if ep.id.Counted {
		return &ep.m.port.Data, ep.dataAddr
	}
	return &ep.m.port.Command, ep.cmdAddr
}

// awaitEnd makes fragment f, and those chained to it, wait for completion: their last packet was
// sealed. (Sequenced ones wait for the ACKs of all their packets.)
func (ep *Endpoint) awaitEnd(f *Fragment) {
	if ep.id.Counted {
		ep.counts.await(f, false)
	}
}

// awaitEndOfPack is awaitEnd for the fragments in a pack, of so many records, whose senders are
// told of its end.
func (ep *Endpoint) awaitEndOfPack(f *Fragment, records int) {
	if ep.id.Counted {
		for told := f; told != nil; told = told.next {
			records--
		}
		ep.counts.await(f, records > 0)
	}
}

// busy says whether the endpoint has send buffers in use that will become free by themselves.
func (ep *Endpoint) busy() bool {
	if ep.id.Counted {
		return ep.counts.held > 0
	}
	return ep.snd.InFlight() > 0
}

// idle says whether a large fragment has no packet in flight whose end would free a send buffer.
func (ep *Endpoint) idle(f *Fragment) bool { return f.out == 0 && (!ep.id.Counted || !ep.busy()) }

// txReleased notes that the fabric has completed a packet whose buffer it alone still used.
func (ep *Endpoint) txReleased() {
	if ep.id.Counted {
		ep.counts.held--
	}
}

// admit processes a packet's link fields: its ACK and its number. False means that its payload must
// be ignored.
func (m *Module) admit(in *arrival) bool {
	ep := in.ep
	if ep.id.Counted {
		return m.admitCounted(in)
	}
	place := reliability.Accept
	if in.Kind.HasSeq() {
		place = ep.rcv.Check(in.Seq)
	}
	// The ACK on a duplicate packet, perhaps a copy made by the network, may be outdated: it
	// reports no gap.
	if in.Flags&frag.FlagSack != 0 {
		if !m.onSack(in) {
			return m.drop(CntDropAck)
		}
	} else if in.Flags&frag.FlagAck != 0 && !m.onAck(ep, &in.Header, place != reliability.Accept) {
		return m.drop(CntDropAck)
	}
	ep.life.Heard(m.nowUnpaused, int(m.rxVia))
	if place != reliability.Accept {
		m.noNews(ep, place)
		return false
	}
	return true
}

// admissible says whether admit's only work for a packet would be a valid ACK, which can wait.
func (ep *Endpoint) admissible(h *frag.Header) bool {
	if ep.id.Counted {
		return h.Flags&frag.FlagAck == 0 && ep.whyLost(h) == nil
	}
	return ep.rcv.Check(h.Seq) == reliability.Accept && ep.id.Allows(h.Flags) &&
		(h.Flags&frag.FlagAck == 0 || ep.snd.Plausible(h.Ack) && ep.snd.Honest(h.Ack))
}

// numberOf is the sequence number, or count, of a packet that has just been accepted.
func (ep *Endpoint) numberOf(h *frag.Header) seq.Num {
	if ep.id.Counted { // not all say it
		return ep.rcv.Next() - 1
	}
	return h.Seq
}

// accepted does the book-keeping of an accepted packet: ACKs cover it from now on.
func (m *Module) accepted(ep *Endpoint, h *frag.Header) {
	if ep.id.Counted {
		m.count(ep, h, true)
	} else {
		if h.Seq != ep.rcv.Next() {
			m.stats.counters[CntEarly]++
		}
		if h.Flags&frag.FlagLater != 0 {
			ep.rcv.AcceptLone(m.now, h.Seq, ep.snd.InFlight() == 0 && !ep.closing, &m.rules)
		} else {
			ep.rcv.Accept(m.now, h.Seq, &m.rules)
		}
		ep.rcv.Weigh(1, frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen))
		ep.rcv.Unread(m.rxQueuedMax)
		ep.numbers.Seen, ep.numbers.SeenBy = h.Number, m.rxVia
		m.acks.Owe(&ep.rcv, m.now)
		ep.sweepParts()
	}
	m.stats.counters[acceptedCounter(h)]++
}

// refuse does the book-keeping of a permanently refused packet, and tells the peer.
func (m *Module) refuse(in *arrival, reason uint8) {
	if in.ep.id.Counted {
		m.refuseCounted(in.ep, &in.Header, reason)
	} else {
		m.refuseSequenced(in, reason, 0)
	}
}

// refuses says whether refusedBefore may have work, which is rare.
func (l *link) refuses() bool {
	return len(l.refusals) > 0 || l.failedFor != 0
}

// refusedBefore says whether a chunk is of an already refused fragment, and handles it if so.
func (m *Module) refusedBefore(in *arrival) bool {
	if in.ep.id.Counted {
		return m.refusedBeforeCounted(in)
	}
	return m.refusedBeforeSequenced(in)
}

// admitRecords checks the tags of a pack before delivery. False means that no record of the pack
// may be delivered.
func (m *Module) admitRecords(in *arrival) bool {
	if in.ep.id.Counted {
		return in.ep.admitRecordsCounted(in)
	}
	return m.admitRecordsSequenced(in)
}

// assemble adds a chunk to its fragment. False means that the chunk is not accepted. The message is
// the fragment that the chunk completes, else nil.
func (m *Module) assemble(in *arrival) (*frag.Message, bool) {
	if in.ep.id.Counted {
		return m.assembleCounted(in)
	}
	msg, err := in.ep.asm.Add(&in.Header, in.payload, in.Seq == in.ep.rcv.Next())
	if err != nil {
		m.notAdded(in, err)
	}
	return msg, err == nil
}

// nacked handles a Nack.
func (m *Module) nacked(in *arrival) {
	if in.ep.id.Counted {
		m.onNackCounted(in)
	} else {
		m.onNack(in)
	}
}

// abandon fails the sent but unacknowledged (or unconfirmed) fragments to a peer that is gone.
func (m *Module) abandon(ep *Endpoint, err error) {
	if ep.id.Counted {
		m.abandonCounted(ep, err)
		return
	}
	done := ep.snd.Abort(m.done[:0])
	m.done = done[:0] // it may have grown
	for _, t := range done {
		m.failSeg(t, err)
	}
}

// mayClose says whether a Bye may be sent. On a counted link it waits until everything before it is
// confirmed, as a refused fragment may have to be sent again.
func (ep *Endpoint) mayClose() bool {
	return (!ep.id.Counted || ep.counts.confirm.first == nil) && ep.remote.Waiting() == 0
}

// watches says whether the endpoint's timer probes a peer that owes an answer: so on counted links,
// whose packets have no timers.
func (ep *Endpoint) watches() bool { return ep.id.Counted }

// owed says whether the peer of a counted link owes a confirmation, or its first credits.
func (ep *Endpoint) owed() bool {
	return ep.watches() && (ep.snd.InFlight() > 0 || !ep.snd.Open())
}

// lands says whether the provider may land chunks of this endpoint: landings are for one channel.
func (ep *Endpoint) lands() bool {
	on := &ep.m.port.Data
	if ep.id.Counted {
		on = &ep.m.port.Command
	}
	return ep.m.landing.on == on
}

// checkLink verifies the packets in flight.
func (m *Module) checkLink(c *checker, ep *Endpoint) error {
	if ep.id.Counted {
		return m.checkCounted(c, ep)
	}
	return m.checkWindow(c, ep)
}

// checkWindow proves that each number in flight is one segment in one place.
func (m *Module) checkWindow(c *checker, ep *Endpoint) error {
	oldest, next := ep.snd.Window()
	count, early, bytes := ep.snd.InFlight(), 0, 0
	c.window += count
	if count < 0 || count > min(ep.snd.Size(), m.rules.WindowPackets) {
		return fmt.Errorf("window [%d, %d) of at most %d", oldest, next, ep.snd.Size())
	}
	if count > 0 && ep.id.State() != stateConnected {
		return fmt.Errorf("%d packets in flight in state %d", count, ep.id.State())
	}
	for n := oldest; n != next; n++ {
		t, ok := ep.snd.Token(n)
		if !ok && ep.id.Selective {
			early++
			continue
		}
		if !ok || int(t) >= len(m.segs) {
			return fmt.Errorf("number %d is no segment", n)
		}
		if err := m.checkInFlight(c, ep, t, n); err != nil {
			return fmt.Errorf("number %d, segment %d: %w", n, t, err)
		}
		bytes += int(m.segs[t].bytes)
	}
	if bytes != ep.snd.InFlightBytes() {
		return fmt.Errorf("%d bytes in flight, %d counted", bytes, ep.snd.InFlightBytes())
	}
	c.held[ep.id.Slot] += count
	if int(next-oldest) != count+early {
		return fmt.Errorf("window [%d, %d) of %d packets, %d arrived early", oldest, next, count, early)
	}
	if ep.id.Selective != ep.rcv.Selective {
		return fmt.Errorf("ACKs are selective: %v, of the receiver: %v", ep.id.Selective,
			ep.rcv.Selective)
	}
	return ep.snd.CheckRecovery()
}

// checkInFlight verifies the segment of a number in flight.
func (m *Module) checkInFlight(c *checker, ep *Endpoint, t reliability.Token, n seq.Num) error {
	s := &m.segs[t]
	switch owner, got := m.recovery.Owner(t); {
	case c.places[t] != placeNone:
		return fmt.Errorf("is %v too", c.places[t])
	case s.ep != ep:
		return fmt.Errorf("is not this endpoint's")
	case m.port.State(segBuf(t))&port.Release != 0:
		return fmt.Errorf("is to be released")
	case m.seqOf(t) != n:
		return fmt.Errorf("its packet has the number %d", m.seqOf(t))
	case m.recovery.State(t) != reliability.Posted && m.recovery.State(t) != reliability.Resend:
		return fmt.Errorf("is %v", m.recovery.State(t))
	case owner != ep.id.Slot || got != n:
		return fmt.Errorf("belongs to number %d of endpoint %d", got, owner)
	}
	c.places[t] = placeWindow
	return nil
}
