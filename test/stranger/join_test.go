package stranger

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// TestJoinedAsker has the stranger's operations share packets, among them ones that are refused:
// several of a Pack, each for a reason of its own. All others are done, once.
func TestJoinedAsker(t *testing.T) {
	for _, faults := range []int{0, 5} {
		r := realSide(t, btl.Config{})
		h := stranger(t, options{features: featSack | featOps | featJoin, faults: faults})
		c := h.to(t, r)
		dice := h.draw()
		mem := make([]byte, 64)
		good := uint64(r.expose(mem, btl.RemoteAll).Handle())
		noRight := uint64(r.expose(make([]byte, 8), btl.RemoteWrite).Handle())
		targets := []struct {
			handle, offset uint64
			want           byte
		}{{good, 8, 0}, {good, 4, 5}, {noRight, 0, 6}, {good + 1, 0, 1}}
		const bursts, burst = 8, 60
		sum := uint64(0)
		found := map[uint64]bool{}
		for range bursts {
			var ws [burst]*waiter
			var want [burst]byte
			h.do(func() {
				for i := range ws {
					to := targets[max(0, dice.IntN(20)-16)]
					ws[i] = c.atomic(to.handle, to.offset, 1, 0, 1, 8, byte(dice.IntN(2)))
					if want[i] = to.want; want[i] == 0 {
						sum++
					}
				}
			})
			for i, w := range ws {
				err := wait(t, &message{}, w.ch)
				if want[i] != 0 && !errors.Is(err, refused{want[i]}) || want[i] == 0 && err != nil {
					t.Errorf("ended with %v, want reason %d", err, want[i])
				}
				if err == nil && w.left == 1 {
					if found[w.old] || w.old >= sum {
						t.Errorf("found %d of %d, or twice", w.old, sum)
					}
					found[w.old] = true
				}
			}
		}
		r.do(func(*btl.Module) error {
			if got := le.Uint64(mem[8:]); got != sum {
				t.Errorf("%d added, and it is %d", sum, got)
			}
			return nil
		})
		h.do(func() {
			t.Logf("Packs of operations: %d sent, up to %d taken out, %d came", c.joined, c.takenOut,
				c.inJoined)
			if c.joined < bursts || c.takenOut < 2 || c.inJoined == 0 {
				t.Error("there should be several of each Pack")
			}
		})
	}
}

// TestJoinedOwner has the real side's operations share packets.
func TestJoinedOwner(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps | featJoin, faults: 5})
	mem := make([]byte, 64)
	var good, noRight btl.Handle
	h.do(func() {
		good = btl.Handle(h.expose(mem, mayAtomic).handle)
		noRight = btl.Handle(h.expose(make([]byte, 8), mayWrite).handle)
	})
	ep, err := r.run.Connect(bg, h.name())
	check(t, err)
	dice := h.draw()
	targets := []struct {
		handle btl.Handle
		offset uint64
		want   btl.AccessReason
	}{{good, 8, 0}, {good, 4, 5}, {noRight, 0, 6}, {good + 1, 0, 1}}
	const bursts, burst = 20, 40
	sum := uint64(0)
	for range bursts {
		ended := make(chan struct{}, burst)
		r.do(func(m *btl.Module) error {
			for range burst {
				to := targets[max(0, dice.IntN(20)-16)]
				f, err := ep.PrepareAtomic(btl.Atomic{
					Target: to.handle, Offset: to.offset, Action: btl.ActionAdd, WidthBytes: 8, Operand: 1,
					Fetch: dice.IntN(2) == 0,
				})
				if err != nil {
					return err
				}
				if to.want == 0 {
					sum++
				}
				f.OnDone = func(_ *btl.Fragment, err error) {
					if to.want != 0 {
						wantReason(t, "joined", err, to.want)
					} else if err != nil {
						t.Errorf("joined: %v", err)
					}
					ended <- struct{}{}
				}
				if _, err := ep.Send(ep.Now(), f); err != nil {
					return err
				}
			}
			return nil
		})
		for range burst {
			<-ended
		}
	}
	h.do(func() {
		if got := le.Uint64(mem[8:]); got != sum {
			t.Errorf("%d added, and it is %d", sum, got)
		}
		for _, c := range h.conns {
			if t.Logf("%d Packs of operations came", c.inJoined); c.inJoined < bursts/2 {
				t.Error("there should be more")
			}
		}
	})
}
