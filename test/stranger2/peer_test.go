package stranger2

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
)

// realSide opens the real module over UDP on loopback; handler 1 passes on what it gets.
func realSide(t *testing.T) (*btl.Runner, *name, chan string) {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	check(t, err)
	var cfg btl.Config
	buffers, err := cfg.DomainConfig(infos[0])
	check(t, err)
	domain, err := fabric.Open(infos[0], buffers)
	check(t, err)
	module, err := btl.Open(domain, cfg)
	check(t, err)
	got := make(chan string, 100)
	check(t, module.Handle(1, func(_ *btl.Endpoint, _ btl.Tag, b []byte) { got <- string(b) }))
	n, err := decodeName(module.Name())
	check(t, err)
	r := btl.NewRunner(module, btl.RunnerConfig{}, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = r.Close(ctx) // the stranger does not answer any more
	})
	return r, n, got
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peer is the stranger's end: two sockets, and what a handshake tells.
type peer struct {
	t        *testing.T
	socks    [2]*net.UDPConn
	to       [2]*net.UDPAddr
	tag, far uint64
	nonces   [2]uint64
	cookies  [2][]byte
	number   [2]uint32
	seq      uint32
}

func newPeer(t *testing.T, n *name) *peer {
	t.Helper()
	p := &peer{t: t, tag: rand.Uint64() | 1, seq: rand.Uint32()}
	for i, a := range [][]byte{n.command, n.data} {
		s, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		check(t, err)
		t.Cleanup(func() { _ = s.Close() })
		p.socks[i], p.nonces[i] = s, rand.Uint64()
		p.to[i] = &net.UDPAddr{IP: net.IP(a[3:7]), Port: int(a[1])<<8 | int(a[2])}
	}
	return p
}

func (p *peer) address(i int) []byte {
	a := p.socks[i].LocalAddr().(*net.UDPAddr)
	return append([]byte{4, byte(a.Port >> 8), byte(a.Port)}, a.IP.To4()...)
}

func (p *peer) hello(i int, proven byte) *packet {
	h := &hello{
		incarnation: 77, tag: p.tag, nonce: p.nonces[i], window: 64, fragmentMax: 1 << 20,
		mtu: 1400, command: 700, credit: 1, versionMin: 2, versionMax: 2,
		channel: byte(i), proven: proven,
	}
	h.ext = []extension{{1, p.address(0)}, {2, p.address(1)}}
	if p.far == 0 && p.cookies[0] != nil && p.cookies[1] != nil {
		h.ext = append(h.ext, extension{3, p.cookies[0]}, extension{4, p.cookies[1]})
	}
	return &packet{kind: kHello, conn: p.far, seq: p.seq, hello: h}
}

func (p *peer) send(i int, k *packet) {
	if k.conn != 0 {
		p.number[i]++
		k.number = p.number[i]
	}
	p.raw(i, k.encode())
}

func (p *peer) raw(i int, b []byte) {
	_, err := p.socks[i].WriteToUDP(b, p.to[i])
	check(p.t, err)
}

