package stranger

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/reliability"
)

// answered tells what comes for a while, but for Pings, and Pongs to the stranger's own.
func (h *host) answered(t *testing.T, send func()) (kinds []byte) {
	t.Helper()
	h.do(func() {
		h.see = func(_ *datagram, p *packet) bool {
			c := h.conns[p.conn]
			if p.kind != kPing && (p.kind != kPong || c == nil || c.asked[p.nonce] == 0) {
				kinds = append(kinds, p.kind)
			}
			return true
		}
		send()
	})
	time.Sleep(60 * time.Millisecond)
	h.do(func() { h.see = nil })
	return kinds
}

// still says whether a connection carries messages.
func (h *host) still(t *testing.T, r *module, c *conn) {
	t.Helper()
	before := r.kept()
	check(t, h.say(t, func() *message { return c.send(tagKeep, []byte("still here")) }))
	if r.kept() != before+1 {
		t.Errorf("%d came, want one more than %d", r.kept(), before)
	}
}

// TestOtherVersion is section 9: Hellos of other versions get a Reject in their layout.
func TestOtherVersion(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{})
	for version := byte(0); version < 16; version++ {
		if version == 2 {
			continue
		}
		b := make([]byte, 208)
		b[0], b[1] = 0xB7, version<<4|kHello
		want := (&packet{kind: kReject, tag: 1, conn: 99, reject: &reject{2, 2, 0, 77}}).encode()
		want[1] = version<<4 | kReject
		if version == 1 {
			le.PutUint64(b[32:], 99)
			b[74] = byte(copy(b[80:], h.own(0)))
			want = append(want[:12:12], make([]byte, 14)...)
			want[20], want[24], want[25] = 2, 2, 2
		} else {
			le.PutUint64(b[32:], 88)
			le.PutUint64(b[40:], 99)
			le.PutUint64(b[56:], 77)
			b[104], b[105] = 1, 7
			b = b[:106+copy(b[106:], h.own(0))]
		}
		got := make(chan []byte, 1)
		h.do(func() {
			h.pass = func(out bool, d *datagram) bool {
				if !out {
					got <- d.b
				}
				return out
			}
			h.post(0, h.socksOf(r)[0], b)
		})
		select {
		case g := <-got:
			if !bytes.Equal(g, want) {
				t.Errorf("version %d: got %x, want %x", version, g, want)
			}
		case <-time.After(100 * time.Millisecond):
			if version != 0 {
				t.Errorf("version %d: no answer", version)
			}
		}
	}
}

// TestJunk changes bits of packets for a living connection, and sends random bytes: what is no
// packet by the document gets no answer, and harms nothing.
func TestJunk(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps})
	dice := h.draw()
	c := h.to(t, r)
	h.still(t, r, c)
	time.Sleep(50 * time.Millisecond)
	_, packets := vectors(t)
	packets = packets[:len(packets)-1] // but the name
	for range 20 {
		kinds := h.answered(t, func() {
			for sent := 0; sent < 250; {
				b := bytes.Clone(packets[dice.IntN(len(packets))])
				le.PutUint64(b[4:], c.far)
				switch dice.IntN(4) {
				case 0:
					b = b[:dice.IntN(len(b))]
				case 1:
					b = append(b, random(dice, 1+dice.IntN(50))...)
				default:
					b[dice.IntN(len(b))] ^= byte(1 << dice.IntN(8))
				}
				if _, err := decode(b); err == nil || len(b) > 1 && b[1]>>4 != 2 {
					continue
				}
				sent++
				ch := dice.IntN(2)
				h.post(ch, c.addr[ch], b)
			}
		})
		if len(kinds) != 0 {
			t.Errorf("what is no packet was answered by kinds %v", kinds)
		}
	}
	h.still(t, r, c)
}

