package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// A send that is held is polled, tells of its end once, and is the caller's until Free, whatever
// kind of send it is; and who pulls gets no completion of it.
func TestHeld(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		got := 0
		l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { got++ })
		region, err := l.mods[1].Expose(make([]byte, 8), RemoteAll)
		if err != nil {
			t.Fatal(err)
		}
		region.Bytes()[0] = 42
		a, _ := l.pair()
		m := l.mods[0]
		m.PullCompletions(pulled)
		told := 0
		prepare := map[string]func() (*Fragment, error){
			"small":  func() (*Fragment, error) { return a.Alloc(1, 10) },
			"large":  func() (*Fragment, error) { return a.Prepare(1, make([]byte, 50_000)) },
			"nobody": func() (*Fragment, error) { return a.Prepare(2, make([]byte, 50_000)) },
			"atomic": func() (*Fragment, error) {
				return a.PrepareAtomic(Atomic{
					Target: region.Handle(), Action: ActionRead, WidthBytes: 8,
				})
			},
		}
		for name, prepare := range prepare {
			f, err := prepare()
			if err != nil {
				t.Fatal(err)
			}
			f.Held = true
			f.OnDone = func(f *Fragment, _ error) {
				if told++; a.Free(f) == nil {
					t.Error("freed in OnDone")
				}
			}
			if st, err := a.Send(l.now, f); err != nil || st != Queued {
				t.Fatalf("%s: %v, %v", name, st, err)
			}
			if over, _ := f.Poll(); over {
				t.Errorf("%s is over at once", name)
			}
			var over bool
			l.until(name, 50*time.Microsecond, time.Second, func() bool {
				over, err = f.Poll()
				return over
			})
			if want := name == "nobody"; errors.Is(err, ErrNoHandler) != want || (err != nil) != want {
				t.Errorf("%s: %v", name, err)
			}
			if name == "atomic" && f.Value() != 42 {
				t.Errorf("the old value is %d", f.Value())
			}
			if _, err := a.Send(l.now, f); !errors.Is(err, ErrState) {
				t.Errorf("%s is sent again: %v", name, err)
			}
			if err := errors.Join(a.Free(f)); err != nil {
				t.Error(err)
			}
			if err := a.Free(f); !errors.Is(err, ErrState) {
				t.Errorf("%s is freed twice: %v", name, err)
			}
		}
		if want := 4; !pulled && told != want || pulled && told != 0 || got != 2 {
			t.Errorf("pulled %v: told of %d ends, %d messages", pulled, told, got)
		}
		var c [8]Completion
		for _, c := range c[:m.Pull(c[:])] {
			if c.Kind == CompletionSend {
				t.Errorf("a completion of a send that is held: %+v", c)
			}
		}
		l.settle(time.Second)
		l.wantIdle(0)
	}
}

// Of what waits to be sent anything may be taken back: that ends with ErrCanceled and is never
// seen, what waited for it does not wait, and the rest comes.
func TestCancel(t *testing.T) {
	rng := newRand(testenv.Seed(t, 3))
	for range 40 {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		seen := map[byte]int{}
		l.mods[1].Handle(1, func(_ *Endpoint, _ Tag, data []byte) { seen[data[0]]++ })
		region, err := l.mods[1].Expose(make([]byte, 64), RemoteAll)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		const count = 12
		var frags [count]*Fragment
		var ends [count]error
		var canceled [count]bool
		ended, flushed := 0, 0
		for i := range frags {
			var f *Fragment
			switch rng.IntN(5) {
			case 0:
				f, err = ep.Alloc(1, 10)
			case 1:
				f, err = ep.Prepare(1, make([]byte, 10_000))
			case 2:
				f, err = ep.PrepareGet(make([]byte, 8), region.Handle(), 0)
			case 3:
				f, err = ep.PreparePutNotice(make([]byte, 8), region.Handle(), 8, 1, []byte{byte(i)})
			default:
				f, err = ep.PrepareAtomic(Atomic{
					Target: region.Handle(), Action: ActionAdd, WidthBytes: 8, Offset: 16, Operand: 1,
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			if b := f.Bytes(); f.op == nil {
				b[0] = byte(i)
			}
			frags[i], f.Context = f, uint64(i)
			f.OnDone = func(f *Fragment, err error) { ended, ends[f.Context] = ended+1, err }
			if _, err := ep.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(4) == 0 {
				ep.Fence(l.now)
			}
			if rng.IntN(4) == 0 {
				flushed--
				ep.Flush(l.now, func(error) { flushed++ })
			}
		}
		for _, i := range rng.Perm(count)[:rng.IntN(count+1)] {
			if err := ep.Cancel(l.now, frags[i]); err != nil {
				t.Fatalf("fragment %d: %v", i, err)
			}
			if err := ep.Cancel(l.now, frags[i]); !errors.Is(err, ErrState) {
				t.Fatalf("fragment %d a second time: %v", i, err)
			}
			canceled[i] = true
			if rng.IntN(3) == 0 {
				l.step(time.Microsecond)
				break // now all may be on their way
			}
		}
		l.until("all ended", 20*time.Microsecond, 10*time.Second, func() bool {
			return ended == count && flushed == 0
		})
		for i, err := range ends {
			if canceled[i] != errors.Is(err, ErrCanceled) || !canceled[i] && err != nil ||
				canceled[i] && seen[byte(i)] > 0 || seen[byte(i)] > 1 {
				t.Errorf("fragment %d: canceled %v, ended with %v, seen %d times", i, canceled[i], err,
					seen[byte(i)])
			}
		}
		l.settle(time.Second)
		l.wantIdle(0)
		l.wantIdle(1)
	}
}

// What has left cannot be taken back.
func TestCancelTooLate(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	for _, size := range []int{10, 200_000} {
		f, err := a.Prepare(1, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Cancel(l.now, f); !errors.Is(err, ErrState) {
			t.Errorf("%d bytes before they were sent: %v", size, err)
		}
		f.Held = true
		if _, err := a.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
		l.step(time.Microsecond)
		if err := a.Cancel(l.now, f); !errors.Is(err, ErrState) {
			t.Errorf("%d bytes on their way: %v", size, err)
		}
		l.until("over", 20*time.Microsecond, time.Second, func() bool {
			over, _ := f.Poll()
			return over
		})
		if err := errors.Join(a.Free(f)); err != nil {
			t.Error(err)
		}
	}
}

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
			if len(m.outbox.wanting) > 0 && m.hasRoom(a) && m.Deadline() > m.now {
				t.Error("there is room, and no pass is due")
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
		if len(m.outbox.wanting) > 0 {
			t.Error("somebody still waits for room")
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
	if !errors.Is(err, ErrAgain) || len(l.mods[0].outbox.wanting) > 0 {
		t.Errorf("%v, %d wait", err, len(l.mods[0].outbox.wanting))
	}
}

// A Flush that waits for nothing but what is taken back is over.
func TestCancelFlush(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	a, _ := l.pair()
	l.settle(time.Second)
	f, err := a.Prepare(1, make([]byte, 50_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(l.now, f); err != nil {
		t.Fatal(err)
	}
	flushed := 0
	a.Flush(l.now, func(err error) {
		if flushed++; err != nil {
			t.Error(err)
		}
	})
	if err := a.Cancel(l.now, f); err != nil {
		t.Fatal(err)
	}
	if l.step(time.Microsecond); flushed != 1 {
		t.Errorf("flushed %d times", flushed)
	}
}
