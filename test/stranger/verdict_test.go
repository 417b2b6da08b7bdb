package stranger

import (
	"slices"
	"testing"
	"time"

	"gobtl/btl"
)

// verdict is what the real side does with a message of a single packet: take it, refuse it, or drop
// it without a word, whatever is sent again. Then a Void takes its place.
func (h *host) verdict(t *testing.T, c *conn, m *message) string {
	t.Helper()
	m.bare = true
	before := 0
	h.do(func() { c.give(m); before = c.again })
	for {
		select {
		case err := <-m.ch:
			if err != nil {
				return err.Error()
			}
			return taken
		case <-time.After(time.Millisecond):
		}
		over := false
		h.do(func() {
			s := c.flight[c.una]
			if over = c.again > before && s != nil; over {
				s.p, s.msgs = &packet{kind: kFrag, tag: tagVoid, conn: c.far, seq: c.una}, nil
			}
		})
		if over {
			eventually(t, "the Void", func() (ok bool) {
				h.do(func() { ok = len(c.flight) == 0 })
				return ok
			})
			return dropped
		}
	}
}

const (
	taken   = "taken"
	dropped = "dropped"
)

// TestVerdicts is where a rule ends, of operations and marks: what is just a packet, what is none,
// what is refused.
func TestVerdicts(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps})
	c := h.to(t, r)
	g := uint64(r.expose(make([]byte, 1000), btl.RemoteAll).Handle())
	get := func(reserved byte) []byte {
		b := getOf(g, 1)
		b[31] = reserved
		return b
	}
	atomic := func(i int, v byte) []byte {
		b := append(le.AppendUint64(nil, g), make([]byte, 24)...)
		b = append(b, 1, 8, 0, 0, 0, 0, 0, 0)
		b[i] = v
		return b
	}
	at := func(offset uint64) *put { return &put{g, offset} }
	code := func(code, notice byte) *op { return &op{1, code, notice} }
	two := []byte{1, 2}
	no1, no5 := refused{1}.Error(), refused{5}.Error()
	for _, x := range []struct {
		name string
		want string
		m    message
	}{
		{"get", taken, message{data: get(0), op: code(4, 0)}},
		{"get, operation 0", taken, message{data: get(0), op: &op{0, 4, 0}}},
		{"get, reserved", no1, message{data: get(1), op: code(4, 0)}},
		{"get, too large", no1, message{data: getOf(g, 8<<20+1), op: code(4, 0)}},
		{"get of 33 bytes", dropped, message{data: append(get(0), 0), op: code(4, 0)}},
		{"atomic", taken, message{data: atomic(35, 0), op: code(5, 0)}},
		{"atomic, reserved 35", no1, message{data: atomic(35, 1), op: code(5, 0)}},
		{"atomic, reserved 39", no1, message{data: atomic(39, 1), op: code(5, 0)}},
		{"atomic, fetch 2", no1, message{data: atomic(34, 2), op: code(5, 0)}},
		{"failed, no reason of its own", taken, message{data: []byte{0}, op: code(7, 0)}},
		{"failed, of two bytes", dropped, message{data: two, op: code(7, 0)}},
		{"result of nothing", taken, message{data: make([]byte, 8), op: code(6, 0)}},
		{"placed, notice larger", dropped, message{tag: 1, data: two, put: at(0), op: code(3, 3)}},
		{"placed, notice alone", taken, message{tag: 1, data: two, put: at(1000), op: code(3, 2)}},
		{"placed behind the end", no5, message{tag: 1, data: two, put: at(1001), op: code(3, 2)}},
		{"placed over the end", no5, message{tag: 1, data: two, put: at(999), op: code(3, 0)}},
		{"placed, 64", taken, message{tag: 1, data: make([]byte, 64), put: at(1000), op: code(3, 64)}},
		{"placed, 65", dropped, message{tag: 1, data: make([]byte, 65), put: at(0), op: code(3, 65)}},
		{"placed, overflow", dropped, message{tag: 1, data: two, put: at(1<<64 - 2), op: code(3, 2)}},
		{"placed, none", no5, message{tag: 1, data: two, put: at(1<<64 - 3), op: code(3, 2)}},
		{"notice of no bytes", taken, message{tag: 1, data: make([]byte, 4), op: code(2, 0)}},
		{"portion of no bytes", taken, message{put: at(0), op: code(1, 0)}},
		{"portion with a tag", dropped, message{tag: 1, data: two, put: at(0), op: code(1, 0)}},
		{"notice, 3 bytes", dropped, message{tag: 1, data: make([]byte, 3), op: code(2, 0)}},
		{"notice, 69 bytes", dropped, message{tag: 1, data: make([]byte, 69), op: code(2, 0)}},
		{"code 0", dropped, message{data: two, op: code(0, 0)}},
		{"code 8", dropped, message{data: two, op: code(8, 0)}},
		{"reserved mark", dropped, message{tag: 0xF0}},
		{"void of a byte", dropped, message{tag: tagVoid, data: []byte{1}}},
		{"put with a tag", dropped, message{tag: 1, data: two, put: at(0)}},
		{"put of nothing at the end", taken, message{put: at(1000)}},
		{"put of nothing behind it", no5, message{put: at(1001)}},
	} {
		if got := h.verdict(t, c, &x.m); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	h.still(t, r, c)
}

