package stranger

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/btl"
)

var bg = context.Background()

// ask waits for the answer of an operation of the stranger's.
func (h *host) ask(t *testing.T, fn func() *waiter) (*waiter, error) {
	t.Helper()
	var w *waiter
	h.do(func() { w = fn() })
	return w, wait(t, &message{}, w.ch)
}

func random(dice *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(dice.Uint32())
	}
	return b
}

// TestAsker has the stranger use memory of the real side, with 5 % of all faults.
func TestAsker(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps, faults: 5, parts: 20})
	c := h.to(t, r)
	dice := h.draw()
	mem := make([]byte, 1<<20)
	g := r.expose(mem, btl.RemoteAll)
	handle := uint64(g.Handle())
	holds := func(at int, want []byte) {
		t.Helper()
		r.do(func(*btl.Module) error {
			if !bytes.Equal(mem[at:at+len(want)], want) {
				t.Errorf("%d bytes at %d are not there", len(want), at)
			}
			return nil
		})
	}
	for no, n := range []int{0, 1, 1000, 1353, 1400, 5000, 300000, 1<<20 - 10} {
		b := random(dice, n)
		check(t, h.say(t, func() *message { return c.putTo(handle, 10, b) }))
		holds(10, b)
		b = random(dice, n)
		says := string(random(dice, no*9))
		check(t, h.say(t, func() *message { return c.putNotice(handle, 3, b, tagKeep, says) }))
		eventually(t, "the notice", func() bool { return r.kept() == no+1 })
		holds(3, b)
		if r.times(says) != 1 {
			t.Errorf("the notice of %d bytes says something else", n)
		}
		w, err := h.ask(t, func() *waiter { return c.get(handle, 3, n) })
		if err != nil || !bytes.Equal(w.r.mem, b) {
			t.Errorf("get of %d bytes: %v", n, err)
		}
	}
	h.atomics(t, c, handle)
	h.refusals(t, r, c, g)
}

// atomics compares every action with what it is.
func (h *host) atomics(t *testing.T, c *conn, handle uint64) {
	t.Helper()
	dice := h.draw()
	for _, width := range []byte{4, 8} {
		mask := uint64(1)<<(width*4)<<(width*4) - 1
		now := dice.Uint64() & mask
		_, err := h.ask(t, func() *waiter { return c.atomic(handle, 24, now, 0, 2, width, 0) })
		check(t, err)
		for range 60 {
			action, operand, compare := byte(1+dice.IntN(9)), dice.Uint64()&mask, uint64(0)
			fetch := byte(dice.IntN(2))
			switch action {
			case 3:
				if compare = now; dice.IntN(2) == 0 {
					compare = ^now & mask
				}
			case 9:
				operand, fetch = 0, 1
			}
			w, err := h.ask(t, func() *waiter {
				return c.atomic(handle, 24, operand, compare, action, width, fetch)
			})
			check(t, err)
			if fetch == 1 && w.old != now {
				t.Errorf("action %d of %d bytes: the old value is %x, not %x", action, width, w.old, now)
			}
			now = change(action, now, operand, compare) & mask
		}
	}
}

// refusals are one operation for each reason to refuse it.
func (h *host) refusals(t *testing.T, r *module, c *conn, g *btl.Region) {
	t.Helper()
	all, size := uint64(g.Handle()), uint64(len(g.Bytes()))
	read := uint64(r.expose(make([]byte, 100), btl.RemoteRead).Handle())
	write := uint64(r.expose(make([]byte, 100), btl.RemoteWrite).Handle())
	big := make([]byte, 5000)
	for name, x := range map[string]struct {
		want byte
		put  func() *message
		op   func() *waiter
	}{
		"put, no region":     {1, func() *message { return c.putTo(all+1, 0, big[:3]) }, nil},
		"put, bounds":        {5, func() *message { return c.putTo(all, size-2, big[:3]) }, nil},
		"chunks, bounds":     {5, func() *message { return c.putTo(all, size-4999, big) }, nil},
		"put, right":         {6, func() *message { return c.putTo(read, 0, big[:3]) }, nil},
		"placed, right":      {6, func() *message { return c.putNotice(write, 0, big[:3], 1, "") }, nil},
		"placed, handler":    {2, func() *message { return c.putNotice(all, 0, big[:3], 9, "") }, nil},
		"notice, handler":    {2, func() *message { return c.putNotice(all, 0, big, 9, "") }, nil},
		"get, no region":     {1, nil, func() *waiter { return c.get(all+1, 0, 1) }},
		"get, bounds":        {5, nil, func() *waiter { return c.get(all, size, 1) }},
		"get, right":         {6, nil, func() *waiter { return c.get(write, 0, 1) }},
		"atomic, no region":  {1, nil, func() *waiter { return c.atomic(all+1, 0, 1, 0, 1, 8, 0) }},
		"atomic, bounds":     {5, nil, func() *waiter { return c.atomic(all, size, 1, 0, 1, 8, 1) }},
		"atomic, align":      {5, nil, func() *waiter { return c.atomic(all, 4, 1, 0, 1, 8, 1) }},
		"atomic, right":      {6, nil, func() *waiter { return c.atomic(write, 0, 1, 0, 1, 8, 1) }},
		"atomic, action":     {1, nil, func() *waiter { return c.atomic(all, 0, 1, 0, 10, 8, 1) }},
		"atomic, width":      {1, nil, func() *waiter { return c.atomic(all, 0, 1, 0, 1, 2, 1) }},
		"atomic, read of 1":  {1, nil, func() *waiter { return c.atomic(all, 0, 1, 0, 9, 8, 1) }},
		"atomic, compare":    {1, nil, func() *waiter { return c.atomic(all, 0, 1, 1, 1, 8, 1) }},
		"atomic, upper half": {1, nil, func() *waiter { return c.atomic(all, 0, 1<<32, 0, 1, 4, 1) }},
	} {
		var err error
		if x.put != nil {
			err = h.say(t, x.put)
		} else {
			_, err = h.ask(t, x.op)
		}
		if !errors.Is(err, refused{x.want}) {
			t.Errorf("%s: %v, want reason %d", name, err, x.want)
		}
	}
	check(t, h.say(t, func() *message { return c.send(tagKeep, nil) })) // it goes on
}

