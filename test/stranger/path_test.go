package stranger

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
)

// TestNarrow has the path stop to carry large datagrams while the real side sends: it cuts those
// that are on their way into Parts.
func TestNarrow(t *testing.T) {
	r := realSide(t, btl.Config{MTUBytes: 9000})
	h := stranger(t, options{features: featSack, mtu: 9000, window: 1024, credit: 256})
	got := 0
	h.do(func() { h.handlers[7] = func(*conn, []byte) { got++ } })
	c := h.to(t, r)
	ep := r.endpoint()
	check(t, r.run.Send(bg, ep, 7, make([]byte, 100000)))
	eventually(t, "large datagrams", func() (large bool) {
		r.do(func(*btl.Module) error { large = ep.MTUBytes() == 9000; return nil })
		return large && c.sizeNow() == 9000
	})
	narrow := func(_ bool, d *datagram) bool { return len(d.b) <= 1300 }
	done := make(chan error, 1)
	go func() { done <- r.run.Send(bg, ep, 7, make([]byte, 1<<20)) }()
	eventually(t, "the beginning", func() (ok bool) {
		h.do(func() {
			if ok = len(c.build) > 0; ok {
				h.pass = narrow
			}
		})
		return ok || got == 2
	})
	h.do(func() { h.pass = narrow })
	go func() { _ = r.run.SendBuffered(bg, ep, 7, make([]byte, 500000)) }()
	check(t, <-done)
	check(t, r.run.Flush(bg, ep))
	h.do(func() {
		t.Logf("%d messages, %d packets in Parts", got, c.inParts)
		if c.inParts == 0 {
			t.Error("nothing came in Parts")
		}
	})
	// And back, in the stranger's Parts: its size is still the old one.
	var m *message
	h.do(func() { m = c.send(tagKeep, make([]byte, 60000)) })
	time.Sleep(20 * time.Millisecond)
	h.do(func() { c.size = 1200 })
	check(t, wait(t, m, m.ch))
	h.do(func() {
		if c.inSlice == 0 {
			t.Error("nothing went in Parts")
		}
	})
}

func (c *conn) sizeNow() (n int) {
	c.h.do(func() { n = c.size })
	return n
}

// TestTooNarrow has the path carry small datagrams alone: the real side ends the connection,
// code 3.
func TestTooNarrow(t *testing.T) {
	r := realSide(t, btl.Config{PeerTimeout: 2 * time.Second})
	h := stranger(t, options{features: featSack})
	h.do(func() { h.handlers[7] = func(*conn, []byte) {} })
	c := h.to(t, r)
	ep := r.endpoint()
	h.do(func() { h.pass = func(_ bool, d *datagram) bool { return len(d.b) <= 600 } })
	err := r.run.Send(bg, ep, 7, make([]byte, 30000))
	t.Log(err)
	<-c.over
	if !errors.Is(c.err, ended{3}) {
		t.Errorf("the stranger's end: %v", c.err)
	}
}

// TestPings asks and is asked.
func TestPings(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack})
	c := h.to(t, r)
	h.do(func() { c.size, c.askedNo = 1200, 0; c.askSize() })
	eventually(t, "a Pong", func() bool { return c.sizeNow() == 1400 })
	// Few of many are answered, each by 40 bytes, on its channel.
	var came [2]int
	h.do(func() {
		h.see = func(d *datagram, p *packet) bool {
			if p.kind == kPong {
				came[d.ch]++
				if len(d.b) != 40 {
					t.Errorf("a Pong of %d bytes", len(d.b))
				}
			}
			return false
		}
		for range 300 {
			c.post(0, &packet{kind: kPing, conn: c.far, nonce: 5, padding: 100})
		}
	})
	time.Sleep(50 * time.Millisecond)
	h.do(func() {
		h.see = nil
		if came[0] == 0 || came[1] != 0 {
			t.Errorf("%v Pongs", came)
		}
	})
	h.still(t, r, c)
}

// TestSmallest has windows and credits of one packet, without selective Acks and with them, and
// numbers that wrap.
func TestSmallest(t *testing.T) {
	for no := range 8 {
		window, credit := uint32(1), uint16(64)
		if no&1 == 1 {
			window, credit = 64, 1
		}
		features := uint64(no & 2 >> 1)
		r := realSide(t, btl.Config{Random: wrapping()})
		h := stranger(t, options{
			features: features, window: window, credit: credit, faults: 3 * (no >> 2),
			first: 1<<32 - 20, number: 1<<32 - 30, fragID: 1<<32 - 2,
		})
		got := 0
		h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { got++ } })
		c := h.to(t, r)
		h.do(func() {
			for i := range 60 {
				c.send(tagEcho, text(i, i*100))
			}
		})
		eventually(t, "all echoes", func() (ok bool) {
			h.do(func() { ok = got == 60 })
			return ok
		})
	}
}

// TestCreditBytes grants few bytes and many packets: small ones, such as fill a datagram, and such
// as are larger than all that is granted. The judge sees that no more is in flight.
func TestCreditBytes(t *testing.T) {
	for _, units := range []uint16{1, 2, 16} {
		for _, mtu := range []int{1400, 9000} {
			r := realSide(t, btl.Config{MTUBytes: mtu, TinyBytes: 700})
			h := stranger(t, options{
				features: featSack, mtu: uint16(mtu), credit: 256, bytes: units,
				ackAfter: 3 * time.Millisecond,
			})
			got := 0
			h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { got++ } })
			c := h.to(t, r)
			h.do(func() {
				for i := range 100 {
					c.send(tagEcho, text(i, i*200))
				}
			})
			eventually(t, "all echoes", func() (ok bool) {
				h.do(func() { ok = got == 100 })
				return ok
			})
			h.do(func() {
				if most, want := c.law.bytesMax, min(int(units), 2)<<12; most < want {
					t.Errorf("%d units, MTU %d: never more than %d bytes in flight", units, mtu, most)
				}
			})
		}
	}
}

// TestUsnic has the real side with the older recovery rules.
func TestUsnic(t *testing.T) {
	r := realSide(t, btl.Config{Profile: "usnic"})
	h := stranger(t, options{features: featSack})
	echo2(t, r, h)
}

func echo2(t *testing.T, r *module, h *host) {
	t.Helper()
	got := 0
	h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { got++ } })
	c := h.to(t, r)
	h.do(func() {
		for i := range 300 {
			c.send(tagEcho, text(i, i*20))
		}
	})
	eventually(t, "all echoes", func() (ok bool) {
		h.do(func() { ok = got == 300 })
		return ok
	})
}
