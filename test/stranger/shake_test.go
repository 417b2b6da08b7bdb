package stranger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

func TestConnect(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack | featOps | 1<<1}) // that one alone has no use
	c := h.to(t, r)
	for _, b := range []string{"", "hello"} {
		check(t, h.say(t, func() *message { return c.send(tagKeep, []byte(b)) }))
	}
	if r.times("") != 1 || r.times("hello") != 1 {
		t.Errorf("%v came", r.got)
	}
	h.do(func() { c.close(0) })
	<-c.over
	if c.err != nil {
		t.Error(c.err)
	}
	if err := r.end(r.endpoint()); !errors.Is(err, btl.ErrPeerClosed) {
		t.Errorf("the real side says %v", err)
	}
}

func TestConnected(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack})
	got := make(chan string, 2)
	h.do(func() { h.handlers[7] = func(_ *conn, b []byte) { got <- string(b) } })
	ep, err := r.run.Connect(bg, h.name())
	check(t, err)
	check(t, r.run.Send(bg, ep, 7, []byte("hi")))
	if s := <-got; s != "hi" {
		t.Errorf("%q came", s)
	}
	r.do(func(m *btl.Module) error { ep.Close(m.Now()); return nil })
	if err := r.end(ep); err != nil {
		t.Errorf("the real side says %v", err)
	}
}

// TestBothOpen has 30 strangers and the real side begin with each other at the same time, half of
// them under all faults: one connection of each comes of it in the end, and carries messages both
// ways.
func TestBothOpen(t *testing.T) {
	r := realSide(t, btl.Config{PeersPerHost: -1})
	var hosts [30]*host
	var conns [30]*conn
	begun := make(chan error, len(hosts))
	for no := range hosts {
		h := stranger(t, options{features: featSack, faults: 5 * (no % 2)})
		h.do(func() { h.handlers[tagEcho] = func(_ *conn, b []byte) { h.echoed = string(b) } })
		hosts[no] = h
	}
	for no, h := range hosts {
		go func() {
			ep, err := r.run.Connect(bg, h.name())
			if err == nil {
				err = r.run.Send(bg, ep, tagEcho, []byte("from the real side"))
			}
			begun <- err
		}()
		time.Sleep(time.Duration(no/2*20) * time.Microsecond)
		h.do(func() {
			conns[no], _ = h.connect(r.name.incarnation, r.name.command, r.name.data)
		})
	}
	for no, h := range hosts {
		connectedTo(t, h, conns[no])
		check(t, <-begun)
		c := conns[no]
		check(t, h.say(t, func() *message { return c.send(tagKeep, []byte("from the stranger")) }))
	}
	if r.kept() != len(hosts) {
		t.Errorf("%d of %d came", r.kept(), len(hosts))
	}
	for no, h := range hosts {
		h.do(func() {
			if h.echoed != "from the real side" {
				t.Errorf("%q came", h.echoed)
			}
			for _, x := range h.conns {
				if x != conns[no] && x.state == connected && no%2 == 0 {
					t.Error("two connections came of it")
				}
			}
		})
	}
}

// TestSilentInitiator says nothing more at each step of the handshake: the real side forgets it.
func TestSilentInitiator(t *testing.T) {
	for step, name := range []string{"Hello", "cookie Hello", "returned Hello"} {
		t.Run(name, func(t *testing.T) {
			r := realSide(t, btl.Config{
				HandshakeTimeout: 150 * time.Millisecond, PeerTimeout: 300 * time.Millisecond,
				KeepAlive: 100 * time.Millisecond,
			})
			h := stranger(t, options{features: featSack, handshake: 100 * time.Millisecond})
			said := 0
			h.do(func() {
				h.pass = func(out bool, d *datagram) bool {
					p, _ := decode(d.b)
					if !out || p == nil {
						return true
					}
					cookies := p.kind == kHello && p.hello.find(3) != nil
					ok := p.kind == kHello && (step == 0 && p.conn == 0 && !cookies ||
						step >= 1 && p.conn == 0 || step == 2 && p.kind == kHello)
					if ok {
						said++
					}
					return ok
				}
			})
			c := h.begun(t, r)
			eventually(t, "the end here", func() (ok bool) {
				h.do(func() { ok = c.state == gone || c.state == connected })
				return ok
			})
			eventually(t, "the end there", func() bool {
				s := r.run.Stats()
				return s.Endpoints == 0
			})
			if said == 0 {
				t.Error("nothing was said")
			}
			// Another one is let in.
			h2 := stranger(t, options{features: featSack})
			c2 := h2.to(t, r)
			check(t, h2.say(t, func() *message { return c2.send(tagKeep, nil) }))
		})
	}
}