// TestOwner has the real side use memory of the stranger's.
func TestOwner(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps, faults: 5, mtu: 1500})
	said := make(chan string, 1)
	mem := make([]byte, 1<<20)
	var handle, read, write btl.Handle
	h.do(func() {
		h.handlers[3] = func(_ *conn, b []byte) { said <- string(b) }
		handle = btl.Handle(h.expose(mem, mayWrite|mayRead|mayAtomic|mayNotify).handle)
		read = btl.Handle(h.expose(make([]byte, 100), mayRead).handle)
		write = btl.Handle(h.expose(make([]byte, 100), mayWrite).handle)
	})
	ep, err := r.run.Connect(bg, h.name())
	check(t, err)
	dice := h.draw()
	for no, n := range []int{0, 1, 1443, 1453, 5000, 300000, 1<<20 - 10} {
		b := random(dice, n)
		check(t, r.run.Put(bg, ep, b, handle, 10))
		h.do(func() {
			if !bytes.Equal(mem[10:10+n], b) {
				t.Errorf("put of %d", n)
			}
		})
		b = random(dice, n)
		says := random(dice, no*10)
		check(t, r.run.PutNotice(bg, ep, b, handle, 3, 3, says))
		if s := <-said; s != string(says) {
			t.Errorf("the notice of %d bytes says something else", n)
		}
		got := make([]byte, n)
		check(t, r.run.Get(bg, ep, got, handle, 3))
		if !bytes.Equal(got, b) {
			t.Errorf("get of %d bytes", n)
		}
	}
	ownedAtomics(t, h, r, ep, handle)
	for name, x := range map[string]struct {
		want btl.AccessReason
		err  error
	}{
		"put, no region":    {1, r.run.Put(bg, ep, []byte{1}, handle+1, 0)},
		"put, bounds":       {5, r.run.Put(bg, ep, []byte{1}, handle, 1<<20)},
		"put, right":        {6, r.run.Put(bg, ep, []byte{1}, read, 0)},
		"chunks, right":     {6, r.run.Put(bg, ep, make([]byte, 9000), read, 0)},
		"placed, right":     {6, r.run.PutNotice(bg, ep, []byte{1}, write, 0, 3, nil)},
		"parts, right":      {6, r.run.PutNotice(bg, ep, make([]byte, 9000), write, 0, 3, nil)},
		"get, no region":    {1, r.run.Get(bg, ep, make([]byte, 1), handle+1, 0)},
		"get, bounds":       {5, r.run.Get(bg, ep, make([]byte, 2), handle, 1<<20-1)},
		"get, right":        {6, r.run.Get(bg, ep, make([]byte, 2), write, 0)},
		"atomic, no region": {1, atomicErr(r, ep, handle+1, 0)},
		"atomic, right":     {6, atomicErr(r, ep, write, 0)},
		"atomic, bounds":    {5, atomicErr(r, ep, handle, 1<<20)},
	} {
		wantReason(t, name, x.err, x.want)
	}
	for _, n := range []int{1, 9000} {
		if err := r.run.PutNotice(bg, ep, make([]byte, n), handle, 0, 77, nil); !errors.Is(err,
			btl.ErrNoHandler) {
			t.Errorf("notice of %d bytes without handler: %v", n, err)
		}
	}
	check(t, r.run.Put(bg, ep, []byte{1}, handle, 0))
}

// wantReason wants an error of an operation that the peer has refused.
func wantReason(t *testing.T, name string, err error, want btl.AccessReason) {
	t.Helper()
	var got *btl.AccessError
	if !errors.As(err, &got) || got.Reason != want {
		t.Errorf("%s: %v, want reason %d", name, err, want)
	}
}

func atomicErr(r *module, ep *btl.Endpoint, handle btl.Handle, at uint64) error {
	_, err := r.run.Atomic(bg, ep, btl.Atomic{
		Target: handle, Offset: at, Action: btl.ActionAdd, WidthBytes: 8, Operand: 1, Fetch: true,
	})
	return err
}

func ownedAtomics(t *testing.T, h *host, r *module, ep *btl.Endpoint, handle btl.Handle) {
	t.Helper()
	dice := h.draw()
	var now uint64
	for i := range 100 {
		a := btl.Atomic{
			Target: handle, Offset: 512, WidthBytes: 8, Operand: dice.Uint64(), Fetch: dice.IntN(2) == 0,
			Action: btl.Action(1 + dice.IntN(9)),
		}
		if i == 0 {
			a.Action = btl.ActionSwap
		}
		switch a.Action {
		case btl.ActionCompareSwap:
			a.Compare = now + uint64(dice.IntN(2))
		case btl.ActionRead:
			a.Operand, a.Fetch = 0, true
		}
		old, err := r.run.Atomic(bg, ep, a)
		check(t, err)
		if a.Fetch && i > 0 && old != now {
			t.Errorf("action %v: the old value is %x, not %x", a.Action, old, now)
		}
		now = change(byte(a.Action), now, a.Operand, a.Compare)
	}
}
