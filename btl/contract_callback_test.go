package btl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Rule 12: a callback may send, free, connect, close and withdraw; only Progress is refused. Every
// act is done in every callback, then both sides are driven on under Check.
func TestContract12Callbacks(t *testing.T) {
	acts := map[string]func(l *lab, m *Module, ep *Endpoint, r *Region){
		"send tiny":  func(l *lab, _ *Module, ep *Endpoint, _ *Region) { trySend(l, ep, 8) },
		"send large": func(l *lab, _ *Module, ep *Endpoint, _ *Region) { trySend(l, ep, 50_000) },
		"send immediate": func(l *lab, _ *Module, ep *Endpoint, _ *Region) {
			if err := ep.SendImmediate(l.now, 5, []byte("now")); err != nil && ep.Err() == nil &&
				!errors.Is(err, ErrAgain) && !errors.Is(err, ErrClosed) {
				l.tb.Error(err)
			}
		},
		"free": func(l *lab, _ *Module, ep *Endpoint, _ *Region) {
			if f, err := ep.Alloc(5, 100); err == nil {
				if err := ep.Free(f); err != nil {
					l.tb.Error(err)
				}
			}
		},
		"connect": func(l *lab, m *Module, _ *Endpoint, _ *Region) {
			if _, err := m.Connect(l.now, l.mods[2].Name()); err != nil && !errors.Is(err, ErrClosed) {
				l.tb.Error(err)
			}
		},
		"flush": func(l *lab, _ *Module, ep *Endpoint, _ *Region) {
			ep.Flush(l.now, func(error) { ep.Flush(l.now, func(error) {}) })
		},
		"close endpoint": func(l *lab, _ *Module, ep *Endpoint, _ *Region) { ep.Close(l.now) },
		"abort endpoint": func(_ *lab, _ *Module, ep *Endpoint, _ *Region) { ep.Abort() },
		"close module":   func(_ *lab, m *Module, _ *Endpoint, _ *Region) { m.Close() },
		"drain module":   func(l *lab, m *Module, _ *Endpoint, _ *Region) { m.Drain(l.now, l.now+1e6) },
		"close region":   func(_ *lab, _ *Module, _ *Endpoint, r *Region) { r.Close() },
		"remove handlers": func(_ *lab, m *Module, _ *Endpoint, _ *Region) {
			m.forgetHandlers()
		},
		"progress": func(l *lab, m *Module, _ *Endpoint, _ *Region) {
			if _, err := m.Progress(l.now); !errors.Is(err, ErrReentrant) {
				l.tb.Errorf("Progress from a callback: %v", err)
			}
		},
		"abort all": func(_ *lab, m *Module, _ *Endpoint, _ *Region) {
			for _, ep := range m.endpoints() {
				if ep != nil {
					ep.Abort()
				}
			}
		},
	}
	for name, act := range acts {
		for _, where := range []string{"tiny", "large", "done", "flush", "event"} {
			t.Run(fmt.Sprintf("%s in %s", name, where), func(t *testing.T) {
				testCallback(t, act, where)
			})
		}
	}
}

func trySend(l *lab, ep *Endpoint, size int) {
	f, err := ep.Alloc(5, size)
	if err == nil {
		_, err = ep.Send(l.now, f)
	}
	if err != nil && ep.Err() == nil && !errors.Is(err, ErrAgain) && !errors.Is(err, ErrClosed) {
		l.tb.Error(err)
	}
}

