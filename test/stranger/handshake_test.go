//go:build cgo

package stranger

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
)

// raw is a module's two sockets without any protocol.
type raw struct {
	t     *testing.T
	socks [channels]*net.UDPConn
	names [channels][]byte
	to    [channels]netip.AddrPort // the module's

	sentinel uint64 // how many packets of silence were sent
}

func openRaw(t *testing.T, m *module) *raw {
	t.Helper()
	r := &raw{t: t}
	for ch := range r.socks {
		sock, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		must(t, err)
		t.Cleanup(func() { _ = sock.Close() })
		r.socks[ch], r.names[ch] = sock, address("ofi/udp", sock.LocalAddr().(*net.UDPAddr).AddrPort())
	}
	n, err := DecodeName(m.name)
	must(t, err)
	for ch, name := range [channels][]byte{n.Command, n.Data} {
		r.to[ch], err = parseAddress(name)
		must(t, err)
	}
	return r
}

func (r *raw) send(channel int, b []byte) {
	r.t.Helper()
	_, err := r.socks[channel].WriteToUDPAddrPort(b, r.to[channel])
	must(r.t, err)
}

// receive returns the next datagram of a channel, nil if none comes.
func (r *raw) receive(channel int, wait time.Duration) []byte {
	r.t.Helper()
	buf := make([]byte, 65536)
	must(r.t, r.socks[channel].SetReadDeadline(time.Now().Add(wait)))
	n, err := r.socks[channel].Read(buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// silence checks that nothing is answered to what was sent so far. On each channel it sends a
// Hello for another incarnation behind that, whose Reject changes nothing at the module; what
// comes before the Reject is an answer to something else.
func (r *raw) silence(after string) {
	r.t.Helper()
	for ch := range channels {
		r.sentinel++
		last := r.hello(ch)
		last.Hello.Expected, last.Hello.Tag = 1, 1<<32+r.sentinel
		r.send(ch, last.Encode(nil))
		for {
			b := r.receive(ch, patience)
			p, err := Decode(b)
			if err == nil && p.Kind == kindReject && p.Conn == last.Hello.Tag {
				break
			}
			r.t.Errorf("%s: answered on channel %d with %x", after, ch, b)
			if b == nil {
				return
			}
		}
	}
}

// hello is a Hello of this socket pair, to be altered.
func (r *raw) hello(ch int) *Packet {
	return &Packet{Version: version, Kind: kindHello, Seq: 100, Hello: &Hello{
		Incarnation: 0xabc, Tag: 0xdef, Nonce: 0x77, WindowPackets: 64, FragmentBytesMax: 1 << 20,
		MTUBytes: 1472, CommandBytes: 768, Credit: 1, VersionMin: 2, VersionMax: 2, Channel: uint8(ch),
		AckDelayUs: 1000, CommandName: r.names[command], DataName: r.names[data],
	}}
}

// meet has the module give the cookies for a Hello, and puts them in.
func (r *raw) meet(h *Hello) {
	r.t.Helper()
	for ch, to := range []*[]byte{&h.CommandCookie, &h.DataCookie} {
		ask := *h
		ask.Channel, ask.CommandCookie, ask.DataCookie = uint8(ch), nil, nil
		r.send(ch, (&Packet{Version: version, Kind: kindHello, Seq: 100, Hello: &ask}).Encode(nil))
		for *to == nil {
			p, err := Decode(r.receive(ch, patience))
			must(r.t, err)
			if p.Kind == kindRetry && p.Conn == h.Tag {
				*to = p.Retry.Cookie
			}
		}
	}
}

// TestHelloAnswers has the rules for the answer: one, no longer, on the same channel. Before the
// cookies are shown nothing is remembered.
func TestHelloAnswers(t *testing.T) {
	t.Parallel()
	m := openModule(t, btl.Config{HandshakeTimeout: time.Minute})
	r := openRaw(t, m)
	hello := r.hello(command)
	for ch := range channels {
		for range 2 {
			hello.Hello.Channel = uint8(ch)
			pkt := hello.Encode(nil)
			r.send(ch, pkt)
			b := r.receive(ch, patience)
			a, err := Decode(b)
			must(t, err)
			if len(b) > len(pkt) || a.Kind != kindRetry || a.Conn != 0xdef || a.Retry.Nonce != 0x77 ||
				int(a.Retry.Channel) != ch || !bytes.Equal(a.Retry.Addr, r.names[ch]) {
				t.Errorf("channel %d, %d bytes: %d bytes, %+v", ch, len(pkt), len(b), a)
			}
			r.silence("one answer")
		}
	}
	if n := m.Stats().Endpoints; n != 0 {
		t.Errorf("%d endpoints before anything was proven", n)
	}
	r.meet(hello.Hello)
	half := *hello.Hello
	half.DataCookie = append(bytes.Clone(half.CommandCookie[:4]), half.DataCookie[4:]...)
	half.DataCookie[10] ^= 1
	half.Channel = command
	r.send(command, (&Packet{Version: version, Kind: kindHello, Hello: &half}).Encode(nil))
	if a, err := Decode(r.receive(command, patience)); err != nil || a.Kind != kindRetry {
		t.Errorf("one cookie of two: %+v, %v", a, err)
	}
	var tag uint64
	for ch := range channels {
		for range 2 {
			hello.Hello.Channel = uint8(ch)
			pkt := hello.Encode(nil)
			r.send(ch, pkt)
			b := r.receive(ch, patience)
			a, err := Decode(b)
			must(t, err)
			if len(b) > len(pkt) || a.Kind != kindHelloAck || a.Conn != 0xdef || a.Hello.Nonce != 0x77 ||
				int(a.Hello.Channel) != ch {
				t.Errorf("channel %d of %d bytes: %d bytes, %+v", ch, len(pkt), len(b), a)
			}
			if tag == 0 {
				tag = a.Hello.Tag
			}
			if a.Hello.Tag != tag {
				t.Error("repetitions made another endpoint")
			}
			r.silence("one answer")
		}
	}
	r.send(data, r.hello(command).Encode(nil))
	r.silence("a Hello of the command channel on the data channel")
	r.send(command, r.hello(data).Encode(nil))
	r.silence("a Hello of the data channel on the command channel")
	stray := r.hello(command)
	stray.Conn = tag ^ 1<<63
	r.send(command, stray.Encode(nil))
	r.silence("a Hello for no endpoint")
	for _, kind := range []uint8{kindFrag, kindNack, kindAck} {
		p := &Packet{Version: version, Kind: kind, Tag: 1, Conn: tag ^ 1<<63}
		if kind == kindAck {
			p.Tag, p.Flags = 0, flagAck
		}
		r.send(command, p.Encode(nil))
	}
	r.silence("packets for no endpoint")
	eventually(t, "the module has one endpoint", func() bool { return m.Stats().Endpoints == 1 })
}

// TestOtherVersion talks to the module as one of versions 1 and 3 would, by what never changes.
func TestOtherVersion(t *testing.T) {
	m := openModule(t, btl.Config{})
	r := openRaw(t, m)
	old := bytes.Repeat([]byte{0x5a}, 300) // a body of unknown meaning, but for the fixed fields
	old[0], old[1] = magic, 1<<4|kindHello
	le.PutUint64(old[32:], 0x2222)
	old[74] = uint8(len(r.names[command]))
	copy(old[80:144], append(bytes.Clone(r.names[command]), make([]byte, 64)...))
	for _, b := range [][]byte{old, old[:208]} {
		r.send(command, b)
		got := r.receive(command, patience)
		if len(got) != 26 || got[0] != magic || got[1] != 1<<4|kindReject || got[3] != rejectVersion ||
			le.Uint64(got[4:]) != 0x2222 || got[20] != 2 || got[24] != 2 || got[25] != 2 {
			t.Errorf("a Hello of version 1 was answered with %x", got)
		}
	}
	r.send(command, old[:207])
	r.silence("a Hello too short for version 1")
	hello := bytes.Repeat([]byte{0x5a}, 104)
	hello[0], hello[1] = magic, 3<<4|kindHello
	le.PutUint64(hello[40:], 0x2222)
	le.PutUint64(hello[56:], 0x3333)
	hello = append(append(hello, 1, uint8(len(r.names[command]))), r.names[command]...)
	r.send(command, hello)
	got := r.receive(command, patience)
	if len(got) != 44 || got[0] != magic || got[1] != 3<<4|kindReject || got[3] != rejectVersion ||
		le.Uint64(got[4:]) != 0x2222 || got[32] != 2 || got[33] != 2 || le.Uint64(got[36:]) != 0x3333 {
		t.Errorf("a Hello of version 3 was answered with %x", got)
	}
	for kind := range uint8(16) {
		if kind != kindHello {
			b := bytes.Clone(hello)
			b[1] = 3<<4 | kind
			r.send(command, b)
		}
	}
	r.silence("other packets of version 3")
	if n := m.Stats().Endpoints; n != 0 {
		t.Errorf("%d endpoints", n)
	}
}

// TestStrangerOfOtherVersion lets the module call somebody who speaks versions 3 to 4 only.
func TestStrangerOfOtherVersion(t *testing.T) {
	a := called(t, btl.Config{})
	p := a.next(0)
	reject := Packet{
		Version: p.Version, Kind: kindReject, Tag: rejectVersion, Conn: p.Hello.Tag,
		VersionMin: 3, VersionMax: 4, Nonce: p.Hello.Nonce,
	}
	forged := reject
	forged.Conn ^= 1 << 40
	a.send(command, forged.Encode(nil))
	forged = reject
	forged.Nonce++
	a.send(command, forged.Encode(nil))
	a.send(command, reject.Encode(nil))
	if err := receive(t, a.connect, "the end of Connect"); !errors.Is(err, btl.ErrVersion) {
		t.Errorf("Connect: %v", err)
	}
}

// TestRejects has the refusals between modules of the same version.
func TestRejects(t *testing.T) {
	m, p := openModule(t, btl.Config{PeersMax: 1}), openPeer(t, Config{})
	stale := func(name []byte) []byte {
		n, err := DecodeName(name)
		must(t, err)
		n.Incarnation ^= 1 << 20
		return n.Encode()
	}
	c, err := p.Dial(stale(m.name))
	must(t, err)
	if err := c.Wait(); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "reason 3") {
		t.Errorf("the stranger with an old name: %v", err)
	}
	if _, err := m.Connect(within(t), stale(p.Name())); !errors.Is(err, btl.ErrStale) {
		t.Errorf("the module with an old name: %v", err)
	}
	eventually(t, "the module has forgotten it", func() bool { return m.Stats().Endpoints == 0 })
	first, err := p.Dial(m.name)
	must(t, err)
	must(t, first.Wait())
	second, err := openPeer(t, Config{}).Dial(m.name)
	must(t, err)
	err = second.Wait()
	if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "reason 2") {
		t.Errorf("a second peer of a module that takes one: %v", err)
	}
	must(t, first.Send(tagCheck, nil))
}