// getOf asks for the first bytes of a region.
func getOf(handle uint64, n uint32) []byte {
	b := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, handle), 0), 77)
	return append(le.AppendUint32(b, n), 0, 0, 0, 0)
}

// TestFailed answers a get of the real side by a Failed, of every kind of reason.
func TestFailed(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps})
	g := &region{handle: 0x77, mem: make([]byte, 100), rights: 15}
	ep, err := r.run.Connect(bg, h.name())
	check(t, err)
	for _, reason := range []byte{1, 5, 6, 0, 2, 7, 255} {
		h.do(func() {
			h.regions[g.handle] = g
			h.see = func(_ *datagram, p *packet) bool {
				if p.op != nil && p.op.code == 4 {
					h.conns[p.conn].giveFailed(p.op.operation, reason) // and then the bytes: too late
				}
				return true
			}
		})
		wantReason(t, "Failed", r.run.Get(bg, ep, make([]byte, 10), 0x77, 0), btl.AccessReason(reason))
		_, err := r.run.Atomic(bg, ep, btl.Atomic{
			Target: 0x77, Action: btl.ActionAdd, WidthBytes: 8, Operand: 1, Fetch: true,
		})
		check(t, err) // it goes on
	}
}

// TestReturnedCookies sends Hellos that return the tag, and have cookies, good and bad ones: nobody
// looks at them.
func TestReturnedCookies(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{})
	c := h.to(t, r)
	h.greeted(t, c)
	for _, good := range []bool{true, false} {
		kinds := h.answered(t, func() {
			x := c.hello(0)
			a, b := c.cookies[0], c.cookies[1]
			if !good {
				a, b = []byte{1}, []byte{2}
			}
			x.ext = append(x.ext, extension{3, a}, extension{4, b})
			c.post(0, &packet{kind: kHello, conn: c.far, seq: c.una, hello: x})
		})
		// Two, if one of the handshake's own was late.
		if kinds = slices.Compact(kinds); len(kinds) != 1 || kinds[0] != kHelloAck {
			t.Errorf("good %v: answered by kinds %v", good, kinds)
		}
	}
}

// TestFirstNumbers begins to count packets anywhere.
func TestFirstNumbers(t *testing.T) {
	for _, number := range []uint64{0, 1<<64 - 1, 1 << 31, 1<<32 - 1, 1 << 40} {
		r := realSide(t, btl.Config{})
		h := stranger(t, options{features: featSack, number: number})
		c := h.to(t, r)
		h.still(t, r, c)
	}
}
