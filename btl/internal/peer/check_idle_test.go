package peer

import (
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/flush"
	"gobtl/frag"
)

// Each case leaves something under way at a station that is otherwise at rest.
func TestCheckIdleSeesWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name, want string
		leave      func(r *rig, st *station, ep *Endpoint)
	}{
		{"nothing", "", func(*rig, *station, *Endpoint) {}},
		{"broken", "half open", func(_ *rig, st *station, _ *Endpoint) {
			st.Peers.HalfOpen++
		}},
		{"superseded", "replaced", func(r *rig, st *station, ep *Endpoint) {
			st.Timers.Watches.Supersede(ep)
		}},
		{"flush", "Flush", func(r *rig, st *station, ep *Endpoint) {
			_, next := ep.Snd.Window()
			f := new(Fragment)
			ep.flushQueue().Add(func(error) {}, flush.Tails[*Fragment]{f}, next, false)
			ep.Flushes.Sent(f, 0, next+1)
		}},
		{"gap", "gap", func(r *rig, st *station, ep *Endpoint) {
			ep.Rcv.Accept(st.Clock.Now, ep.Rcv.Next()+1, &st.Rules)
			ep.Rcv.TakeAck(st.Credits)
		}},
		{"ACK owed", "ACKs owed", func(r *rig, st *station, ep *Endpoint) {
			ep.Rcv.AskAck(st.Clock.Now, 0)
			st.Acks.Owe(&ep.Rcv, st.Clock.Now)
		}},
		{"event", "events", func(r *rig, st *station, ep *Endpoint) {
			st.Outbox.note(ep, EventConnected, nil)
		}},
		{"address", "to be removed", func(r *rig, st *station, ep *Endpoint) {
			if _, err := st.Port.Insert([]byte(ep.ID.Addr)); err != nil {
				r.tb.Fatal(err)
			}
			st.Port.RemoveLater(ep.cmdAddr, st.Clock.Now.Add(time.Hour))
		}},
		{"control buffer", "control buffers", func(r *rig, st *station, ep *Endpoint) {
			b, _ := st.Buffers.TakeControl(&st.Port.Command, 0)
			st.Port.Command.Put(b, 24, ep.cmdAddr)
		}},
		{"receive buffer", "receive buffers not posted", func(r *rig, st *station, ep *Endpoint) {
			st.Port.Command.Received(1)
			st.Port.Command.Return(st.Port.FirstReceive())
		}},
		{"guest without peers", "", func(r *rig, st *station, ep *Endpoint) {
			st.Endings.Abort(ep)
			r.step(time.Millisecond)
			c := &st.Port.Command
			b, to, ok := st.Port.TakeForAnswer(st.Clock.Now, c, []byte(ep.ID.Addr))
			if !ok {
				r.tb.Fatal("no buffer for an answer")
			}
			n := frag.EncodeReject(st.Port.Arena.Bytes(b), 1, frag.Version,
				frag.Reject{Reason: frag.RejectFull, VersionMin: frag.Version, VersionMax: frag.Version})
			c.Put(b, n, to)
			r.step(time.Millisecond)
		}},
		{"buffer of a peer gone", "refers to one", func(r *rig, st *station, ep *Endpoint) {
			st.Endings.Abort(ep)
			r.step(time.Millisecond)
			st.Buffers.segs[0].bytes = 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2, nil)
			ep, st := r.connect(0, 1), r.stations[0]
			r.steps(30, 10*time.Millisecond)
			if err := st.CheckIdle(false); err != nil {
				t.Fatal(err)
			}
			c.leave(r, st, ep)
			err := st.check()
			if err == nil {
				err = st.CheckIdle(false)
			}
			if c.want == "" && err != nil ||
				c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("CheckIdle says %v, and not %q", err, c.want)
			}
		})
	}
}