// answerer is a responder by hand.
type answerer struct {
	*raw
	connect chan error
}

// called opens a responder by hand and lets a module call it.
func called(t *testing.T, cfg btl.Config) *answerer {
	t.Helper()
	m := openModule(t, cfg)
	a := &answerer{raw: openRaw(t, m), connect: make(chan error, 1)}
	name := Name{
		Provider: "ofi/udp", Command: a.names[command], Data: a.names[data],
		Incarnation: 7, MTUBytes: 1472, CommandBytes: 768,
	}
	go func() {
		_, err := m.Connect(t.Context(), name.Encode())
		a.connect <- err
	}()
	return a
}

// next returns the next Hello by one of the channels.
func (a *answerer) next(chs ...int) *Packet {
	a.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for ch := range channels {
			b := a.receive(ch, time.Millisecond)
			if b == nil {
				continue
			}
			p, err := Decode(b)
			must(a.t, err)
			if p.Kind == kindHello && slices.Contains(chs, ch) {
				return p
			}
		}
	}
	a.t.Fatalf("no Hello by a channel of %v", chs)
	return nil
}

func (a *answerer) answer(to *Packet, tag uint64, seq uint32) {
	ack := a.hello(int(to.Hello.Channel))
	ack.Kind, ack.Conn, ack.Seq = kindHelloAck, to.Hello.Tag, seq
	ack.Hello.Incarnation, ack.Hello.Tag, ack.Hello.Nonce = 7, tag, to.Hello.Nonce
	a.send(int(to.Hello.Channel), ack.Encode(nil))
}

