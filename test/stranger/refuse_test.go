//go:build cgo

package stranger

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"gobtl/btl"
)

// someFaults are the networks on which the tests run that stand or fall with a single packet.
func someFaults() map[string]Faults {
	return map[string]Faults{
		"clean": {},
		"faulty": {
			Seed: 3, Loss: 0.05, Dup: 0.1, Delay: 0.1, DelayMax: 2 * time.Millisecond,
		},
	}
}

func expose(t *testing.T, m *module, mem []byte) (handle uint64) {
	t.Helper()
	must(t, m.Do(within(t), func(mod *btl.Module) error {
		r, err := mod.Expose(mem, btl.RemoteWrite)
		if err == nil {
			handle = uint64(r.Handle())
		}
		return err
	}))
	return handle
}

// flows checks that the connection still carries messages, small and large, both ways.
func flows(t *testing.T, pr *pair) {
	t.Helper()
	for _, n := range []int{10, 20000} {
		must(t, pr.c.Send(tagCheck, pattern(n)))
		must(t, pr.m.Send(within(t), pr.ep, tagCheck, pattern(n)))
		a, b := receive(t, pr.m.got, "a message"), receive(t, pr.msgs, "a message")
		if !bytes.Equal(a, pattern(n)) || !bytes.Equal(b, pattern(n)) {
			t.Errorf("sent %d bytes, got %d and %d", n, len(a), len(b))
		}
	}
}

// TestPut writes into the other side's memory, both ways: these bytes and no others change.
func TestPut(t *testing.T) {
	t.Parallel()
	puts := []struct{ at, n int }{
		{0, 0},
		{0, 1},
		{7, 300},
		{1000, 1431},
		{3000, 1432},
		{5000, 1433},
		{8000, 1472},
		{10001, 150000},
		{200000 - 1, 1},
		{200000, 0},
	}
	for name, faults := range someFaults() {
		t.Run(name, func(t *testing.T) {
			pr := connect(t, btl.Config{}, Config{Faults: faults}, false)
			theirs, mine, want := make([]byte, 200000), make([]byte, 200000), make([]byte, 200000)
			handle, myHandle := expose(t, pr.m, theirs), pr.p.Expose(mine)
			for _, put := range puts {
				copy(want[put.at:], pattern(put.n))
				if err := pr.c.Put(pattern(put.n), handle, uint64(put.at)); err != nil {
					t.Errorf("%d bytes at %d: %v", put.n, put.at, err)
				}
				err := pr.m.Put(within(t), pr.ep, pattern(put.n), btl.Handle(myHandle), uint64(put.at))
				if err != nil {
					t.Errorf("module, %d bytes at %d: %v", put.n, put.at, err)
				}
			}
			var same, mineSame bool
			must(t, pr.m.Do(within(t), func(*btl.Module) error {
				same = bytes.Equal(theirs, want)
				return nil
			}))
			pr.p.do(func() { mineSame = bytes.Equal(mine, want) })
			if !same || !mineSame {
				t.Errorf("memory of the module as it should be: %v, of the stranger: %v", same, mineSame)
			}
			flows(t, pr)
		})
	}
}

