package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// A superseded endpoint that is not answered ends as closed if the peer has answered on its new
// connection meanwhile, unasked or asked, and as dead if it has only sent there, as one does that
// computes and receives nothing.
func TestWhySuperseded(t *testing.T) {
	for _, test := range []struct {
		name            string
		receives, sends bool // what the peer does after it has connected anew
		want            error
	}{
		{"closed", true, true, ErrPeerClosed},
		{"idle", true, false, ErrPeerClosed},
		{"computes", false, true, ErrPeerDead},
		{"stands", false, false, ErrPeerDead},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, regressConfig())
			mustHandle(t, l.mods[0], func() {})
			old, anew := l.superseded(t)
			now := endpointOf(l.mods[0].all.Peers.ByAddr(old.c.ID.Addr))
			begin := l.mods[0].all.Clock.Unpaused.Add(-now.c.Life.Quiet(l.mods[0].all.Clock.Unpaused))
			l.mods[1].all.Timers.Watches.Rules.PeerTimeout = time.Minute // it does not give up before
			drop := mem.Drop
			if test.receives {
				drop = mem.Deliver
			}
			l.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
				p := &l.mods[1].all.Port
				if string(from) != string(p.Command.Name) && string(from) != string(p.Data.Name) {
					return drop
				}
				return mem.Deliver
			})
			for range 100 {
				if test.sends && old.Err() == nil {
					if err := anew.SendImmediate(l.now, 1, nil); err != nil && !errors.Is(err, ErrAgain) {
						t.Fatal(err)
					}
				}
				l.step(100 * time.Millisecond)
			}
			if (test.sends || test.receives) != now.c.Life.HeardAfter(begin) {
				t.Errorf("not as it should be: heard after %v: %v", begin, now.c.Life.HeardAfter(begin))
			}
			if !errors.Is(old.Err(), test.want) {
				t.Errorf("ended with %v, want %v", old.Err(), test.want)
			}
		})
	}
}

// Questions in vain before an endpoint is superseded count, if they were for the same: over a
// reliable fabric. Elsewhere what was asked before is another question.
func TestSupersededKeepsItsQuestions(t *testing.T) {
	for _, counted := range []bool{false, true} {
		l := newLab(t, mem.Config{}, 2, regressConfig())
		old, _ := l.pair()
		l.settle(time.Second)
		old.c.ID.Counted = counted
		old.c.Life.Asked(l.now)
		l.mods[0].all.Timers.Watches.Supersede(&old.c)
		if inVain := old.c.Life.Asked(l.now); inVain != counted {
			t.Errorf("counted %v: the question before counts: %v", counted, inVain)
		}
		old.c.ID.Counted = false
	}
}

// superseded returns an endpoint of the first module whose end at the second was aborted, of which
// it has heard nothing, and the second's end of a new connection, on which nothing is under way.
func (l *lab) superseded(t *testing.T) (old, anew *Endpoint) {
	t.Helper()
	old, end := l.pair()
	l.settle(time.Second)
	tag := tagOf(old)
	l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err != nil || h.Conn == tag {
			return mem.Drop
		}
		return mem.Deliver
	})
	end.Abort()
	anew, err := l.mods[1].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("connected anew", time.Microsecond, time.Second, func() bool {
		return anew.Connected() && old.c.Life.Superseded
	})
	l.settle(10 * time.Millisecond)
	return old, anew
}