// read returns the next packet of a channel that is no Ping, which it answers; nil after wait.
func (p *peer) read(i int, wait time.Duration) *packet {
	p.t.Helper()
	check(p.t, p.socks[i].SetReadDeadline(time.Now().Add(wait)))
	b := make([]byte, 65536)
	for {
		n, _, err := p.socks[i].ReadFromUDP(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		check(p.t, err)
		k, err := decode(bytes.Clone(b[:n]))
		if err != nil {
			p.t.Fatalf("no packet by the document: %x", b[:n])
		}
		if k.kind != kPing {
			return k
		}
		p.send(i, &packet{kind: kPong, conn: p.far, nonce: k.nonce})
	}
}

// want reads on until a packet of that kind comes.
func (p *peer) want(i int, kind byte) *packet {
	p.t.Helper()
	for {
		k := p.read(i, 3*time.Second)
		if k == nil {
			p.t.Fatalf("channel %d: no packet of kind %d came", i, kind)
		}
		if k.kind == kind {
			return k
		}
	}
}

// connect is the handshake of section 7, by the initiator.
func (p *peer) connect() {
	p.t.Helper()
	for i := range 2 {
		p.send(i, p.hello(i, 0))
		r := p.want(i, kRetry)
		if r.conn != p.tag || r.retry.nonce != p.nonces[i] ||
			!bytes.Equal(r.retry.address, p.address(i)) {
			p.t.Fatalf("Retry %+v", r.retry)
		}
		p.cookies[i] = r.retry.cookie
	}
	hellos := [2]*packet{p.hello(0, 0), p.hello(1, 0)}
	for i := range 2 {
		p.send(i, hellos[i])
		a := p.want(i, kHelloAck)
		if a.conn != p.tag || a.hello.nonce != p.nonces[i] || a.hello.proven != 0 {
			p.t.Fatalf("HelloAck %+v", a.hello)
		}
		p.far = a.hello.tag
	}
	p.send(0, p.hello(0, 3))
	if a := p.want(0, kHelloAck); a.hello.proven != 3 {
		p.t.Fatalf("not confirmed: %+v", a.hello)
	}
}

// say sends a text in a Frag to handler 1 and waits until it is acknowledged.
func (p *peer) say(tag byte, text string) {
	p.t.Helper()
	p.send(0, &packet{kind: kFrag, tag: tag, conn: p.far, seq: p.seq, payload: []byte(text)})
	for p.want(0, kAck).ack != p.seq {
	}
	p.seq++
}

func TestConnect(t *testing.T) {
	_, n, got := realSide(t)
	p := newPeer(t, n)
	p.connect()
	p.say(1, "")
	p.say(1, "hello")
	if a, b := <-got, <-got; a != "" || b != "hello" {
		t.Errorf("%q, %q came", a, b)
	}
	p.send(0, &packet{kind: kFrag, tag: 9, conn: p.far, seq: p.seq})
	if k := p.want(0, kNack); k.tag != 2 || k.seq != p.seq {
		t.Errorf("a tag without handler: Nack %d of %d", k.tag, k.seq)
	}
	p.say(tagVoid, "")
	p.say(tagBye, "")
}

// TestOtherVersion is section 9: a Hello of version 1 gets a Reject in its layout.
func TestOtherVersion(t *testing.T) {
	_, n, _ := realSide(t)
	p := newPeer(t, n)
	b := make([]byte, 208)
	b[0], b[1] = 0xB7, 0x14
	le.PutUint64(b[32:], p.tag)
	b[74] = byte(copy(b[80:], p.address(0)))
	p.raw(0, b)
	check(t, p.socks[0].SetReadDeadline(time.Now().Add(3*time.Second)))
	k, err := p.socks[0].Read(b)
	check(t, err)
	want := make([]byte, 26)
	want[0], want[1], want[3], want[20], want[24], want[25] = 0xB7, 0x17, 1, 2, 2, 2
	le.PutUint64(want[4:], p.tag)
	if !bytes.Equal(b[:k], want) {
		t.Errorf("got %x, want %x", b[:k], want)
	}
}

// TestMutations changes bits of packets for a living connection: what is no packet any more by
// the document gets no answer, and harms nothing.
func TestMutations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	_, n, got := realSide(t)
	p := newPeer(t, n)
	p.connect()
	p.say(1, "before")
	for p.read(0, 300*time.Millisecond) != nil { // Pings, the last Ack
	}
	_, packets := vectors(t)
	packets = packets[:len(packets)-1] // but the name
	for sent := 0; sent < 3000; {
		b := bytes.Clone(packets[dice.IntN(len(packets))])
		le.PutUint64(b[4:], p.far)
		b[dice.IntN(len(b))] ^= byte(1 << dice.IntN(8))
		if _, err := decode(b); err == nil || b[1]>>4 != 2 {
			continue
		}
		p.raw(dice.IntN(2), b)
		if sent++; sent%200 == 0 {
			time.Sleep(5 * time.Millisecond) // the real one has its sockets read
		}
	}
	for i := range 2 {
		if k := p.read(i, 200*time.Millisecond); k != nil {
			t.Errorf("channel %d: what is no packet was answered: %+v", i, k)
		}
	}
	p.say(1, "after")
	if a, b := <-got, <-got; a != "before" || b != "after" {
		t.Errorf("%q, %q came", a, b)
	}
}
