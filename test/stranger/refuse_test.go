package stranger

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/limits"
)

// TestRejected has the real side refuse Hellos, for each reason that it has.
func TestRejected(t *testing.T) {
	verdict := func(v btl.Verdict) func(*btl.Module) {
		return func(m *btl.Module) { m.Admit(func(btl.Request) btl.Verdict { return v }) }
	}
	for name, x := range map[string]struct {
		cfg    btl.Config
		opt    options
		before func(*btl.Module)
		others int
		change func(c *conn)
		want   error
	}{
		"full":    {btl.Config{PeersMax: 1, PeersPerHost: -1}, options{}, nil, 1, nil, rejected{2, 0}},
		"stale":   {want: rejected{3, 0}, change: func(c *conn) { c.wanted++ }},
		"owner":   {before: verdict(btl.Refuse(0x1234)), want: rejected{4, 0x1234}},
		"later":   {before: verdict(btl.Defer(7)), want: errTimeout},
		"feature": {opt: options{features: 1 << 40, required: 1 << 40}, want: rejected{6, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if x.before == nil {
				x.before = func(*btl.Module) {}
			}
			r := realSide(t, x.cfg, x.before)
			for range x.others {
				h := stranger(t, options{})
				h.to(t, r)
			}
			x.opt.handshake = 300 * time.Millisecond
			h := stranger(t, x.opt)
			var c *conn
			h.do(func() {
				c, _ = h.dial(r.name.incarnation, r.name.command, r.name.data)
				if x.change != nil {
					x.change(c)
				}
			})
			<-c.over
			if !errors.Is(c.err, x.want) {
				t.Errorf("%v, want %v", c.err, x.want)
			}
		})
	}
}

// TestCrowded has more connections come from one address than the real side takes.
func TestCrowded(t *testing.T) {
	var cfg btl.Config
	cfg.SetLimits(limits.Limits{PeersPerAddress: 2})
	r := realSide(t, cfg)
	h := stranger(t, options{})
	for range 2 {
		h.to(t, r)
	}
	c := h.begun(t, r)
	<-c.over
	if !errors.Is(c.err, rejected{7, 0}) {
		t.Error(c.err)
	}
}

// with adds an extension to a Hello.
func with(kind byte, value ...byte) func(*hello) {
	return func(x *hello) { x.ext = append(x.ext, extension{kind, value}) }
}

// TestOtherHellos is the table at the end of section 7, as far as strangers go through it.
func TestOtherHellos(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{})
	for name, x := range map[string]struct {
		change func(x *hello)
		want   byte // kind of the answer, 0: none
		reason byte
	}{
		"as it is":          {func(*hello) {}, kRetry, 0},
		"wrong channel":     {func(x *hello) { x.channel = 1 }, 0, 0},
		"unknown extension": {with(100, 1), kRetry, 0},
		"empty extension":   {with(100), kRetry, 0},
		"critical":          {with(0x80 | 100), kReject, 6},
		"overhead":          {func(x *hello) { x.overhead = 16 }, kReject, 6},
		"stale":             {func(x *hello) { x.expected = 5 }, kReject, 3},
		"its own, stale":    {func(x *hello) { x.expected, x.incarnation = 5, r.name.incarnation }, 0, 0},
		"no addresses":      {func(x *hello) { x.ext = nil }, kRetry, 0},
		"label, away": {func(x *hello) {
			x.ext = append(x.ext, extension{5, []byte("it")}, extension{6, []byte{1, 0, 0, 0}})
		}, kRetry, 0},
		"false cookies": {func(x *hello) {
			x.ext = append(x.ext, extension{3, make([]byte, 20)}, extension{4, make([]byte, 20)})
		}, kRetry, 0},
	} {
		answers := make(chan *packet, 1)
		h.do(func() {
			c := h.newConn(lingering, h.socksOf(r))
			c.linger = h.now.Add(time.Minute)
			k := c.hello(0)
			x.change(k)
			h.see = func(_ *datagram, p *packet) bool { answers <- p; return false }
			c.post(0, &packet{kind: kHello, seq: 1, hello: k})
		})
		select {
		case p := <-answers:
			if p.kind != x.want || p.kind == kReject && p.tag != x.reason {
				t.Errorf("%s: answered by kind %d, tag %d", name, p.kind, p.tag)
			}
		case <-time.After(50 * time.Millisecond):
			if x.want != 0 {
				t.Errorf("%s: no answer", name)
			}
		}
	}
}

// TestRejects has the stranger refuse the real side's Hellos, for every reason.
func TestRejects(t *testing.T) {
	for reason, want := range map[byte]error{
		1: btl.ErrVersion, 2: btl.ErrRefused, 3: btl.ErrStale, 4: btl.ErrRefused, 5: btl.ErrRefused,
		6: btl.ErrVersion, 7: btl.ErrRefused, 8: btl.ErrRefused,
	} {
		r := realSide(t, btl.Config{HandshakeTimeout: 200 * time.Millisecond})
		h := stranger(t, options{})
		h.do(func() {
			h.see = func(d *datagram, p *packet) bool {
				if p.kind == kHello {
					h.reject(d, p.hello, reason)
				}
				return false
			}
		})
		if _, err := r.run.Connect(bg, h.name()); !errors.Is(err, want) {
			t.Errorf("reason %d: %v, want %v", reason, err, want)
		}
	}
}