// TestOneChannel: a channel by which no answer comes, or a wrong one, is not trusted with data,
// whatever the peer says and sends.
func TestOneChannel(t *testing.T) {
	t.Parallel()
	for lost := range channels {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			a := called(t, btl.Config{HandshakeTimeout: time.Second})
			a.answer(a.next(1-lost), 0x99, 5)
			for range 2 {
				p := a.next(lost)
				for p.Conn != 0x99 { // it was under way before the first answer
					p = a.next(lost)
				}
				if p.Hello.Proven&(1<<lost) != 0 {
					t.Errorf("channel %d again: proven %x", lost, p.Hello.Proven)
				}
				p.Hello.Nonce++ // as who does not get what goes there
				a.answer(p, 0x99, 5)
				say := &Packet{Version: version, Kind: kindFrag, Conn: p.Hello.Tag, Number: 1, Seq: 5, Tag: 1}
				a.send(command, say.Encode(nil))
			}
			if err := receive(t, a.connect, "the end"); !errors.Is(err, btl.ErrUnreachable) {
				t.Errorf("without channel %d: %v", lost, err)
			}
		})
	}
}

// TestLearnAnew: the responder forgets its half-open endpoint and makes another, with another tag:
// what was proven before counts no more.
func TestLearnAnew(t *testing.T) {
	a := called(t, btl.Config{})
	a.answer(a.next(command), 0x99, 5)
	again := a.next(data)
	for again.Conn != 0x99 || again.Hello.Proven != 1 { // it was under way
		again = a.next(data)
	}
	if again.Hello.Expected != 7 {
		t.Errorf("the Hello expects incarnation %x", again.Hello.Expected)
	}
	a.answer(again, 0xaa, 5000)
	p := a.next(command)
	for p.Conn != 0xaa { // it was under way
		p = a.next(command)
	}
	if p.Hello.Proven != 2 {
		t.Errorf("the command channel again: proven %x", p.Hello.Proven)
	}
	a.answer(p, 0xaa, 5000)
	must(t, receive(t, a.connect, "the connection"))
	p = a.next(command)
	for p.Conn == 0 || p.Hello.Proven != provenAll { // asked after a silence, or under way
		p = a.next(command)
	}
	if p.Conn != 0xaa || p.Seq != again.Seq {
		t.Errorf("the request for confirmation: %+v %+v, first number %d", p, p.Hello, again.Seq)
	}
}

