package btl

import (
	"slices"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// fullForSome is a fabric that has no room for some peers.
type fullForSome struct {
	fabric.Endpoint
	full  []fabric.Addr
	calls int
	sent  []fabric.Addr
}

func (e *fullForSome) Post(sends []fabric.Send) (int, error) {
	e.calls++
	for i := range sends {
		if slices.Contains(e.full, sends[i].To) {
			return i, fabric.ErrAgain
		}
		e.sent = append(e.sent, sends[i].To)
	}
	return len(sends), nil
}

// Behind what a fabric cannot take now all that goes to others leaves, in few calls whatever the
// number of packets, and what stays keeps its order.
func TestPostOthers(t *testing.T) {
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	m := b.open(Config{})
	defer m.Close()
	for _, c := range []struct {
		full  []fabric.Addr
		calls int
		kept  int
	}{
		{[]fabric.Addr{1}, 3, 1 + 50}, {[]fabric.Addr{1, 3}, 3, 1 + 100}, {[]fabric.Addr{9}, 1, 0},
	} {
		ch := m.data
		fake := &fullForSome{Endpoint: ch.ep, full: c.full}
		ch.ep, m.info.Reliable = fake, true
		ch.caps.InjectBytes = 1 << 20
		ch.batch = make([]fabric.Send, 0, batchMax)
		add := func(to fabric.Addr, n int) {
			for range n {
				buf := fabric.Buf(len(ch.batch))
				m.tx[buf] |= txBusy
				ch.batch = append(ch.batch, fabric.Send{To: to, Buf: buf, Len: 8})
			}
		}
		add(1, 1)
		add(2, 100)
		add(3, 50)
		add(1, 50)
		add(4, 50)
		ch.post()
		if fake.calls != c.calls || len(ch.batch) != c.kept || len(fake.sent) != 251-c.kept {
			t.Errorf("no room for %v: %d calls, %d kept, %d sent; want %d, %d", c.full, fake.calls,
				len(ch.batch), len(fake.sent), c.calls, c.kept)
		}
		if !slices.IsSortedFunc(ch.batch, func(a, b fabric.Send) int { return int(a.Buf) - int(b.Buf) }) {
			t.Errorf("no room for %v: what is kept is out of order", c.full)
		}
		for i := range ch.batch {
			m.tx[ch.batch[i].Buf] = 0
		}
	}
	m.info.Reliable = false
}
