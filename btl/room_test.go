package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Who is told that there is room sends everything without trying in vain but once each time, and
// gets on even if room is there only by what he is told of.
func TestOnRoom(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		cfg := smallConfig()
		cfg.FragmentsMax = 16
		l := newLab(t, mem.Config{}, 2, cfg)
		got := 0
		l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { got++ })
		a, _ := l.pair()
		const count = 400
		sent, refused, told, failed := 0, 0, 0, 0
		fill := func(*Endpoint) {
			for told++; sent < count; sent++ {
				var err error
				if sent%2 == 0 {
					err = a.SendImmediate(a.Now(), 1, make([]byte, 300))
				} else if f, e := a.Prepare(1, make([]byte, 3000)); e != nil {
					err = e
				} else {
					f.OnDone = func(_ *Fragment, err error) {
						if err != nil {
							failed++
						}
					}
					_, err = a.Send(a.Now(), f)
				}
				if errors.Is(err, ErrAgain) {
					refused++
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		m := l.mods[0]
		if m.PullCompletions(pulled); !pulled {
			m.OnRoom(fill)
		}
		fill(a)
		l.until("all came", 20*time.Microsecond, 10*time.Second, func() bool {
			var c [3]Completion
			for n := 3; pulled && n == 3; {
				n = m.Pull(c[:])
				for _, c := range c[:n] {
					if c.Kind == CompletionRoom && c.Endpoint == a {
						fill(a)
					}
				}
			}
			return got == count
		})
		if refused == 0 || told != refused+1 || failed > 0 {
			t.Errorf("pulled %v: refused %d times, told %d times, %d failed", pulled, refused, told-1,
				failed)
		}
		l.settle(time.Second)
		for c := make([]Completion, 3); m.Pull(c) == len(c); {
		}
		l.wantIdle(0)
	}
}

// Nobody is told of an endpoint that has ended.
func TestOnRoomEnded(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax = 16
	l := newLab(t, mem.Config{}, 2, cfg)
	a, _ := l.pair()
	l.mods[0].OnRoom(func(*Endpoint) { t.Error("told of room") })
	var err error
	for err == nil {
		_, err = a.Alloc(1, 10)
	}
	a.Abort()
	l.step(time.Microsecond)
	if !errors.Is(err, ErrAgain) {
		t.Error(err)
	}
	if err := l.mods[0].Check(); err != nil {
		t.Error(err)
	}
}