// TestSilentResponder answers the real side up to a step, and no further.
func TestSilentResponder(t *testing.T) {
	for step, want := range []error{
		btl.ErrUnreachable, btl.ErrUnreachable, btl.ErrUnreachable, btl.ErrPeerDead,
	} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			r := realSide(t, btl.Config{
				HandshakeTimeout: 150 * time.Millisecond, PeerTimeout: 400 * time.Millisecond,
			})
			h := stranger(t, options{features: featSack})
			h.do(func() {
				h.pass = func(out bool, d *datagram) bool {
					p, _ := decode(d.b)
					if !out || p == nil {
						return true
					}
					return p.kind == kRetry && step >= 1 ||
						p.kind == kHelloAck && (step >= 2 && d.ch == 0 || step >= 3)
				}
			})
			ep, err := r.run.Connect(bg, h.name())
			if err == nil {
				err = r.run.Send(bg, ep, 7, []byte("anybody?"))
			}
			if !errors.Is(err, want) {
				t.Errorf("step %d: %v, want %v", step, err, want)
			}
		})
	}
}

// TestOneChannel loses all that comes by one channel, or all that goes there: no side may be
// connected, for what a peer says proves no channel.
func TestOneChannel(t *testing.T) {
	for no := range 4 {
		lostOut, ch := no&1 == 1, no>>1
		for _, real := range []bool{false, true} {
			r := realSide(t, btl.Config{HandshakeTimeout: 150 * time.Millisecond})
			h := stranger(t, options{features: featSack, handshake: 200 * time.Millisecond})
			connectedHere := false
			h.do(func() {
				h.opened = func(*conn) { connectedHere = true }
				h.pass = func(out bool, d *datagram) bool { return out != lostOut || d.ch != ch }
			})
			if real {
				if _, err := r.run.Connect(bg, h.name()); !errors.Is(err, btl.ErrUnreachable) {
					t.Errorf("channel %d, out %v: the real side says %v", ch, lostOut, err)
				}
				continue
			}
			c := h.begun(t, r)
			<-c.over
			h.do(func() {
				if !errors.Is(c.err, errTimeout) || connectedHere {
					t.Errorf("channel %d, out %v: %v", ch, lostOut, c.err)
				}
			})
			if s := r.run.Stats(); s.Get(btl.CntPeersConnected) != 0 {
				t.Errorf("channel %d, out %v: the real side is connected", ch, lostOut)
			}
		}
	}
}

// TestOneChannelLie is that with a peer who says that both work: it has not seen the Hello that
// shows the cookies by the data channel, hence not its nonce, and answers all the same. Nobody is
// connected, and nothing is delivered.
func TestOneChannelLie(t *testing.T) {
	for name, lie := range map[string]func(c *conn, p *packet){
		"another nonce": func(c *conn, p *packet) {
			a := c.hello(1)
			a.nonce = p.hello.nonce // that of the command channel
			c.post(1, &packet{kind: kHelloAck, conn: c.far, seq: c.una, hello: a})
		},
		"proven": func(c *conn, _ *packet) {
			for ch := range 2 {
				x := c.hello(ch)
				x.proven = 3
				c.post(ch, &packet{kind: kHello, conn: c.far, seq: c.una, hello: x})
			}
		},
		"an Ack": func(c *conn, _ *packet) { c.postAck(fDup) },
		"a Frag": func(c *conn, _ *packet) {
			c.post(0, &packet{kind: kFrag, tag: tagKeep, conn: c.far, seq: c.next})
		},
		"a Frag by data": func(c *conn, _ *packet) {
			c.post(1, &packet{kind: kFrag, tag: tagKeep, conn: c.far, seq: c.next})
		},
		"all": func(c *conn, p *packet) {
			for ch := range 2 {
				a := c.hello(ch)
				a.nonce, a.proven = p.hello.nonce, 3
				c.post(ch, &packet{kind: kHelloAck, conn: c.far, seq: c.una, hello: a})
			}
			c.postAck(fDup)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := realSide(t, btl.Config{HandshakeTimeout: 150 * time.Millisecond})
			h := stranger(t, options{})
			lies := 0
			h.do(func() {
				h.see = func(d *datagram, p *packet) bool {
					if p.kind == kHello && p.hello.find(3) != nil && d.ch == 0 {
						h.take(d, p) // answers it
						for _, c := range h.conns {
							lies++
							lie(c, p)
						}
						return false
					}
					return p.kind == kHello && p.conn == 0 && p.hello.find(3) == nil
				}
			})
			_, err := r.run.Connect(bg, h.name())
			h.do(func() {
				if lies == 0 || !errors.Is(err, btl.ErrUnreachable) || r.kept() != 0 {
					t.Errorf("%d lies: %v; %d messages came", lies, err, r.kept())
				}
			})
		})
	}
}

