package pml

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// A peer that accepts no control message is given up at the next one. Whatever the Layer does for
// this peer at that moment, each request ends exactly once, and nothing of the peer stays queued.
func TestGivenUpInside(t *testing.T) {
	t.Parallel()
	const size = 300 << 10 // announced
	announce := head{kind: kindAnnounce, a: 1, b: 7, c: size}
	for name, c := range map[string]func(*victim) func(){
		"announced message": func(v *victim) func() {
			v.recv(&v.r, make([]byte, size), nil)
			return func() { v.say(announce, nil) }
		},
		"announced message without memory": func(v *victim) func() {
			v.recv(&v.r, nil, nil)
			return func() { v.say(announce, nil) }
		},
		"announced message received later": func(v *victim) func() {
			v.say(announce, nil)
			return func() { v.recv(&v.r, make([]byte, size), nil) }
		},
		"synchronous message": func(v *victim) func() {
			v.recv(&v.r, make([]byte, 8), nil)
			return func() { v.say(head{kind: kindEager, flags: flagSync, a: 1, b: 7}, make([]byte, 8)) }
		},
		"small message": func(v *victim) func() {
			v.recv(&v.r, make([]byte, 8), nil)
			return func() { v.say(head{kind: kindEager, a: 1}, make([]byte, 8)) }
		},
		"end of puts": func(v *victim) func() {
			v.recv(&v.r, make([]byte, size), nil)
			v.say(announce, nil)
			return func() { v.say(head{kind: kindFin, a: v.r.id}, nil) }
		},
		"last packet": func(v *victim) func() {
			v.recv(&v.r, nil, flat(make([]byte, 100)))
			v.say(announce, nil)
			return func() { v.say(head{kind: kindData, a: v.r.id}, make([]byte, 100)) }
		},
		"reply to an abandoned send": func(v *victim) func() {
			var s Request
			id := v.send(&s, make([]byte, size))
			v.l.Abandon(&s, btl.ErrClosed)
			rest := v.l.requests.get(id, announced)
			rest.OnDone = v.count
			return func() { v.say(head{kind: kindClear, a: id, b: 1, d: size}, nil) }
		},
		"put that cannot begin": func(v *victim) func() {
			id := v.send(&v.r, make([]byte, size))
			v.say(head{kind: kindClear, a: id, b: 1, d: size}, nil)
			return func() { v.p.failPut(v.now, &v.r, btl.ErrTooLarge) }
		},
		"put that the peer refuses": func(v *victim) func() {
			id := v.send(&v.r, make([]byte, size))
			f, err := v.p.ep.Alloc(0, 8)
			if err != nil {
				t.Fatal(err)
			}
			v.say(head{kind: kindClear, a: id, b: 1, d: size}, nil)
			f.Context = id
			return func() { v.l.putDone(f, btl.ErrRemoteAccess) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			act := c(v)
			v.fill()
			act()
			v.l.done.settle()
			if !errors.Is(v.p.err, ErrProtocol) {
				t.Fatalf("the peer is not given up: %v", v.p.err)
			}
			if v.ends != 1 || v.r.state != idle {
				t.Errorf("%d ends, state %d", v.ends, v.r.state)
			}
			if err := v.l.CheckIdle(); err != nil {
				t.Error(err)
			}
		})
	}
}

// victim is a Layer with one peer, which acknowledges nothing.
type victim struct {
	t    *testing.T
	l    *Layer
	p    *Peer
	now  btl.Time
	next uint32 // number of the next envelope of the peer
	r    Request
	ends int // calls of r.OnDone
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	// With these EnvelopesMax, the Layer reports each received message.
	step, layers := memLayers(t, 2, Config{EnvelopesMax: 4})
	connected(t, step, layers[0], layers[1])
	v := &victim{t: t, l: layers[1], p: connected(t, step, layers[1], layers[0])}
	v.now = step()
	v.r.OnDone = v.count
	return v
}

func (v *victim) count(*Request) {
	if v.ends++; v.ends == 10 {
		v.t.Fatal("a request ends without end")
	}
}

// say is the arrival of a message of the peer.
func (v *victim) say(h head, data []byte) {
	if h.kind == kindEager || h.kind == kindAnnounce {
		h.number = v.next
		v.next++
	}
	b := make([]byte, h.bytes(), h.bytes()+len(data))
	h.put(b)
	v.l.arrive(v.p.ep, 0, append(b, data...))
}

// fill fills the queue of control messages to the peer.
func (v *victim) fill() {
	for v.p.control.Len() < 8*v.l.cfg.EnvelopesMax {
		v.l.answer(v.now, v.p, head{kind: kindMatched, a: 1})
	}
	if v.p.err != nil {
		v.t.Fatal(v.p.err)
	}
}

func (v *victim) recv(r *Request, mem []byte, layout Layout) {
	r.Layout = layout
	if err := v.l.Recv(v.now, r, nil, 1, exactly, mem); err != nil {
		v.t.Fatal(err)
	}
}

// send begins an announced send, and returns the id of the send.
func (v *victim) send(r *Request, data []byte) uint64 {
	if err := v.l.Send(v.now, r, v.p, 1, data, Announce); err != nil {
		v.t.Fatal(err)
	}
	if r.state != announced {
		v.t.Fatalf("state %d", r.state)
	}
	return r.id
}

// flat is a Layout of contiguous memory.
type flat []byte

func (f flat) Bytes() int                  { return len(f) }
func (f flat) Gather(to []byte, at int)    { copy(to, f[at:]) }
func (f flat) Scatter(from []byte, at int) { copy(f[at:], from) }
func (f flat) Run(at int) []byte           { return f[at:] }

// After a peer is given up while its announced message is matched, other peers get regions.
func TestGivenUpHoldsNobody(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	step, layers := memLayers(t, 3, Config{EnvelopesMax: 4})
	good, l := layers[0], layers[2]
	to := connected(t, step, good, l)
	connected(t, step, layers[1], l)
	v := &victim{t: t, l: l, p: connected(t, step, l, layers[1]), now: step()}
	// All regions are in use, so that the receives wait for one.
	held := make([]*btl.Region, l.m.Config().RegionsMax)
	for i := range held {
		var err error
		if held[i], err = l.m.Expose(make([]byte, 8), btl.RemoteWrite); err != nil {
			t.Fatal(err)
		}
	}
	v.recv(&v.r, make([]byte, size), nil)
	v.fill()
	v.say(head{kind: kindAnnounce, a: 1, b: 7, c: size}, nil)
	if v.p.err == nil {
		t.Fatal("the peer is not given up")
	}
	var send, recv Request
	v.recv(&recv, make([]byte, size), nil)
	if err := good.Send(step(), &send, to, 1, make([]byte, size), Standard); err != nil {
		t.Fatal(err)
	}
	until(t, step, func() bool { return l.hosts.homeless.first != nil })
	for _, r := range held {
		r.Close()
	}
	until(t, step, recv.Done)
	if recv.Err() != nil || !v.r.Done() || !errors.Is(v.r.Err(), ErrPeer) {
		t.Errorf("%v; the receive from the peer: done %v, %v", recv.Err(), v.r.Done(), v.r.Err())
	}
}