// TestNewTag: the module has answered one end of the peer by its own tag when another end of it
// proves itself. It never takes both: the second one is answered by another endpoint, and the
// handshake that has met both begins again under a new tag.
func TestNewTag(t *testing.T) {
	a := called(t, btl.Config{HandshakeTimeout: patience})
	first := a.next(command)
	own := first.Hello.Tag
	tagFor := func(tag uint64) uint64 { // what the module answers to an end that calls it
		hello := a.hello(command)
		hello.Hello.Incarnation, hello.Hello.Tag = 7, tag
		a.meet(hello.Hello)
		a.send(command, hello.Encode(nil))
		for {
			p, err := Decode(a.receive(command, patience))
			must(t, err)
			if p.Kind == kindHelloAck && p.Conn == tag {
				return p.Hello.Tag
			}
		}
	}
	if got := tagFor(0x51); got != own {
		t.Errorf("the first end was told tag %x, the module connects with %x", got, own)
	}
	if tagFor(0x52) == own {
		t.Error("the second end was told the same tag as the first")
	}
	if tagFor(0x51) != own {
		t.Error("the first end was told another tag than before")
	}
	a.answer(first, 0x52, 5)
	for ch := range channels {
		p := a.next(ch)
		for p.Hello.Tag == own { // it was under way
			p = a.next(ch)
		}
		if ch == command && (p.Conn != 0 || p.Hello.Proven != 0 || p.Hello.Expected != 7) {
			t.Errorf("under the new tag: %+v %+v", p, p.Hello)
		}
		a.answer(p, 0x52, 5)
	}
	must(t, receive(t, a.connect, "the connection"))
}