// TestMixed sends well-formed packets with fields of other connections and of chance: the
// connection goes on, whatever is answered.
func TestMixed(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps})
	dice := h.draw()
	c, other := h.to(t, r), h.to(t, r)
	_, packets := vectors(t)
	for range 3000 {
		p, err := decode(packets[dice.IntN(len(packets)-1)])
		check(t, err)
		isBye := p.kind == kFrag && p.tag == tagBye
		if p.kind == kHello || isBye || p.kind == kNack || p.kind == kPing {
			continue
		}
		if p.conn = c.far; dice.IntN(3) == 0 {
			p.conn = other.far ^ uint64(dice.IntN(2))
		}
		// Beyond the window, or received already: nothing that is taken over.
		h.do(func() {
			if p.kind == kFrag || p.kind == kChunk || p.kind == kPack || p.kind == kPart {
				p.seq = c.next + 10000 + dice.Uint32N(1<<30)
				if p.conn == other.far {
					p.seq = other.next + 10000 + dice.Uint32N(1<<30)
				}
			}
			if p.flags&fAck != 0 {
				p.ack += dice.Uint32()
			}
			ch := dice.IntN(2)
			h.post(ch, c.addr[ch], p.encode())
		})
	}
	h.still(t, r, c)
	h.still(t, r, other)
}

// TestManyNames sends Hellos of many lives and addresses: none gets more than it sent, nothing is
// remembered, and whoever comes then is let in.
func TestManyNames(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{})
	dice := h.draw()
	sent, came := 0, 0
	kinds := h.answered(t, func() {
		h.pass = func(out bool, d *datagram) bool {
			if out {
				sent += len(d.b)
			} else {
				came += len(d.b)
			}
			return true
		}
		for range 2000 {
			c := &conn{h: h, state: connecting, tag: dice.Uint64() | 1}
			k := c.hello(0)
			k.incarnation = dice.Uint64() | 1
			if dice.IntN(2) == 0 { // an address of somebody else
				k.ext[0].value = h.addressOf(netip.MustParseAddrPort("127.0.0.9:9"))
			}
			if dice.IntN(2) == 0 {
				k.ext = append(k.ext, extension{3, random(dice, 20)}, extension{4, random(dice, 20)})
			}
			h.post(0, h.socksOf(r)[0], (&packet{kind: kHello, hello: k}).encode())
		}
	})
	h.do(func() { h.pass = nil })
	for _, k := range kinds {
		if k != kRetry {
			t.Errorf("a stranger was answered by kind %d", k)
		}
	}
	if len(kinds) == 0 || len(kinds) > 2000 || came > sent {
		t.Errorf("%d bytes went out, %d came back in %d packets", sent, came, len(kinds))
	}
	if s := r.run.Stats(); s.Endpoints != 0 {
		t.Fatal("something is remembered")
	}
	c := h.to(t, r)
	h.still(t, r, c)
}

// TestReplays sends everything that a connection has sent once more, while it lives and when it is
// over: nothing is delivered twice, no connection is made, and the dead are not answered.
func TestReplays(t *testing.T) {
	r := realSide(t, btl.Config{CloseTimeout: 100 * time.Millisecond})
	h := stranger(t, options{features: featSack})
	var sent []datagram
	h.do(func() {
		h.pass = func(out bool, d *datagram) bool {
			if out {
				sent = append(sent, *d)
			}
			return true
		}
	})
	c := h.to(t, r)
	for no := range 50 {
		check(t, h.say(t, func() *message { return c.send(tagKeep, text(no, no*200)) }))
	}
	replay := func() []byte {
		return h.answered(t, func() {
			all := slices.Clone(sent)
			for _, d := range all {
				h.post(d.ch, d.from, d.b)
			}
			sent = all
		})
	}
	replay()
	if r.kept() != 50 {
		t.Errorf("%d of 50 came", r.kept())
	}
	h.still(t, r, c)
	ep := r.endpoint()
	h.do(func() { c.close(0) })
	<-c.over
	_ = r.end(ep)
	eventually(t, "the end", func() bool {
		s := r.run.Stats()
		return s.Endpoints == 0
	})
	for _, k := range replay() {
		if k != kRetry && k != kHelloAck { // the cookies are still good
			t.Errorf("after the end kind %d came", k)
		}
	}
	s := r.run.Stats()
	if r.kept() != 51 || s.Get(btl.CntPeersConnected) != 1 {
		t.Errorf("%d of 51 came, by %d connections", r.kept(), s.Get(btl.CntPeersConnected))
	}
}

