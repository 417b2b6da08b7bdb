package receive

import (
	"fmt"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// The code in this file handles path MTU probes and slices of packets. A Ping is a probe, a Pong is
// the reply to a Ping, and a Part is a slice of a packet that exceeds the present path MTU. Pings,
// Pongs and Parts are sent by the code in write_path.go. Connections over a reliable fabric use no
// Pings and no Parts (slices of packets), because a reliable fabric delivers packets of every size
// that both devices accept.

// Asides processes path MTU probes, replies to probes, and slices of packets.
type Asides struct {
	*Receiver
	pool  *frag.PartPool
	whole []byte // scratch of onPart
	// The field expireAt is the time at which the method "expire" must be called, or Never if no
	// packet is incomplete.
	expireAt mono.Time
}

// isAside is true for each kind of packet that the method Asides.receive handles. A Ping, Pong or
// Part carries no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receive handles a received Ping, Pong or Part.
func (as *Asides) receive(c *port.Channel, in *arrival) {
	ep := in.ep
	if ep.ID.State != peer.StateConnected {
		as.drop(stats.CntDropState)
		return
	}
	switch in.Kind {
	case frag.KindPing:
		as.onPing(c, in)
	case frag.KindPong:
		as.onPong(in)
	default:
		as.onPart(in)
	}
}

// onPing replies to a Ping with a Pong on the same channel. If the peer exceeds the limit on Pings
// (probe.Path.MayPong), or if no buffer is free for the Pong, onPing drops the Ping.
func (as *Asides) onPing(c *port.Channel, in *arrival) {
	ep := in.ep
	ep.Life.Heard(as.Clock.Unpaused, int(as.via))
	if !ep.Path.MayPong(as.Clock.Now) ||
		!as.Writer.SendPing(ep, frag.KindPong, c, frag.NonceOf(in.payload), frag.PongBytes) {
		as.drop(stats.CntDropPing)
		return
	}
	ep.Path.Ponged()
	as.Count[stats.CntRecvPing]++
}

// onPong processes the reply to a Ping. A Pong answers a Ping for a round-trip measurement, or a
// path MTU probe. A Pong that answers no Ping of this side is dropped.
func (as *Asides) onPong(in *arrival) {
	ep := in.ep
	nonce := frag.NonceOf(in.payload)
	if least, ok := ep.Path.Measured(as.Clock.Now, nonce); ok {
		if least > 0 {
			ep.Rcv.RoundTrip(least)
		}
	} else if !as.Timers.Paths.Pong(ep, nonce) {
		as.drop(stats.CntDropPing)
		return
	}
	ep.Life.Heard(as.Clock.Unpaused, int(as.via))
	as.Count[stats.CntRecvPong]++
}

// partRefused drops a Part (slice of a packet) for which there is no memory, and schedules an ACK
// to the peer. The peer will retransmit the packet of the dropped Part.
func (as *Asides) partRefused(in *arrival) {
	as.drop(stats.CntDropReassembly)
	as.Acks.Owe(&in.ep.Rcv, as.Clock.Now) // shows the peer that this side is alive
	in.ep.Rcv.AskAck(as.Clock.Now, 0)
}

// onPart adds a received Part (slice of a packet) to its packet.
func (as *Asides) onPart(in *arrival) {
	ep := in.ep
	if ep.ID.Counted {
		as.drop(stats.CntDropState)
		return
	}
	ep.Life.Heard(as.Clock.Unpaused, int(as.via))
	if place := ep.Rcv.Check(in.Seq); place != reliability.Accept {
		as.notAccepted(ep, place)
		return
	}
	if as.Arrivals.Full() { // the packet may contain many messages; the peer retransmits the Part
		as.partRefused(in)
		return
	}
	whole, err := ep.PartsIn(as.pool).Add(&in.Header, in.payload, in.Seq == ep.Rcv.Next(),
		int64(as.Clock.Now), as.whole[:0])
	switch {
	case err != nil:
		as.partRefused(in)
	case whole == nil:
		as.Count[stats.CntRecvPart]++
		as.expireAt = as.expireAt.Min(as.Clock.Now.Add(as.Config.PeerTimeout))
	default:
		as.whole = whole
		as.receiveWhole(in, whole)
	}
}

// expire discards each packet that is still incomplete although its first Part (slice) arrived more
// than PeerTimeout ago. Without the method "expire", a peer that never sends the missing Parts
// (slices) of a packet would occupy memory until its endpoint ends. As long as a packet is
// incomplete, the method "expire" is called again after the time PressAfter. All incomplete packets
// together have one deadline, because each call of the method "expire" scans all endpoints.
func (as *Asides) expire() {
	now := as.Clock.Now
	if now < as.expireAt {
		return
	}
	since := int64(now.Add(-as.Config.PeerTimeout))
	for _, ep := range as.Peers.All() {
		if ep != nil && ep.Parts != nil {
			ep.Parts.Expire(since)
		}
	}
	if as.expireAt = mono.Never; as.pool.Bytes() > 0 {
		as.expireAt = now.Add(as.Timers.Watches.Rules.PressAfter())
	}
}

func (as *Asides) check() error {
	kept := 0
	for _, ep := range as.Peers.All() {
		if ep == nil {
			continue
		}
		n := 0
		if ep.Parts != nil {
			var err error
			if n, err = ep.Parts.Check(); err != nil {
				return err
			}
		}
		kept += n
		if ep.ID.State != peer.StateConnected || ep.ID.Counted || !ep.Path.Begun() {
			if ep.Path.Searching() || n > 0 {
				return fmt.Errorf("endpoint %d in state %d searches its path", ep.ID.Slot(), ep.ID.State)
			}
			continue
		}
		if err := as.Timers.Paths.Check(ep, ep.MTU()); err != nil {
			return fmt.Errorf("endpoint %d: packets of %d bytes: %w", ep.ID.Slot(), ep.MTU(), err)
		}
	}
	if kept > 0 && as.expireAt == mono.Never {
		return fmt.Errorf("%d bytes in Parts have no time-out", kept)
	}
	if kept != as.pool.Bytes() {
		return fmt.Errorf("%d bytes in Parts, %d counted", kept, as.pool.Bytes())
	}
	return nil
}

// partsBytesMax is the maximum memory, in bytes, for all incomplete packets that arrive in Parts
// (slices), from all peers together.
const partsBytesMax = 8 << 20
