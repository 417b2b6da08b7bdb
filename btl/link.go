package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// A connection uses one of two kinds of link, on which both ends agree in the handshake. A
// sequenced link (link_seq.go) is for any fabric, and has sequence numbers, a window, ACKs, timers
// and retransmissions. A counted link (link_counted.go) is for a reliable fabric, and only counts
// packets.
//
// The code of fragments, chunks, Packs and puts is the same for both kinds of link. The functions
// in this file contain the differences between sequenced and counted links.

// link is the part of an endpoint's state that belongs to the kind of link, sequenced or counted.
type link struct {
	asking   bool    // the next ACK is a packet of its own and requests an ACK
	asksFor  seq.Num // the requested ACK covers packets up to here
	refusals inbound.Refusals
	counts   *countedState // state of a counted link; otherwise it may be nil
}

// features returns the optional protocol features of this side, as announced in a Hello.
func (m *Module) features() (bits uint64) {
	bits = frag.FeatureOps | frag.FeatureAsk | frag.FeatureKept
	if m.rules.Adaptive {
		bits |= frag.FeatureSack
		if m.cfg.PeerTimeout/4 >= 2*reliability.LoneAckDelay {
			bits |= frag.FeatureLater
		}
	}
	if m.port.Reliable() {
		bits |= frag.FeatureReliable
	}
	return bits
}

// beginLink initializes the kind of link on which both sides have agreed. The first send credits
// on a counted link arrive with the peer's first ACK.
func (m *Module) beginLink(ep *Endpoint, hello *frag.Hello) {
	ep.asking, ep.rcv.Selective = false, ep.id.Selective
	if ep.id.Counted {
		if ep.counts == nil {
			ep.counts = new(countedState)
		}
		ep.useSize(ep.mtuMost)
		ep.tiny = ep.mtu // all packets use one channel
		ep.snd.Unbind()
		return
	}
	ep.useSize(pathBase(ep.mtuMost))
	ep.snd.Grant(hello.Credit)
	m.recovery.Join(&ep.snd, time.Duration(hello.AckDelayUs)*time.Microsecond, ep.id.Selective)
}

// seal makes a packet ready to be posted. seal sets the packet number and the ACK fields, writes
// the header and starts the timer. seal returns the datagram's length in bytes.
func (m *Module) seal(p *packet) int {
	if p.ep.id.Counted {
		return m.sealCounted(p)
	}
	return m.sealSequenced(p)
}

// sealRun performs the part of seal that several adjacent chunks have in common, before the headers
// are written. On a counted link sealRun does nothing.
func (m *Module) sealRun(r *chunkRun, run []reliability.Token) {
	if !r.ep.id.Counted { // each of which is sealed by itself
		m.sealRunSequenced(r, run)
	}
}

func (ep *Endpoint) bulkPath() (*port.Channel, fabric.Addr) {
	if ep.id.Counted {
		return &ep.m.port.Command, ep.cmdAddr
	}
	return &ep.m.port.Data, ep.dataAddr
}

// ackPath returns the channel for ACKs and Nacks, and the peer's address on this channel. On a
// counted link ackPath returns the data channel, because all data packets use the command channel.
func (ep *Endpoint) ackPath() (*port.Channel, fabric.Addr) {
	if ep.id.Counted {
		return &ep.m.port.Data, ep.dataAddr
	}
	return &ep.m.port.Command, ep.cmdAddr
}

// awaitEnd makes fragment f, and the fragments chained to f, wait for the ACK of the last packet,
// which was just made ready to be posted.
func (ep *Endpoint) awaitEnd(f *Fragment) {
	if ep.id.Counted {
		ep.counts.await(f, false)
	}
}

// awaitEndOfPack works like awaitEnd for the fragments in a Pack, a packet with several small
// messages.
func (ep *Endpoint) awaitEndOfPack(f *Fragment, records int) {
	if ep.id.Counted {
		for told := f; told != nil; told = told.next {
			records--
		}
		ep.counts.await(f, records > 0)
	}
}

// busy reports whether the endpoint has send buffers in use that become free without further sends.
func (ep *Endpoint) busy() bool {
	if ep.id.Counted {
		return ep.counts.held > 0
	}
	return ep.snd.InFlight() > 0
}

// idle reports whether a large fragment has no packet in flight whose completion would free a send
// buffer.
func (ep *Endpoint) idle(f *Fragment) bool { return f.out == 0 && (!ep.id.Counted || !ep.busy()) }

// txReleased counts a completed send whose buffer only the fabric still used, because the packet
// is acknowledged.
func (ep *Endpoint) txReleased() {
	if ep.id.Counted {
		ep.counts.held--
	}
}

// admit handles the ACK and the sequence number of a received packet. admit returns false if the
// packet's payload must be ignored.
func (m *Module) admit(in *arrival) bool {
	ep := in.ep
	if ep.id.Counted {
		return m.admitCounted(in)
	}
	place := reliability.Accept
	if in.Kind.HasSeq() {
		place = ep.rcv.Check(in.Seq)
	}
	if in.Flags&frag.FlagSack != 0 {
		if !m.onSack(in) {
			return m.drop(CntDropAck)
		}
	} else if in.Flags&frag.FlagAck != 0 && !m.onAck(ep, &in.Header, place != reliability.Accept) {
		return m.drop(CntDropAck)
	}
	ep.life.Heard(m.clock.Unpaused, int(m.rxVia))
	if place != reliability.Accept {
		m.noNews(ep, place)
		return false
	}
	return true
}