// TestEnds has both sides end the connection, with every kind of Bye.
func TestEnds(t *testing.T) {
	for _, code := range []uint16{0, 1, 2, 3, 4, 5, 6, 0x7FFF, 0x8000, 0x8123, 0xFFFF} {
		r := realSide(t, btl.Config{})
		h := stranger(t, options{features: featSack})
		c := h.to(t, r)
		ep := r.endpoint()
		h.do(func() {
			if code == 0 || code >= 0x8000 {
				c.send(tagKeep, []byte("before"))
				c.close(code)
			} else {
				c.abort(code)
			}
		})
		err := r.end(ep)
		var told *btl.EndedError
		switch {
		case !errors.Is(err, btl.ErrPeerClosed):
			t.Errorf("code %#x: %v", code, err)
		case code == 0:
			if errors.As(err, &told) {
				t.Errorf("no code: %v", err)
			}
		case !errors.As(err, &told) || told.Owner != (code >= 0x8000) ||
			code >= 0x8000 && told.Code != code&0x7FFF || code <= 5 && told.Code != code:
			t.Errorf("code %#x: %v (%+v)", code, err, told)
		}
		if code == 0 || code >= 0x8000 {
			<-c.over
			if c.err != nil || r.kept() != 1 {
				t.Errorf("code %#x: %v, %d came", code, c.err, r.kept())
			}
		}
	}
}

// TestEnded has the real side do that.
func TestEnded(t *testing.T) {
	for code, want := range map[int]error{
		-1: ended{1}, 0: ended{0x8000}, 5: ended{0x8005}, 0x7FFF: ended{0xFFFF}, -2: nil,
	} {
		r := realSide(t, btl.Config{})
		h := stranger(t, options{features: featSack})
		c := h.to(t, r)
		ep := r.endpoint()
		r.do(func(m *btl.Module) error {
			switch code {
			case -1:
				ep.Abort()
			case -2:
				ep.Close(m.Now())
			default:
				return ep.CloseWith(m.Now(), uint16(code))
			}
			return nil
		})
		<-c.over
		if !errors.Is(c.err, want) {
			t.Errorf("code %d: %v, want %v", code, c.err, want)
		}
	}
}

// TestNoHandler has messages without a handler among others, both ways, in Frags, Packs and chunks.
func TestNoHandler(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack, faults: 5})
	c := h.to(t, r)
	var all []*message
	h.do(func() {
		h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ }
		for no := range 300 {
			tag := byte(tagKeep)
			if no%3 == 0 {
				tag = tagNone + byte(no%2)
			}
			all = append(all, c.send(tag, text(no, (no*no)%7000)))
		}
	})
	for no, m := range all {
		err := wait(t, m, m.ch)
		none := errors.Is(err, refused{2}) || errors.Is(err, refused{3})
		if no%3 != 0 && err != nil || no%3 == 0 && !none {
			t.Errorf("message %d with tag %d: %v", no, m.tag, err)
		}
	}
	if r.kept() != 200 {
		t.Errorf("%d came", r.kept())
	}
	ep := r.endpoint()
	for no := range 100 {
		for _, tag := range []btl.Tag{tagKeep, tagNone} {
			check(t, r.run.SendBuffered(bg, ep, tag, text(no, no*50)))
		}
	}
	if err := r.run.Flush(bg, ep); !errors.Is(err, btl.ErrNoHandler) {
		t.Errorf("the real side says %v", err)
	}
	h.do(func() {
		if h.kept != 100 {
			t.Errorf("%d came to the stranger", h.kept)
		}
		if c.packs == 0 || len(c.build) != 0 {
			t.Errorf("Packs %d, unfinished %d", c.packs, len(c.build))
		}
	})
}

// TestNoMemory has the receiver refuse for want of memory for a while, both ways.
func TestNoMemory(t *testing.T) {
	r := realSide(t, btl.Config{FragmentBytesMax: 1 << 20, ReassemblyBytesMax: 1 << 20})
	h := stranger(t, options{features: featSack})
	c := h.to(t, r)
	var all []*message
	h.do(func() {
		h.handlers[tagKeep] = func(*conn, []byte) { h.kept++ }
		for no := range 12 { // two of them do not fit, and with losses one begins before another ends
			all = append(all, c.send(tagKeep, text(no, 1<<20)))
		}
		h.opt.faults = 5
	})
	for _, m := range all {
		check(t, wait(t, m, m.ch))
	}
	h.do(func() {
		if c.short == 0 {
			t.Error("there always was memory")
		}
		h.opt.faults, c.full = 0, true
	})
	nacks := 0
	done := make(chan error, 1)
	h.do(func() {
		h.pass = func(out bool, d *datagram) bool {
			if p, _ := decode(d.b); out && p != nil && p.kind == kNack {
				nacks++
			}
			return true
		}
	})
	go func() { done <- r.run.Send(bg, r.endpoint(), tagKeep, make([]byte, 50000)) }()
	eventually(t, "refusals", func() (ok bool) {
		h.do(func() { ok = nacks > 3 })
		return ok
	})
	h.do(func() { c.full = false })
	check(t, <-done)
	h.do(func() {
		if h.kept != 1 {
			t.Errorf("%d came", h.kept)
		}
	})
}
