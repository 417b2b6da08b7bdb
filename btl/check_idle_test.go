package btl

import (
	"strings"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Each case leaves something under way on a module that is otherwise at rest.
func TestCheckIdleSeesWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name, want string
		leave      func(l *lab, m *Module, ep *Endpoint)
	}{
		{"nothing", "", func(*lab, *Module, *Endpoint) {}},
		{"idle buffer kept", "", func(l *lab, m *Module, ep *Endpoint) {
			send(l.tb, l.accepted(1), 4000)
			l.settle(time.Second)
			l.wantIdle(0)
		}},
		{"fragment lent", "holds 1 descriptors", func(l *lab, _ *Module, ep *Endpoint) {
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
