package receive

import (
	"fmt"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/reliability"
)

// The code below handles path MTU probes and slices of packets. A Ping is a probe, a Pong is the
// reply to a Ping, and a Part is a slice of a packet that exceeds the present path MTU. Pings,
// Pongs and Parts are sent by the code in write_path.go. Connections over a reliable fabric use no
// Pings and Parts, because a reliable fabric delivers packets of every size that both devices
// accept.

// Asides handles path MTU probes, their replies, and slices of packets.
type Asides struct {
	*Receiver
	pool  *frag.PartPool
	whole []byte // scratch of onPart
}

// isAside reports whether a packet is of a kind that receive handles, which carry no ACK.
var isAside = [16]bool{frag.KindPart: true, frag.KindPing: true, frag.KindPong: true}

// receive handles a received Ping, Pong or Part.
func (as *Asides) receive(c *port.Channel, in *arrival) {
	ep := in.ep
	if ep.ID.State() != peer.StateConnected {
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

// onPing replies to a Ping with a Pong on the same channel. The Ping is dropped if the peer sends
// too many of them, or if there is no buffer for the Pong.
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

// onPong handles the reply to a Ping, which was either a round-trip measurement or a path MTU
// probe. A Pong without a matching Ping is dropped.
func (as *Asides) onPong(in *arrival) {
	ep := in.ep
	nonce := frag.NonceOf(in.payload)
	if least, ok := ep.Path.Measured(as.Clock.Now, nonce); ok {
		if least > 0 {
			ep.Rcv.RoundTrip(least)
		}
	} else if ep.ID.Counted || !as.Timers.Paths.Pong(ep, nonce) {
		as.drop(stats.CntDropPing)
		return
	}
	ep.Life.Heard(as.Clock.Unpaused, int(as.via))
	as.Count[stats.CntRecvPong]++
}

// partRefused drops a Part for lack of memory, and schedules an ACK to the peer. The peer
// retransmits the packet later.
func (as *Asides) partRefused(in *arrival) {
	as.drop(stats.CntDropReassembly)
	as.Acks.Owe(&in.ep.Rcv, as.Clock.Now) // shows the peer that this side is alive
	in.ep.Rcv.AskAck(as.Clock.Now, 0)
}

// onPart adds a received Part to its packet.
func (as *Asides) onPart(in *arrival) {
	ep := in.ep
	if ep.ID.Counted {
		as.drop(stats.CntDropState)
		return
	}
	ep.Life.Heard(as.Clock.Unpaused, int(as.via))
	if place := ep.Rcv.Check(in.Seq); place != reliability.Accept {
		as.noNews(ep, place)
		return
	}
	whole, err := ep.PartsIn(as.pool).Add(&in.Header, in.payload, in.Seq == ep.Rcv.Next(),
		as.whole[:0])
	switch {
	case err != nil:
		as.partRefused(in)
	case whole == nil:
		as.Count[stats.CntRecvPart]++
	default:
		as.whole = whole
		as.receiveWhole(in, whole)
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
		if ep.ID.State() != peer.StateConnected || ep.ID.Counted || !ep.Path.Begun() {
			if ep.Path.Searching() || n > 0 {
				return fmt.Errorf("endpoint %d in state %d searches its path", ep.ID.Slot, ep.ID.State())
			}
			continue
		}
		if err := as.Timers.Paths.Check(ep, ep.MTU); err != nil || ep.Tiny > ep.MTU {
			return fmt.Errorf("endpoint %d: tiny packets of %d, others of %d bytes: %w", ep.ID.Slot,
				ep.Tiny, ep.MTU, err)
		}
	}
	if kept != as.pool.Bytes() {
		return fmt.Errorf("%d bytes in Parts, %d counted", kept, as.pool.Bytes())
	}
	return nil
}

// partsBytesMax is the maximum memory, in bytes for all peers, for incomplete packets that arrive
// in Parts.
const partsBytesMax = 8 << 20
