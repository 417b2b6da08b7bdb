package peer

import (
	"fmt"

	"gobtl/btl/internal/port"
)

// CheckIdle returns an error if a service still has work or holds resources, and nil otherwise (see
// btl.Module.CheckIdle).
func (all *Services) CheckIdle(closed bool) error {
	if err := all.Pool.CheckIdle(); err != nil {
		return err
	}
	for slot, ep := range all.Peers.All() {
		if ep == nil {
			continue
		}
		if err := ep.checkIdle(); err != nil {
			return fmt.Errorf("endpoint %d in state %d: %w", slot, ep.ID.State, err)
		}
	}
	for _, v := range all.idleValues(closed) {
		if v.got != v.want {
			return fmt.Errorf("%d %s, not %d", v.got, v.what, v.want)
		}
	}
	if all.Peers.Len() > 0 || closed {
		return nil
	}
	for t := range all.Buffers.segs {
		if all.Buffers.segs[t] != (SendSegment{}) {
			return fmt.Errorf("without peers, send buffer %d refers to one", t)
		}
	}
	return nil
}

type idleValue struct {
	what      string
	got, want int
}

func (all *Services) idleValues(closed bool) []idleValue {
	values := []idleValue{
		{"packets in flight", all.Recovery.InFlight(), 0},
		{"endpoints ready", all.Sched.Waiting(), 0},
		{"ACKs owed", all.Acks.Len(), 0},
		{"fragments to be completed", all.Outbox.ended.count + all.Outbox.byes.count, 0},
		{"events to be told", all.Outbox.notices.Len(), 0},
		{"fragments with the caller", all.Frags.lent, 0},
		{"free descriptors", len(all.Frags.idle), all.Frags.count},
		{"regions of fragments", all.Frags.Payloads.Own(), 0},
		{"half-open endpoints", all.Peers.HalfOpen, 0},
		{"endpoints that wait for room", all.Outbox.wanting.Len(), 0},
		{"kept connection requests", all.Handshakes.Requests(), 0},
		{"reassembly bytes in use", int(all.Pool.ActiveBytes()), 0},
	}
	if closed {
		return values // a closed module has no fabric any more
	}
	values = append(values,
		idleValue{"free send buffers", len(all.Buffers.FreeSegs), all.Config.SendBuffers},
		idleValue{"free control buffers", len(all.Port.FreeCtl), port.ControlBuffers},
		idleValue{"sends posted", all.Port.Command.Posted + all.Port.Data.Posted, 0},
		idleValue{"sends in batches", len(all.Port.Command.Batch) + len(all.Port.Data.Batch), 0},
		idleValue{"addresses to be removed", len(all.Port.Leaving), 0},
		idleValue{
			"receive buffers not posted",
			len(all.Port.Command.Repost) + len(all.Port.Data.Repost), 0,
		},
	)
	if all.Peers.Len() == 0 {
		inserted, answers := all.Port.Inserted()
		byPeer, byAddr := all.Peers.Leads()
		values = append(values,
			idleValue{"connection tags without peers", byPeer, 0},
			idleValue{"addresses without peers", byAddr, 0},
			idleValue{"timers without peers", all.Timers.Watches.Len() + all.Timers.Paths.Len(), 0},
			idleValue{"credits granted without peers", all.Credits.Granted(), 0},
			idleValue{"addresses inserted without peers", inserted, answers},
		)
	}
	return values
}

func (ep *Endpoint) checkIdle() error {
	switch {
	case ep.ID.Handshake != nil:
		return fmt.Errorf("its handshake is under way")
	case ep.Closing && ep.ID.State == StateConnected:
		return fmt.Errorf("its close is under way")
	case ep.Life.Superseded && ep.ID.State == StateConnected:
		return fmt.Errorf("it waits for the end of a connection that the peer has replaced")
	case ep.Snd.InFlight() > 0 || ep.waiting():
		return fmt.Errorf("%d packets in flight, %d fragments queued, %d in a pack", ep.Snd.InFlight(),
			ep.small.queue.count+ep.large.queue.count, ep.pack.Records())
	case ep.ID.State == StateConnected && !ep.Snd.Open():
		return fmt.Errorf("it could send nothing: no credits")
	case ep.buffers != 0 || ep.ID.Host.Buffers != 0:
		return fmt.Errorf("it holds %d send buffers, its host %d", ep.buffers, ep.ID.Host.Buffers)
	case ep.descriptors != 0 || ep.ID.Host.Descriptors != 0:
		return fmt.Errorf("it holds %d descriptors of fragments, its host %d", ep.descriptors,
			ep.ID.Host.Descriptors)
	case ep.urgent.Len() != 0:
		return fmt.Errorf("%d of its urgent fragments have not ended", ep.urgent.Len())
	case ep.Rcv.Held() > 0 && ep.ID.State == StateConnected:
		return fmt.Errorf("%d packets wait behind a gap", ep.Rcv.Held())
	case ep.Asm.Active() > 0:
		return fmt.Errorf("%d fragments are not whole", ep.Asm.Active())
	case ep.Remote.Waiting() > 0 || ep.Remote.Owed() > 0:
		return fmt.Errorf("%d answers are awaited, %d owed", ep.Remote.Waiting(), ep.Remote.Owed())
	case ep.Flushes.Len() > 0:
		return fmt.Errorf("%d calls of Flush wait", ep.Flushes.Len())
	}
	return nil
}