// TestRefused has every reason for a Nack, both ways: a Void fills the gap, the stream goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, faults := range someFaults() {
		t.Run(name, func(t *testing.T) {
			accept := func(tag uint8) bool { return tag != tagUnknown }
			pr := connect(t, btl.Config{}, Config{Faults: faults, Accept: accept}, true)
			theirs, mine := make([]byte, 5000), make([]byte, 5000)
			handle, myHandle := expose(t, pr.m, theirs), pr.p.Expose(mine)
			for _, put := range []struct {
				handle, at uint64
				n          int
			}{
				{1, 0, 1},
				{1, 0, 100000},
				{0, 5001, 0},
				{0, 5000, 1},
				{0, 4999, 2},
				{0, 1, 5000},
				{0, math.MaxUint64 - 10, 10},
				{0, 10, 100000},
			} {
				if err := pr.c.Put(pattern(put.n), handle^put.handle, put.at); !errors.Is(err, ErrRefused) {
					t.Errorf("%d bytes at %d: %v", put.n, put.at, err)
				}
				h := btl.Handle(myHandle ^ put.handle)
				err := pr.m.Put(within(t), pr.ep, pattern(put.n), h, put.at)
				if !errors.Is(err, btl.ErrRemoteAccess) {
					t.Errorf("module, %d bytes at %d: %v", put.n, put.at, err)
				}
			}
			for _, n := range []int{0, 100, 1000, 100000} {
				if err := pr.c.Send(tagUnknown, pattern(n)); !errors.Is(err, ErrRefused) {
					t.Errorf("%d bytes without a handler: %v", n, err)
				}
				err := pr.m.Send(within(t), pr.ep, tagUnknown, pattern(n))
				if !errors.Is(err, btl.ErrNoHandler) {
					t.Errorf("module, %d bytes without a handler: %v", n, err)
				}
			}
			if pr.p.Count("void") == 0 {
				t.Error("the module sent no Void")
			}
			flows(t, pr)
		})
	}
}

// TestCloseBy lets each side close, and both at once: what was sent before arrives, both ends end.
func TestCloseBy(t *testing.T) {
	t.Parallel()
	for name, faults := range someFaults() {
		for who, sides := range map[string][2]bool{
			"stranger": {true, false}, "module": {false, true}, "both": {true, true},
		} {
			t.Run(name+", "+who, func(t *testing.T) {
				pr := connect(t, btl.Config{}, Config{Faults: faults}, false)
				var ends []<-chan error
				if sides[0] {
					ends = append(ends, pr.c.Start(tagCheck, pattern(50000)))
				}
				if sides[1] {
					must(t, pr.m.Send(within(t), pr.ep, tagCheck, pattern(50000)))
					must(t, pr.m.Do(within(t), func(*btl.Module) error { pr.ep.Close(pr.ep.Now()); return nil }))
				}
				if sides[0] {
					if err := pr.c.Close(); err != nil && !errors.Is(err, ErrPeerClosed) {
						t.Error(err)
					}
				}
				if sides != [2]bool{true, true} {
					for _, end := range ends {
						must(t, receive(t, end, "the end of a message"))
						receive(t, pr.m.got, "the message before the Bye")
					}
				}
				receive(t, pr.c.Down(), "the stranger's end")
				ev := receive(t, pr.m.events, "the module's end")
				want := "<nil>"
				if !sides[1] {
					want = btl.ErrPeerClosed.Error()
				}
				if ev != want && (who != "both" || ev != btl.ErrPeerClosed.Error()) {
					t.Errorf("the module's event: %s, not %s", ev, want)
				}
				if !sides[0] && !errors.Is(pr.c.Err(), ErrPeerClosed) {
					t.Errorf("the stranger's end: %v", pr.c.Err())
				}
				again(t, pr)
			})
		}
	}
}

// again connects the same two once more, after the end of their first connection.
func again(t *testing.T, pr *pair) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(pr.m.got) > 0 {
		<-pr.m.got
	}
	for len(pr.msgs) > 0 {
		<-pr.msgs
	}
	c, err := pr.p.Dial(pr.m.name)
	must(t, err)
	must(t, c.Wait())
	must(t, c.Send(tagCheck, pattern(100)))
	if b := receive(t, pr.m.got, "a message of the second connection"); len(b) != 100 {
		t.Errorf("%d bytes", len(b))
	}
	ep := receive(t, pr.m.eps, "the second endpoint")
	must(t, pr.m.Send(ctx, ep, tagCheck, pattern(200)))
	if b := receive(t, pr.msgs, "the answer"); len(b) != 200 {
		t.Errorf("%d bytes back", len(b))
	}
}