// TestForgedAcks acknowledges what was not sent, by what was not sent: the whole packet is dropped.
func TestForgedAcks(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack, credit: 64})
	c := h.to(t, r)
	ep := r.endpoint()
	h.do(func() { h.handlers[7] = func(*conn, []byte) {} })
	left := h.leftOut(t, r, ep) // a packet number of the command channel that was never used
	var held *packet
	for name, change := range map[string]func(p *packet){
		"right":            nil,
		"ack too high":     func(p *packet) { p.ack++ },
		"ack far too high": func(p *packet) { p.ack += 1 << 20 },
		"range":            func(p *packet) { p.ack--; p.sack.ranges = [][2]uint16{{0, 0}} },
		"last":             func(p *packet) { p.sack.last++ },
		"last number":      func(p *packet) { p.sack.lastNumber += 1000 },
		"other channel":    func(p *packet) { p.sack.lastData ^= 1; p.sack.lastNumber += 1000 },
		"one of another":   func(p *packet) { p.sack.lastNumber-- },
		"left out":         func(p *packet) { p.sack.lastNumber, p.sack.lastData = left, 0 },
	} {
		h.do(func() {
			held = nil
			h.see = func(_ *datagram, p *packet) bool {
				if p.kind == kFrag {
					held = p
				}
				return p.kind != kFrag
			}
		})
		check(t, r.run.SendBuffered(bg, ep, 7, []byte("x")))
		ok := false
		forge := func(change func(p *packet)) {
			eventually(t, "the Frag", func() (ok bool) {
				h.do(func() { ok = held != nil })
				return ok
			})
			h.do(func() {
				p := &packet{kind: kAck, flags: fAck | fSack, conn: c.far, ack: held.seq, credit: 64}
				p.sack = &sack{last: held.seq, lastNumber: held.number, lastData: 0}
				if again := c.law.copiesOf(held.seq); again > 1 {
					p.sack.lastData = 1
				}
				if change != nil {
					change(p)
				}
				c.post(0, p)
			})
			time.Sleep(5 * time.Millisecond)
			r.do(func(*btl.Module) error {
				n, _ := ep.Outstanding()
				ok = n == 0
				return nil
			})
		}
		forge(change)
		again := 0
		h.do(func() { again = c.law.copiesOf(held.seq) })
		if name == "one of another" && again > 1 {
			t.Logf("%s: the packet was sent again, so that a number may be of another copy", name)
		} else if ok != (change == nil) {
			t.Errorf("%s: acknowledged %v", name, ok)
		}
		h.do(func() {
			if h.see = nil; ok {
				c.onSequenced(0, held) // what it has acknowledged it must take
			}
		})
		if err := r.run.Flush(bg, ep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	h.still(t, r, c)
}

// leftOut has the real side send until it leaves out a number on the command channel, and is the
// latest one that it has left out there.
func (h *host) leftOut(t *testing.T, r *module, ep *btl.Endpoint) uint32 {
	t.Helper()
	var last, number uint32
	h.do(func() {
		h.see = func(d *datagram, p *packet) bool {
			if d.ch == 0 {
				if last != 0 && p.number == last+2 {
					number = last + 1
				}
				last = p.number
			}
			return true
		}
	})
	for n := range 20000 {
		check(t, r.run.Send(bg, ep, 7, []byte("count")))
		found := uint32(0)
		if h.do(func() { found = number }); found != 0 && n > 100 {
			h.do(func() { h.see = nil })
			return found
		}
	}
	t.Fatal("no number was left out")
	return 0
}

// TestWithheld has the real side withhold packets: who acknowledges one of them is told to have
// broken the protocol, and a peer that tells the truth is served.
func TestWithheld(t *testing.T) {
	for _, liar := range []bool{false, true} {
		r := realSide(t, btl.Config{Rules: reliability.Rules{WithholdEvery: 16}})
		h := stranger(t, options{features: featSack, liar: liar})
		h.do(func() { h.handlers[tagKeep] = func(*conn, []byte) {} })
		c := h.to(t, r)
		ep := r.endpoint()
		var err error
		for no := 0; no < 200 && err == nil; no++ {
			err = r.run.SendBuffered(bg, ep, tagKeep, text(no, 20_000))
		}
		if err == nil {
			err = r.run.Flush(bg, ep)
		}
		eventually(t, "a packet that is withheld", func() bool {
			s := r.run.Stats()
			return s.Get(btl.CntWithheld) > 0
		})
		if !liar {
			check(t, err)
			h.still(t, r, c)
			continue
		}
		if why := r.end(ep); !errors.Is(why, btl.ErrBroken) {
			t.Errorf("the liar's connection ended: %v", why)
		}
		eventually(t, "the end", func() (over bool) {
			h.do(func() { over = c.state == gone })
			return over
		})
		if !errors.Is(c.err, ended{4}) {
			t.Errorf("the liar is told %v", c.err)
		}
	}
}
