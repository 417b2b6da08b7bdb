package btl

import (
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/peer"
	"gobtl/fabric/mem"
)

// Each case leaves something under way on a module that is otherwise at rest.
func TestCheckIdleSeesWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name, want string
		leave      func(l *lab, m *Module, ep *Endpoint)
	}{
		{"nothing", "", func(*lab, *Module, *Endpoint) {}},
		{"broken", "check", func(_ *lab, m *Module, _ *Endpoint) { m.all.Peers.AddHalfOpen("nowhere") }},
		{"idle buffer kept", "", func(l *lab, m *Module, ep *Endpoint) {
			send(l.tb, l.accepted(1), 4000)
			l.settle(time.Second)
			l.wantIdle(0)
		}},
		{"fragment lent", "with the caller", func(l *lab, _ *Module, ep *Endpoint) {
			if _, err := ep.Prepare(3, make([]byte, 10)); err != nil {
				l.tb.Fatal(err)
			}
		}},
		{"buffer lent", "send buffers", func(l *lab, _ *Module, ep *Endpoint) {
			if _, err := ep.Alloc(3, 10); err != nil {
				l.tb.Fatal(err)
			}
		}},
		{"in flight", "in flight", func(l *lab, _ *Module, ep *Endpoint) { send(l.tb, ep, 10) }},
		{"queued", "queued", func(l *lab, _ *Module, ep *Endpoint) { send(l.tb, ep, 5000) }},
		{"close", "close is under way", func(_ *lab, _ *Module, ep *Endpoint) { ep.Close(ep.Now()) }},
		{"connect", "handshake", func(l *lab, m *Module, _ *Endpoint) {
			if _, err := m.Connect(l.now, m.Name()); err != nil {
				l.tb.Fatal(err)
			}
		}},
		{"superseded", "replaced", func(_ *lab, m *Module, ep *Endpoint) {
			m.all.Timers.Watches.Supersede(&ep.c)
		}},
		{"flush", "Flush", func(_ *lab, m *Module, ep *Endpoint) {
			_, next := ep.c.Snd.Window()
			f := new(Fragment)
			ep.c.FlushQueue().Add(func(error) {}, flush.Tails[*peer.Fragment]{&f.c}, next, false)
			ep.c.Flushes.Sent(&f.c, 0, next+1)
		}},
		{"gap", "gap", func(_ *lab, m *Module, ep *Endpoint) {
			ep.c.Rcv.Accept(m.all.Clock.Now, ep.c.Rcv.Next()+1, &m.all.Rules)
			ep.c.Rcv.TakeAck(m.all.Credits)
		}},
		{"ACK owed", "ACKs owed", func(_ *lab, m *Module, ep *Endpoint) {
			ep.c.Rcv.AskAck(m.all.Clock.Now, 0)
			m.all.Acks.Owe(&ep.c.Rcv, m.all.Clock.Now)
		}},
		{"event", "events", func(_ *lab, m *Module, ep *Endpoint) {
			m.all.Outbox.Note(&ep.c, peer.EventConnected, nil)
		}},
		{"address", "to be removed", func(l *lab, m *Module, ep *Endpoint) {
			if _, err := m.all.Port.Insert([]byte(ep.c.ID.Addr)); err != nil {
				l.tb.Fatal(err)
			}
			m.all.Port.Leave(ep.c.CmdAddr, m.all.Clock.Now.Add(time.Hour))
		}},
		{"control buffer", "control buffers", func(_ *lab, m *Module, ep *Endpoint) {
			b, _ := m.all.Buffers.TakeControl(&m.all.Port.Command, 0)
			m.all.Port.Command.Put(b, 24, ep.c.CmdAddr)
		}},
		{"receive buffer", "receive buffers not posted", func(_ *lab, m *Module, _ *Endpoint) {
			m.all.Port.Command.Received(1)
			m.all.Port.Command.Return(m.all.Port.FirstReceive())
		}},
		{"guest without peers", "", func(l *lab, m *Module, ep *Endpoint) {
			ep.Abort()
			l.step(time.Millisecond)
			if _, err := m.all.Port.InsertForAnswer(m.all.Clock.Now, []byte(ep.c.ID.Addr)); err != nil {
				l.tb.Fatal(err)
			}
		}},
		{"buffer of a peer gone", "refers to one", func(l *lab, m *Module, ep *Endpoint) {
			ep.Abort()
			l.step(time.Millisecond)
			m.all.Buffers.Segs[0].Bytes = 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, regressConfig())
			ep, _ := l.pair()
			for _, m := range l.mods {
				mustHandle(t, m, func() {})
			}
			l.settle(time.Second)
			l.wantIdle(0)
			c.leave(l, l.mods[0], ep)
			l.mods[0].all.Rest.Set(0) // as behind any call of the owner's
			err := l.mods[0].CheckIdle()
			if c.want == "" && err != nil ||
				c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("CheckIdle says %v, and not %q", err, c.want)
			}
			l.mods[0].closed = true // nothing else may be done with it
		})
	}
}

// A module that was closed is idle too.
func TestCheckIdleAfterClose(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, regressConfig())
	ep, _ := l.pair()
	send(t, ep, 4000)
	if err := l.mods[0].Close(); err != nil {
		t.Fatal(err)
	}
	l.wantIdle(0)
}