// TestForgedHello: a Hello in the name of somebody who did not send it harms no connection of his.
func TestForgedHello(t *testing.T) {
	pr := connect(t, btl.Config{}, Config{}, false)
	flows(t, pr)
	r := openRaw(t, pr.m)
	r.names = pr.p.names // the answers go to the stranger
	strays := func(tag uint64) int { return pr.p.Count(fmt.Sprintf("unknown conn %x", tag)) }
	// fence waits until all that was sent before is answered. It returns how many HelloAcks the
	// stranger has got.
	fence := func(tag uint64) int {
		for ch := range channels {
			last := r.hello(ch)
			last.Hello.Tag = tag + uint64(ch)
			r.send(ch, last.Encode(nil))
			eventually(t, "the fence is answered", func() bool { return strays(last.Hello.Tag) > 0 })
		}
		return pr.p.Count("got HelloAck")
	}
	before := fence(0x10)
	forged := r.hello(command)
	r.send(command, forged.Encode(nil)) // another incarnation at that address
	forged.Hello.Incarnation, forged.Hello.Tag = pr.p.incarnation, 0xde0
	r.send(command, forged.Encode(nil)) // the same one, another tag
	forged.Hello.Tag = pr.c.myTag
	forged.Seq, forged.Hello.WindowPackets, forged.Hello.MTUBytes = 1, 1, 256
	r.send(command, forged.Encode(nil)) // its very tag, other values
	answers := fence(0x20)
	if a, b := strays(0xdef), strays(0xde0); a != 1 || b != 1 || answers != before ||
		pr.p.Count("got Retry") < 7 {
		t.Errorf("%d, %d Retries instead of one each, %d HelloAcks", a, b, answers-before)
	}
	forged.Hello.Incarnation, forged.Conn = 0xabc, pr.c.peerTag
	r.send(command, forged.Encode(nil)) // the module's tag, another incarnation
	if n := fence(0x30); n != answers {
		t.Error("a Hello with the tag, but another incarnation, was answered")
	}
	flows(t, pr)
	if len(pr.m.events) != 0 {
		t.Errorf("an endpoint ended: %s", <-pr.m.events)
	}
}

// TestRestart brings the stranger back as another incarnation at the same address: the module ends
// the old connection, and the new one works. Then the same with the same incarnation.
func TestRestart(t *testing.T) {
	for _, byModule := range []bool{false, true} {
		pr := connect(t, btl.Config{}, Config{}, byModule)
		flows(t, pr)
		commandPort, dataPort := pr.p.Ports()
		old := pr.p.Name()
		pr.p.Close()
		p, err := Open(Config{
			CommandPort: commandPort, DataPort: dataPort,
			OnMessage: func(_ *Conn, _ uint8, b []byte) { pr.msgs <- bytes.Clone(b) },
		})
		must(t, err)
		defer p.Close()
		pr.p = p
		again(t, pr)
		if ev := receive(t, pr.m.events, "the end of the old one"); ev != btl.ErrPeerRestarted.Error() {
			t.Errorf("the old endpoint's end: %s", ev)
		}
		if _, err := pr.m.Connect(within(t), old); !errors.Is(err, btl.ErrStale) {
			t.Errorf("the module with the old name: %v", err)
		}
	}
}

// TestForgotten lets the stranger forget an endpoint without a word, and connect again in the same
// life: a new tag from the same incarnation.
func TestForgotten(t *testing.T) {
	pr := connect(t, btl.Config{}, Config{}, false)
	flows(t, pr)
	pr.p.do(func() {
		pr.c.end(ErrClosed)
		delete(pr.p.conns, pr.c.myTag)
	})
	again(t, pr)
}

// TestKeepAlive: each side answers the other's question for a sign of life, and a module that gets
// no answer gives the peer up.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	const keepAlive, peerTimeout = 50 * time.Millisecond, 2 * time.Second
	pr := connect(t, btl.Config{KeepAlive: keepAlive, PeerTimeout: peerTimeout}, Config{}, false)
	answered := func() bool {
		return pr.p.Count("got HelloAck")+pr.p.Count("got Retry") >= pr.p.Count("sent Hello")
	}
	eventually(t, "the answers of the handshake are over", answered)
	pr.c.KeepAlive()
	eventually(t, "the module has answered", answered)
	// Each question needs a silence of keepAlive, so that this takes two time-outs at least.
	questions := pr.p.Count("got Hello") + int(2*peerTimeout/keepAlive)
	eventually(t, "the module has asked often", func() bool {
		return len(pr.m.events) != 0 || pr.p.Count("got Hello") >= questions
	})
	if len(pr.m.events) != 0 {
		t.Fatalf("the module lost a peer that answers: %s", <-pr.m.events)
	}
	flows(t, pr)
	pr.p.do(func() { pr.p.cfg.Faults.Loss = 1 })
	if ev := receive(t, pr.m.events, "the end"); ev != btl.ErrPeerDead.Error() {
		t.Errorf("the module's event: %s", ev)
	}
}