func testCallback(t *testing.T, act func(*lab, *Module, *Endpoint, *Region), where string) {
	cfg := smallConfig()
	cfg.PeerTimeout, cfg.CloseTimeout = 500*time.Millisecond, 50*time.Millisecond
	l := newLab(t, mem.Config{}, 3, cfg)
	var regions [2]*Region
	calls, depth := 0, 0
	do := func(i int, ep *Endpoint, at string) {
		if at != where {
			return
		}
		calls++
		if depth++; depth > 1 {
			t.Error("a callback was called inside another one")
		}
		act(l, l.mods[i], ep, regions[i])
		depth--
	}
	for i := range 2 {
		m := l.mods[i]
		r, err := m.Expose(make([]byte, 1000), RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		regions[i] = r
		m.Handle(1, func(ep *Endpoint, _ Tag, _ []byte) { do(i, ep, "tiny") })
		m.Handle(2, func(ep *Endpoint, _ Tag, _ []byte) { do(i, ep, "large") })
		m.Handle(5, func(*Endpoint, Tag, []byte) {})
		m.OnEndpoint(func(ep *Endpoint, ev Event, err error) {
			l.events[i] = append(l.events[i], happening{ep, ev, err})
			do(i, ep, "event")
		})
	}
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	ended, sent := 0, 0
	for range 10 {
		for i := range 4 {
			f, err := a.Alloc(Tag(1+i%2), 8+i%2*3000)
			if err != nil {
				continue
			}
			f.Signal = true
			f.OnDone = func(*Fragment, error) { ended++; do(0, a, "done") }
			if _, err := a.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		if a.Err() == nil {
			a.Flush(l.now, func(error) { do(0, a, "flush") })
		}
		for range 8 {
			l.step(20 * time.Microsecond)
		}
	}
	for range 300 {
		l.step(5 * time.Millisecond)
	}
	if calls == 0 {
		t.Error("the callback was never called")
	}
	if ended != sent {
		t.Errorf("%d sends ended, %d were accepted", ended, sent)
	}
	where = "" // or connections would be made for ever
	l.afterCallbacks(t)
}

// afterCallbacks checks what must hold whatever the callbacks did: one final event for every
// endpoint that was told of and has ended, and nothing left behind.
func (l *lab) afterCallbacks(t *testing.T) {
	t.Helper()
	for _, m := range l.mods {
		for _, ep := range m.endpoints() {
			if ep != nil && !m.closed {
				ep.Abort()
			}
		}
	}
	l.step(time.Microsecond)
	for range 20 {
		l.step(20 * time.Millisecond)
	}
	for i, m := range l.mods {
		finals := map[*Endpoint]int{}
		for _, h := range l.events[i] {
			if h.ev != EventConnected {
				finals[h.ep]++
			}
		}
		for _, h := range l.events[i] {
			if finals[h.ep] != 1 {
				t.Errorf("module %d: an endpoint had %d final events", i, finals[h.ep])
			}
		}
		if !m.closed {
			l.wantEmpty(i)
		}
		if s := m.Stats(); s.Unaccounted() != 0 {
			t.Errorf("module %d: %d packets unaccounted for in the published counters", i, s.Unaccounted())
		}
	}
}

// Rule 12 for the module's own Close: its callbacks run with all book-keeping done; what they try
// to begin is refused, and every send of theirs that was accepted ends.
func TestContract12CallbacksOfClose(t *testing.T) {
	l := newLab(t, mem.Config{}, 3, smallConfig())
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	m := l.mods[0]
	a, other := l.connect(0, 1), l.connect(0, 2)
	l.settle(time.Second)
	accepted, ended, again := 0, 0, 0
	send := func(ep *Endpoint) {
		f, err := ep.Prepare(1, make([]byte, 3000))
		if err == nil {
			f.OnDone = func(*Fragment, error) { ended++ }
			_, err = ep.Send(l.now, f)
		}
		if err == nil {
			accepted++
		}
	}
	m.OnEndpoint(func(_ *Endpoint, _ Event, err error) {
		again++
		if ep, err := m.Connect(l.now, l.mods[1].Name()); err == nil {
			send(ep)
		} else if !errors.Is(err, ErrClosed) {
			t.Errorf("Connect while closing: %v", err)
		}
		send(other)
		if _, err := m.Progress(l.now); !errors.Is(err, ErrReentrant) {
			t.Errorf("Progress while closing: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("Close while closing: %v", err)
		}
	})
	send(a)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if again != 2 || ended != accepted {
		t.Errorf("%d events, %d of %d sends ended", again, ended, accepted)
	}
	if _, err := m.Progress(l.now); !errors.Is(err, ErrClosed) {
		t.Errorf("Progress of a closed module: %v", err)
	}
	if _, err := m.Connect(l.now, l.mods[1].Name()); !errors.Is(err, ErrClosed) {
		t.Errorf("Connect of a closed module: %v", err)
	}
	if _, err := m.Expose(nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Expose of a closed module: %v", err)
	}
	if _, err := m.RegisterMemory(make([]byte, 8)); !errors.Is(err, ErrClosed) {
		t.Errorf("RegisterMemory of a closed module: %v", err)
	}
	if _, err := a.Alloc(1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc of a closed module: %v", err)
	}
	a.Close(l.now)
	a.Abort()
	if err := m.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// A module that is closed in the handler of a fast receive has booked that packet.
func TestContract12CloseInFastReceive(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	a, _ := l.pair()
	l.settle(time.Second)
	m := l.mods[1]
	m.Handle(1, func(*Endpoint, Tag, []byte) { m.Close() })
	sendOrFail(t, a, 1, make([]byte, 8))
	l.until("closed", time.Microsecond, time.Millisecond, func() bool { return m.closed })
	s := m.Stats()
	if s.Get(CntFastReceives) != 1 || s.Get(CntRecvFrag) != 1 || s.Unaccounted() != 0 {
		t.Errorf("fast %d, fragments %d, unaccounted %d", s.Get(CntFastReceives), s.Get(CntRecvFrag),
			s.Unaccounted())
	}
}
