package stranger

import (
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
)

// solid is a domain that says that it loses nothing and keeps the order. Loopback does, as long as
// no socket buffer is full: credits see to that.
type solid struct{ fabric.Domain }

func (d solid) Info() fabric.Info {
	info := d.Domain.Info()
	info.Reliable, info.Ordered = true, true
	return info
}

// reliableSide is the real side over a carrier that is reliable.
func reliableSide(t *testing.T, cfg btl.Config) *module {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	check(t, err)
	info := infos[0]
	info.Reliable, info.Ordered = true, true
	dc, err := cfg.DomainConfig(info)
	check(t, err)
	domain, err := fabric.Open(infos[0], dc)
	check(t, err)
	return realOver(t, solid{domain}, cfg)
}

// relying wants a connection of the stranger's to be reliable, and returns it.
func (h *host) relying(t *testing.T, r *module) (c *conn) {
	t.Helper()
	eventually(t, "a reliable connection", func() (ok bool) {
		h.do(func() {
			for _, c = range h.conns {
				ok = c.state == connected && c.relies && c.heardAck
			}
		})
		return ok
	})
	s := r.run.Stats()
	if s.Get(btl.CntPeersReliable) == 0 {
		eventually(t, "a reliable endpoint", func() bool {
			s := r.run.Stats()
			return s.Get(btl.CntPeersReliable) > 0
		})
	}
	return c
}

// TestReliableEchoes has each of many messages come back whole, in a connection that is counted;
// both sides connect, and numbers wrap.
func TestReliableEchoes(t *testing.T) {
	for name, opt := range map[string]options{
		"plain":  {features: featRely},
		"all":    {features: featRely | featSack | featOps},
		"wraps":  {features: featRely | featSack, first: 0xFFFFFF00, mtu: 1500},
		"zero":   {features: featRely, first: 1<<32 - 1, credit: 16},
		"small":  {features: featRely, mtu: 512, credit: 8},
		"window": {features: featRely, window: 1}, // which does not count
	} {
		t.Run(name, func(t *testing.T) {
			for _, calls := range []bool{true, false} {
				r := reliableSide(t, btl.Config{Random: wrapping()})
				h := stranger(t, opt)
				if calls {
					h.to(t, r)
				} else {
					_, err := r.run.Connect(bg, h.name())
					check(t, err)
				}
				h.reliableEcho(t, r, 600)
			}
		})
	}
}

func (h *host) reliableEcho(t *testing.T, r *module, n int) {
	t.Helper()
	c := h.relying(t, r)
	dice := h.draw()
	want, got, all := map[string]int{}, map[string]int{}, make(chan struct{})
	var sent []*message
	h.do(func() {
		back := 0
		h.handlers[tagEcho] = func(_ *conn, b []byte) {
			got[string(b)]++
			if back++; back == n {
				close(all)
			}
		}
		for no := range n {
			b := text(no, drawSize(dice, 300_000))
			want[string(b)]++
			sent = append(sent, c.send(tagEcho, b))
		}
	})
	for _, m := range sent {
		check(t, wait(t, m, m.ch))
	}
	eventually(t, "all echoes", func() bool { return closed(all) })
	for s, k := range want {
		if got[s] != k {
			t.Errorf("%d of %d messages of %d bytes came back", got[s], k, len(s))
		}
	}
	h.do(func() {
		t.Logf("sent with numbers %d, without %d, questions %d; without came %d, Packs %d", c.numbered,
			c.nameless, c.asks, c.bare, c.inPacks)
		if c.numbered == 0 || c.nameless == 0 || c.bare == 0 {
			t.Error("some of this did not happen")
		}
	})
}

// TestReliableRefusals is one of each, both ways: messages without a handler, in a packet of their
// own, in chunks and in a Pack with others, and fragments for which there is no memory.
func TestReliableRefusals(t *testing.T) {
	r := reliableSide(t, btl.Config{})
	h := stranger(t, options{features: featRely})
	h.do(func() { h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ } })
	h.to(t, r)
	c := h.relying(t, r)
	for _, size := range []int{0, 100, 9000} {
		var bad, good *message
		h.do(func() {
			good = c.send(tagKeep, text(size, size))
			bad = c.send(tagNone, make([]byte, size))
		})
		check(t, wait(t, good, good.ch))
		if err := wait(t, bad, bad.ch); !errors.As(err, new(refused)) {
			t.Errorf("%d bytes without a handler: %v", size, err)
		}
	}
	ep := r.endpoint()
	for _, size := range []int{0, 100, 9000} {
		check(t, r.run.SendBuffered(bg, ep, tagKeep, make([]byte, size)))
		if err := r.run.Send(bg, ep, tagNone, make([]byte, size)); !errors.Is(err, btl.ErrNoHandler) {
			t.Errorf("%d bytes to the stranger without a handler: %v", size, err)
		}
	}
	h.do(func() { c.full = true })
	done := make(chan error, 1)
	go func() { done <- r.run.Send(bg, ep, tagKeep, make([]byte, 9000)) }()
	eventually(t, "a refusal", func() (ok bool) {
		h.do(func() { ok = c.noMemory > 2 })
		return ok
	})
	h.do(func() { c.full = false })
	check(t, <-done)
	check(t, r.run.Flush(bg, ep))
	if h.do(func() {
		if h.kept != 4 {
			t.Errorf("%d of 4 came", h.kept)
		}
	}); r.kept() != 3 {
		t.Errorf("%d of 3 came", r.kept())
	}
}