// admissible reports whether admit would accept a packet.
func (ep *Endpoint) admissible(h *frag.Header) bool {
	if ep.id.Counted {
		return h.Flags&frag.FlagAck == 0 && inbound.WhyLost(h, &ep.rcv.Receiver, &ep.snd) == nil
	}
	return ep.rcv.Check(h.Seq) == reliability.Accept && ep.id.Allows(h.Flags) &&
		(h.Flags&frag.FlagAck == 0 || ep.snd.Plausible(h.Ack) && ep.snd.Honest(h.Ack))
}

// numberOf returns the sequence number of the packet that was just accepted, or the packet's count
// on a counted link.
func (ep *Endpoint) numberOf(h *frag.Header) seq.Num {
	if ep.id.Counted { // not every packet carries its count
		return ep.rcv.Next() - 1
	}
	return h.Seq
}

// accepted updates the receive state for an accepted packet, which later ACKs cover.
func (m *Module) accepted(ep *Endpoint, h *frag.Header) {
	if ep.id.Counted {
		m.count(ep, h, true)
	} else {
		if h.Seq != ep.rcv.Next() {
			m.stats.counters[CntEarly]++
		}
		if h.Flags&frag.FlagLater != 0 {
			ep.rcv.AcceptLone(m.clock.Now, h.Seq, ep.snd.InFlight() == 0 && !ep.closing, &m.rules)
		} else {
			ep.rcv.Accept(m.clock.Now, h.Seq, &m.rules)
		}
		ep.rcv.Weigh(1, frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen))
		ep.rcv.Unread(m.rxQueuedMax)
		ep.numbers.Seen, ep.numbers.SeenBy = h.Number, m.rxVia
		m.acks.Owe(&ep.rcv, m.clock.Now)
		ep.sweepParts()
	}
	m.stats.counters[acceptedCounter(h)]++
}

// refuse updates the receive state for a permanently refused packet, and sends the peer a Nack with
// the reason.
func (m *Module) refuse(in *arrival, reason uint8) {
	if in.ep.id.Counted {
		m.refuseCounted(in.ep, &in.Header, reason)
	} else {
		m.refuseSequenced(in, reason, 0)
	}
}

// refuses reports whether a fragment of the peer was refused lately, so that refusedBefore must be
// called.
func (ep *Endpoint) refuses() bool {
	return ep.refusals.Any() || ep.id.Counted && ep.counts.inbound.Refuses()
}

// refusedBefore reports whether a chunk belongs to a refused fragment, and in this case handles the
// chunk.
func (m *Module) refusedBefore(in *arrival) bool {
	if in.ep.id.Counted {
		return m.refusedBeforeCounted(in)
	}
	return m.refusedBeforeSequenced(in)
}

// admitRecords checks the tags of a Pack before delivery. admitRecords returns false if no record
// of the Pack may be delivered.
func (m *Module) admitRecords(in *arrival) bool {
	if in.ep.id.Counted {
		return in.ep.admitRecordsCounted(in)
	}
	return m.admitRecordsSequenced(in)
}

// assemble adds a chunk to its fragment. assemble returns the fragment if the chunk completes it,
// or else nil. The second result of assemble is false if the chunk is not accepted.
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

// nacked handles a received Nack.
func (m *Module) nacked(in *arrival) {
	if in.ep.id.Counted {
		m.onNackCounted(in)
	} else {
		m.onNack(in)
	}
}

// abandon ends the sent but unacknowledged fragments of an ended endpoint with err.
func (m *Module) abandon(ep *Endpoint, err error) {
	if ep.id.Counted {
		m.abandonCounted(ep, err)
		return
	}
	done := ep.snd.Abort(m.done[:0])
	m.done = done[:0] // the slice may have grown
	for _, t := range done {
		m.failSeg(t, err)
	}
}

// mayClose reports whether a Bye may be sent. Answers to all operations must have arrived before
// the Bye. On a counted link all earlier fragments must also be acknowledged before the Bye,
// because a refused fragment may have to be sent again.
func (ep *Endpoint) mayClose() bool {
	return (!ep.id.Counted || ep.counts.confirm.first == nil) && ep.remote.Waiting() == 0
}

// watches reports whether the endpoint's timer probes a peer with an outstanding ACK. watches
// returns true only on counted links, where packets have no retransmission timers.
func (ep *Endpoint) watches() bool { return ep.id.Counted }

// owed reports whether an ACK, or the first credits, of the peer of a counted link are outstanding.
func (ep *Endpoint) owed() bool {
	return ep.watches() && (ep.snd.InFlight() > 0 || !ep.snd.Open())
}

// lands reports whether chunks from this endpoint's peer can be received directly to their final
// memory. Direct receive exists on only one channel.
func (ep *Endpoint) lands() bool {
	on := &ep.m.port.Data
	if ep.id.Counted {
		on = &ep.m.port.Command
	}
	return ep.m.landing.On(on)
}

func (c *checker) checkLink(m *Module, ep *Endpoint) error {
	if ep.id.Counted {
		return c.checkCounted(ep)
	}
	return c.checkWindow(m, ep)
}

func (c *checker) checkWindow(m *Module, ep *Endpoint) error {
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
		if err := c.checkInFlight(m, ep, t, n); err != nil {
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

func (c *checker) checkInFlight(m *Module, ep *Endpoint, t reliability.Token, n seq.Num) error {
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