// TestRestarts has a stranger begin another life 25 times while both sides send.
func TestRestarts(t *testing.T) {
	r := realSide(t, btl.Config{})
	h := stranger(t, options{features: featSack, faults: 3, mtu: 9000})
	echoes := 0
	h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { echoes++ } })
	for life := range 25 {
		c := h.to(t, r)
		h.do(func() {
			for no := range 100 {
				c.send(tagEcho, text(no, no*no*4))
			}
		})
		had := 0
		eventually(t, "some echoes", func() (ok bool) {
			h.do(func() { ok, had = echoes >= 5+life, echoes })
			return ok
		})
		h.do(func() {
			echoes = 0
			if life%5 == 4 {
				c.end(errClosed) // the same life, which has forgotten the connection
			} else {
				h.begin()
			}
		})
		_ = had
	}
	c := h.to(t, r)
	check(t, h.say(t, func() *message { return c.send(tagKeep, []byte("the last one")) }))
	r.mu.Lock()
	defer r.mu.Unlock()
	restarted := 0
	for _, err := range r.ends {
		if errors.Is(err, btl.ErrPeerRestarted) {
			restarted++
		}
	}
	if restarted < 20 {
		t.Errorf("only %d endpoints of the real side have seen a restart: %v", restarted, r.ends)
	}
}

// TestRealRestarts has the real side begin another life five times, at the same addresses, without
// a word: who asks for the life before is told, and what is left of it here ends with the new one.
func TestRealRestarts(t *testing.T) {
	h := stranger(t, options{features: featSack})
	got := make(chan string, 1)
	h.do(func() { h.handlers[7] = func(_ *conn, b []byte) { got <- string(b) } })
	r := realSide(t, btl.Config{})
	at := fabric.Hints{Provider: "udp"}
	h.do(func() { at.Node = h.socksOf(r)[0].String() })
	for life := range 5 {
		c := h.to(t, r)
		old := *r.name
		h.do(func() { // what the real side says when it ends gets lost
			for no := range 50 {
				c.send(tagKeep, text(no, 1000))
			}
			h.pass = func(bool, *datagram) bool { return false }
		})
		gone, cancel := context.WithCancel(bg)
		cancel()
		_ = r.run.Close(gone)
		h.do(func() { h.pass = nil })
		r = realAt(t, at, btl.Config{})
		if !bytes.Equal(r.name.command, old.command) {
			t.Fatal("the other life has another address")
		}
		if life%2 == 0 { // the stranger asks for the old life first
			var stale *conn
			h.do(func() { stale, _ = h.dial(old.incarnation, r.name.command, r.name.data) })
			<-stale.over
			if !errors.Is(stale.err, rejected{3, 0}) {
				t.Errorf("life %d: %v", life, stale.err)
			}
		}
		ep, err := r.run.Connect(bg, h.name())
		check(t, err)
		check(t, r.run.Send(bg, ep, 7, []byte("new")))
		<-got
		<-c.over
		if !errors.Is(c.err, errRestarted) {
			t.Errorf("life %d: the old connection says %v", life, c.err)
		}
	}
}
