package peer

import (
	"fmt"
	"time"

	"gobtl/btl/internal/inbound"
	"gobtl/btl/internal/pmtu"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Links adds packet numbers and ACKs to outgoing packets, and starts the retransmission timers of
// the packets.
type Links struct{ *Services }

// A connection uses one of two kinds of link. The two ends agree on the kind of link in the
// handshake. A sequenced link (link_seq.go) is for any fabric, and has sequence numbers, a window,
// ACKs, timers and retransmissions. A counted link (link_counted.go) is for a reliable fabric, and
// only counts packets.
//
// The code for fragments, chunks, Packs and puts is the same for both kinds of link. Where the two
// kinds of link (sequenced and counted) differ, the code tests ID.Counted. The functions in this
// file are called for both kinds of link, and choose between the code in link_seq.go and the code
// in link_counted.go.

// link is the part of an endpoint's state that depends on the kind of link (sequenced or counted).
type link struct {
	asking   bool    // the next ACK is a packet of its own and requests an ACK
	asksFor  seq.Num // the requested ACK covers packets up to here
	Refusals inbound.Refusals
	Counts   *countedState // state of a counted link; on a sequenced link possibly nil
}

// features returns the optional protocol features of this side, as announced in a Hello.
func (ln Links) features() (bits uint64) {
	bits = frag.FeatureOps | frag.FeatureAsk | frag.FeatureKept
	if ln.Rules.Adaptive {
		bits |= frag.FeatureSack
		if ln.Config.PeerTimeout/4 >= 2*reliability.LoneAckDelay {
			bits |= frag.FeatureLater
		}
	}
	if ln.Port.Reliable {
		bits |= frag.FeatureReliable
	}
	return bits
}

// beginLink initializes the kind of link on which both sides have agreed. Over a reliable fabric
// (counted link), the first send credits arrive with the peer's first ACK.
func (ln Links) beginLink(ep *Endpoint, hello *frag.Hello) {
	ep.asking, ep.Rcv.Selective = false, ep.ID.Selective
	if ep.ID.Counted {
		if ep.Counts == nil {
			ep.Counts = new(countedState)
		}
		ep.tinyMost = ep.mtuMost // all packets use one channel
		ep.UseSize(int(ep.mtuMost))
		ep.Snd.Unbind()
		return
	}
	ep.UseSize(min(int(ep.mtuMost), pmtu.BaseBytes))
	ep.Snd.Grant(hello.Credit)
	ln.Recovery.Join(&ep.Snd, time.Duration(hello.AckDelayUs)*time.Microsecond, ep.ID.Selective)
}

// settleLink is called when the handshake is over. Over an unreliable fabric, settleLink begins the
// search for the path MTU. Over a reliable fabric, settleLink repeats the first ACK if the peer has
// confirmed the handshake, because the peer has possibly dropped an ACK that arrived before the
// peer's handshake was over.
func (ln Links) settleLink(ep *Endpoint, confirmed bool) {
	switch {
	case !ep.ID.Counted:
		ln.Timers.Paths.Begin(ep, int(ep.mtuMost))
	case confirmed:
		ep.Rcv.AskAck(ln.Clock.Now, 0)
		ln.Acks.Owe(&ep.Rcv, ln.Clock.Now)
		ln.Timers.Watches.AskMissed(ep)
	}
}

// seal makes a packet ready to be posted to the fabric. seal sets the packet number and the ACK
// fields, writes the header, and starts the retransmission timer. seal returns the datagram's
// length in bytes.
func (ln Links) seal(p *packet) int {
	if p.ep.ID.Counted {
		return ln.sealCounted(p)
	}
	return ln.sealSequenced(p)
}

// sealRun does for several adjacent chunks what seal does for one packet, except that the caller
// writes the headers after the call. Over a reliable fabric, sealRun does nothing, because each
// chunk is sealed separately.
func (ln Links) sealRun(r *chunkRun, run []reliability.Token) {
	if !r.ep.ID.Counted {
		ln.sealRunSequenced(r, run)
	}
}

func (ep *Endpoint) bulkPath() (*port.Channel, fabric.Addr) {
	if ep.ID.Counted {
		return &ep.All.Port.Command, ep.cmdAddr
	}
	return &ep.All.Port.Data, ep.dataAddr
}

// AckPath returns the channel for ACKs and Nacks, and the peer's address on this channel. Over a
// reliable fabric, AckPath returns the data channel, because all data packets use the command
// channel.
func (ep *Endpoint) AckPath() (*port.Channel, fabric.Addr) {
	if ep.ID.Counted {
		return &ep.All.Port.Data, ep.dataAddr
	}
	return &ep.All.Port.Command, ep.cmdAddr
}

// awaitEnd makes fragment f, and the fragments linked to f by the field "next", wait for the ACK of
// the endpoint's latest sealed packet.
func (ep *Endpoint) awaitEnd(f *Fragment) {
	if ep.ID.Counted {
		ep.Counts.await(f, false)
	}
}

// awaitEndOfPack works like awaitEnd for the fragments in a Pack, a packet with several small
// messages.
func (ep *Endpoint) awaitEndOfPack(f *Fragment, records int) {
	if ep.ID.Counted {
		for told := f; told != nil; told = told.next {
			records--
		}
		ep.Counts.await(f, records > 0)
	}
}

// recordAdded is called after a fragment was added to the endpoint's open Pack (a packet of several
// fragments). Over a reliable fabric, recordAdded posts the Pack if it holds enough fragments.
func (pk Packs) recordAdded(ep *Endpoint) {
	if ep.ID.Counted {
		pk.postEarly(ep)
	}
}

// The method "busy" reports whether the endpoint has packets in flight, whose send buffers become
// free even if the endpoint sends nothing more.
func (ep *Endpoint) busy() bool {
	if ep.ID.Counted {
		return ep.Counts.Held > 0
	}
	return ep.Snd.InFlight() > 0
}

// idle reports whether fragment f has no packet in flight whose send buffer will become free. Over
// a reliable fabric, idle reports whether neither the fragment nor its endpoint has a packet in
// flight.
func (ep *Endpoint) idle(f *Fragment) bool { return f.out == 0 && (!ep.ID.Counted || !ep.busy()) }

// mayClose reports whether a Bye may be sent. A Bye must wait until the answers to all memory
// operations have arrived. Over a reliable fabric, a Bye must also wait until all fragments before
// the Bye are acknowledged, because a fragment that the peer refuses is sent again.
func (ep *Endpoint) mayClose() bool {
	return (!ep.ID.Counted || ep.Counts.confirm.first == nil) && ep.Remote.Waiting() == 0
}

// Over a reliable fabric, the method "owed" reports whether this side waits for an ACK or for
// credits.
func (ep *Endpoint) owed() bool {
	return ep.ID.Counted && (ep.Snd.InFlight() > 0 || !ep.Snd.Open())
}

// The method "pausing" reports whether, over a reliable fabric, the endpoint pauses before its next
// large fragment (chunk_backoff.go).
func (ep *Endpoint) pausing() bool { return ep.ID.Counted && ep.Counts.pause.Waits() }

func (c *Checker) checkLink(all *Services, ep *Endpoint) error {
	if ep.ID.Counted {
		return c.checkCounted(ep)
	}
	return c.checkWindow(all, ep)
}

func (c *Checker) checkWindow(all *Services, ep *Endpoint) error {
	oldest, next := ep.Snd.Window()
	count, early, bytes := ep.Snd.InFlight(), 0, 0
	c.window += count
	if count < 0 || count > min(ep.Snd.Size(), all.Rules.WindowPackets) {
		return fmt.Errorf("window [%d, %d) of at most %d", oldest, next, ep.Snd.Size())
	}
	if count > 0 && ep.ID.State != StateConnected {
		return fmt.Errorf("%d packets in flight in state %d", count, ep.ID.State)
	}
	for n := oldest; n != next; n++ {
		t, ok := ep.Snd.Token(n)
		if !ok && ep.ID.Selective {
			early++
			continue
		}
		if !ok || int(t) >= len(all.Buffers.segs) {
			return fmt.Errorf("number %d is no segment", n)
		}
		if err := c.checkInFlight(all, ep, t, n); err != nil {
			return fmt.Errorf("number %d, segment %d: %w", n, t, err)
		}
		bytes += int(all.Buffers.segs[t].bytes)
	}
	if bytes != ep.Snd.InFlightBytes() {
		return fmt.Errorf("%d bytes in flight, %d counted", bytes, ep.Snd.InFlightBytes())
	}
	c.held[ep.ID.Slot()] += count
	if int(next-oldest) != count+early {
		return fmt.Errorf("window [%d, %d) of %d packets, %d arrived early", oldest, next, count, early)
	}
	if ep.ID.Selective != ep.Rcv.Selective {
		return fmt.Errorf("ACKs are selective: %v, of the receiver: %v", ep.ID.Selective,
			ep.Rcv.Selective)
	}
	return ep.Snd.CheckRecovery()
}

func (c *Checker) checkInFlight(all *Services, ep *Endpoint, t reliability.Token, n seq.Num) error {
	s := &all.Buffers.segs[t]
	switch owner, got := all.Recovery.Owner(t); {
	case c.places[t] != placeNone:
		return fmt.Errorf("is %v too", c.places[t])
	case s.ep != ep:
		return fmt.Errorf("is not this endpoint's")
	case all.Port.State[fabric.Buf(t)]&port.Release != 0:
		return fmt.Errorf("is to be released")
	case all.Buffers.seqOf(t) != n:
		return fmt.Errorf("its packet has the number %d", all.Buffers.seqOf(t))
	case all.Recovery.State(t) != reliability.Posted && all.Recovery.State(t) != reliability.Resend:
		return fmt.Errorf("is %v", all.Recovery.State(t))
	case owner != ep.ID.Slot() || got != n:
		return fmt.Errorf("belongs to number %d of endpoint %d", got, owner)
	}
	c.places[t] = placeWindow
	return nil
}
