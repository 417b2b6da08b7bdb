package stranger

import (
	"testing"

	"gobtl/btl"
)

// TestLostConfirmation loses the Hellos that say that both channels work, a few or all but what is
// asked for: who is half open drops what comes before, and asks; nothing is delivered twice.
func TestLostConfirmation(t *testing.T) {
	for _, lost := range []int{1, 3} {
		for _, calls := range []bool{true, false} { // the stranger does
			r := realSide(t, btl.Config{})
			h := stranger(t, options{features: featSack})
			missing := lost
			h.do(func() {
				h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ }
				h.pass = func(out bool, d *datagram) bool {
					p, _ := decode(d.b)
					if p == nil || out != calls || p.kind != kHello || p.hello.proven != 3 || missing == 0 {
						return true
					}
					missing--
					return false
				}
			})
			if calls {
				h.lostHere(t, r)
			} else {
				h.lostThere(t, r)
			}
			if missing == lost {
				t.Error("nothing was lost")
			}
		}
	}
}

// lostHere is the loss of what the stranger says.
func (h *host) lostHere(t *testing.T, r *module) {
	t.Helper()
	c := h.begun(t, r)
	var m *message
	h.do(func() { m = c.send(tagKeep, []byte("hello")) })
	check(t, wait(t, m, m.ch))
	h.do(func() {
		if c.unheard == 0 || r.kept() != 1 {
			t.Errorf("noticed %d times that it was not heard, %d came", c.unheard, r.kept())
		}
	})
}

// lostThere is the loss of what the real side says.
func (h *host) lostThere(t *testing.T, r *module) {
	t.Helper()
	ep, err := r.run.Connect(bg, h.name())
	check(t, err)
	check(t, r.run.SendBuffered(bg, ep, tagKeep, []byte("hello")))
	check(t, r.run.Flush(bg, ep))
	h.do(func() {
		for _, c := range h.conns {
			if c.askedOut == 0 || h.kept != 1 {
				t.Errorf("asked %d times, %d came", c.askedOut, h.kept)
			}
		}
	})
}
