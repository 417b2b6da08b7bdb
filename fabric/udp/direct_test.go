//go:build linux

package udp

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

// post is an endpoint with helpers for sending and receiving.
type post struct {
	*endpoint
	t    *testing.T
	free fabric.Buf
	next uint64          // number of the next datagram
	got  map[uint64]bool // numbers that have arrived
}

func openPost(t *testing.T, node string, o Options) *post {
	t.Helper()
	p := New(o)
	infos, err := p.GetInfo(fabric.Hints{Node: node})
	if err != nil || len(infos) == 0 {
		t.Fatalf("%s: %d infos, %v", node, len(infos), err)
	}
	d, err := p.Open(infos[0], fabric.DomainConfig{Buffers: 513, BufferBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	ep, err := d.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for b := range fabric.Buf(512) {
		if _, err := ep.Recv([]fabric.Buf{b}); err != nil {
			t.Fatal(err)
		}
	}
	return &post{endpoint: ep.(*endpoint), t: t, free: 512, got: map[uint64]bool{}}
}

func (p *post) reach(q *post) fabric.Addr {
	p.t.Helper()
	a, err := p.domain.Insert(q.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// tell sends a numbered datagram, and returns its number.
func (p *post) tell(to fabric.Addr) uint64 {
	p.t.Helper()
	p.next++
	binary.LittleEndian.PutUint64(p.domain.buffers.bytes(p.free), p.next)
	if _, err := p.Post([]fabric.Send{{To: to, Buf: p.free, Len: 8}}); err != nil {
		p.t.Fatal(err)
	}
	return p.next
}

// hear polls for a while, and reports whether the datagram with the given number came.
func (p *post) hear(number uint64) bool {
	p.t.Helper()
	var out [8]fabric.Completion
	for range 100 {
		n, err := p.Poll(out[:])
		if err != nil {
			p.t.Fatal(err)
		}
		for _, c := range out[:n] {
			p.got[binary.LittleEndian.Uint64(p.domain.buffers.bytes(c.Buf))] = true
			if _, err := p.Recv([]fabric.Buf{c.Buf}); err != nil {
				p.t.Fatal(err)
			}
		}
		if p.got[number] {
			return true
		}
	}
	return false
}

// lead makes an endpoint send to another until there is a connected socket. All datagrams must
// arrive.
func lead(p *post, to fabric.Addr, q *post, calls int) {
	p.t.Helper()
	for range calls {
		if n := p.tell(to); !q.hear(n) {
			p.t.Fatalf("datagram %d did not arrive", n)
		}
	}
}

func TestDirectSocket(t *testing.T) {
	a, b := openPost(t, "127.0.0.1", Options{}), openPost(t, "127.0.0.1", Options{})
	// The endpoint c and the second address of b are no peers of a's connected socket.
	c, home := openPost(t, "127.0.0.1", Options{}), openPost(t, "127.0.0.2", Options{})
	toB, toC := a.reach(b), a.reach(c)
	lead(a, toB, b, directLead-1)
	if a.direct.sock != nil {
		t.Fatal("connects to a peer at once")
	}
	lead(a, toB, b, 2)
	if a.direct.sock == nil || a.total().connects != 1 {
		t.Fatalf("no socket for the only peer: %+v", a.direct)
	}
	sent := a.total().direct
	lead(a, toB, b, 10)
	if n := a.total().direct - sent; n != 10 {
		t.Errorf("%d of 10 messages went through the socket for the peer", n)
	}
	for name, q := range map[string]*post{"the peer": b, "a stranger": c, "another address": home} {
		q.next = uint64(len(name)) << 32
		back := q.reach(a)
		for range 20 {
			if n := q.tell(back); !a.hear(n) {
				t.Fatalf("what %s sends does not arrive", name)
			}
		}
	}
	lead(a, toC, c, 3) // through the first socket
	at := &inet.Local{Addr: a.sock.name.Addr(), Port: a.sock.name.Port()}
	if _, err := openSharing(at, Options{}, -1, false); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a stranger's socket on the same port: %v, want %v", err, unix.EADDRINUSE)
	}
}

// TestDirectMoves changes the peer with the majority of the sends.
func TestDirectMoves(t *testing.T) {
	a, b := openPost(t, "127.0.0.1", Options{}), openPost(t, "127.0.0.1", Options{})
	c := openPost(t, "127.0.0.1", Options{})
	toB, toC, back := a.reach(b), a.reach(c), b.reach(a)
	lead(a, toB, b, directLead+1)
	if a.direct.to != toB {
		t.Fatal("no socket for the only peer")
	}
	b.next = 1 << 32
	waiting := []uint64{b.tell(back), b.tell(back)} // in the socket that will be closed
	for range 2 * directPosts {
		a.tell(toC)
	}
	for _, n := range waiting {
		if !a.hear(n) {
			t.Error("what waited in the socket is lost")
		}
	}
	for range 2 * directLead {
		a.hear(0)
		a.tell(toC)
	}
	if a.direct.to != toC || a.total().connects != 2 {
		t.Errorf("%d sockets so far; the majority has moved and the socket has not", a.total().connects)
	}
	if err := a.domain.Remove(toC); err != nil {
		t.Fatal(err)
	}
	if a.hear(0); a.direct.sock != nil {
		t.Error("a socket for a peer that was removed")
	}
}

func TestNoDirectSocket(t *testing.T) {
	off := openPost(t, "127.0.0.1", Options{NoConnect: true})
	many := openPost(t, "127.0.0.1", Options{})
	var peers []fabric.Addr
	for range 3 {
		q := openPost(t, "127.0.0.1", Options{})
		peers = append(peers, many.reach(q))
		off.reach(q)
	}
	for i := range 3 * 4 * directLead {
		many.tell(peers[i%3])
		off.tell(peers[0])
	}
	for name, p := range map[string]*post{"three peers": many, "noconnect": off} {
		if n := p.total().connects; n != 0 {
			t.Errorf("%s: %d sockets connected", name, n)
		}
	}
	attrs := off.domain.Info().Attrs
	if !slices.Contains(attrs, fabric.Attr{Name: "connect", Value: "off: by option"}) {
		t.Errorf("does not tell: %v", attrs)
	}
}

// TestLeavingFlood checks a closing socket that still receives datagrams. The first socket must
// still be read, and the closing socket must be closed.
func TestLeavingFlood(t *testing.T) {
	a, b, c := openPost(t, "127.0.0.1", Options{}), openPost(t, "127.0.0.1", Options{}),
		openPost(t, "127.0.0.1", Options{})
	toB := a.reach(b)
	lead(a, toB, b, directLead+2)
	if a.direct.sock == nil {
		t.Fatal("no socket: the test shows nothing")
	}
	if err := a.domain.Remove(toB); err != nil { // for example because the connection has ended
		t.Fatal(err)
	}
	back := b.reach(a)
	c.next = 1 << 32
	want, heard := c.tell(c.reach(a)), false
	for range 2 * directLeaving {
		for range 3 { // a poll for one takes one
			b.tell(back)
		}
		var out [1]fabric.Completion
		n, err := a.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			continue
		}
		heard = heard || binary.LittleEndian.Uint64(a.domain.buffers.bytes(out[0].Buf)) == want
		if _, err := a.Recv([]fabric.Buf{out[0].Buf}); err != nil {
			t.Fatal(err)
		}
		var drain [64]fabric.Completion
		_, _ = b.Poll(drain[:])
	}
	if !heard {
		t.Error("a peer that is removed floods, and another one is not heard")
	}
	if a.direct.sock != nil {
		t.Error("the socket of a peer that is removed does not go")
	}
}

// TestDirectFails checks a peer to which no socket can be connected. Other peers still get a
// connected socket. After repeated failures the endpoint stops trying.
func TestDirectFails(t *testing.T) {
	a, b := openPost(t, "127.0.0.1", Options{}), openPost(t, "127.0.0.1", Options{})
	name, _, err := a.domain.ParseAddress("192.0.2.1:9") // unreachable from a loopback address
	if err != nil {
		t.Fatal(err)
	}
	far, err := a.domain.Insert(name)
	if err != nil {
		t.Fatal(err)
	}
	toB := a.reach(b)
	a.openDirect(far)
	if a.direct.sock != nil {
		t.Fatal("connected: the test shows nothing")
	}
	lead(a, toB, b, directLead+2)
	if a.direct.sock == nil {
		t.Errorf("no socket for one peer after another could not have it: %q", a.direct.why)
	}
	a.closeDirect()
	for range directFails {
		if a.direct.off {
			t.Error("given up too early")
		}
		a.openDirect(far)
	}
	if !a.direct.off {
		t.Errorf("not given up after %d times", directFails)
	}
}