// TestReliableEnds closes from both sides, in order and at once, and in mid-stream.
func TestReliableEnds(t *testing.T) {
	for _, code := range []uint16{0, 0x8203, 1} {
		r := reliableSide(t, btl.Config{})
		h := stranger(t, options{features: featRely})
		h.to(t, r)
		c := h.relying(t, r)
		ep := r.endpoint()
		h.do(func() {
			c.send(tagKeep, text(1, 5000))
			if code == 1 {
				c.abort(1)
			} else {
				c.close(code)
			}
		})
		var told *btl.EndedError
		switch err := r.end(ep); {
		case !errors.Is(err, btl.ErrPeerClosed):
			t.Errorf("code %#x: %v", code, err)
		case code != 0 && !errors.As(err, &told):
			t.Errorf("code %#x: %v", code, err)
		case code != 1 && r.kept() != 1:
			t.Errorf("code %#x: %d came", code, r.kept())
		}
	}
	for _, abrupt := range []bool{false, true} {
		r := reliableSide(t, btl.Config{})
		h := stranger(t, options{features: featRely})
		h.do(func() { h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ } })
		h.to(t, r)
		c := h.relying(t, r)
		ep := r.endpoint()
		check(t, r.run.SendBuffered(bg, ep, tagKeep, text(1, 5000)))
		r.do(func(*btl.Module) error {
			if abrupt {
				ep.Abort()
			} else {
				ep.Close(ep.Now())
			}
			return nil
		})
		<-c.over
		if want := (ended{1}); abrupt != errors.Is(c.err, want) {
			t.Errorf("abrupt %v: %v", abrupt, c.err)
		}
		if !abrupt && h.kept != 1 {
			t.Errorf("%d came before the end", h.kept)
		}
	}
}

// TestReliableBroken breaks what a reliable carrier promises, or the rules of such a connection,
// each in one way: the real side ends the connection.
func TestReliableBroken(t *testing.T) {
	frag := func(c *conn, seq uint32) {
		c.post(0, &packet{kind: kFrag, tag: tagKeep, conn: c.far, seq: seq})
		c.next = nextNo(c.next)
	}
	part := func(c *conn, at uint32) {
		c.post(0, &packet{
			kind: kChunk, tag: tagKeep, conn: c.far, chunk: &chunk{c.fragID, 600, at, 200, 200},
			payload: make([]byte, 200),
		})
	}
	ack := func(c *conn, n uint32) {
		c.post(1, &packet{kind: kAck, flags: fAck, conn: c.far, ack: n, credit: 64, creditBytes: 0xFFFF})
	}
	for name, x := range map[string]struct {
		do    func(c *conn)
		harms bool
	}{
		"as it should be":        {func(c *conn) { frag(c, c.next); ack(c, c.came) }, false},
		"a packet is missing":    {func(c *conn) { frag(c, nextNo(c.next)) }, true},
		"a packet comes twice":   {func(c *conn) { frag(c, c.next); frag(c, c.next-1) }, true},
		"a chunk is missing":     {func(c *conn) { part(c, 0); part(c, 400) }, true},
		"a fragment goes on":     {func(c *conn) { part(c, 200) }, true},
		"ack of what never left": {func(c *conn) { ack(c, c.came+100) }, true},
		"a pack with a piece": {func(c *conn) {
			x := &chunk{c.fragID, 600, 0, 200, 200}
			c.post(0, &packet{kind: kPack, conn: c.far, records: []record{
				{tag: tagKeep, data: []byte{1}}, {tag: tagKeep, piece: x, data: make([]byte, 200)},
			}})
		}, true},
	} {
		r := reliableSide(t, btl.Config{})
		h := stranger(t, options{features: featRely})
		h.to(t, r)
		c := h.relying(t, r)
		ep := r.endpoint()
		h.do(func() { x.do(c) })
		if !x.harms {
			eventually(t, "the packet", func() bool { return r.kept() == 1 })
			continue
		}
		if err := r.end(ep); !errors.Is(err, btl.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		if <-c.over; !errors.Is(c.err, ended{4}) {
			t.Errorf("%s: the stranger is told %v", name, c.err)
		}
	}
}
