package stranger

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// The constants below are the states of section 11.
const (
	halfOpen = iota
	connecting
	connected
	lingering
	gone
)

const (
	featSack  = 1 << 0
	featOps   = 1 << 2
	featAsk   = 1 << 4
	featLater = 1 << 5
)

var (
	errTimeout   = errors.New("stranger: no answer")
	errDead      = errors.New("stranger: dead")
	errClosed    = errors.New("stranger: closed")
	errRestarted = errors.New("stranger: peer restarted")
)

// rejected means a Reject, and ended a Bye of the peer with a code.
type rejected struct {
	reason byte
	code   uint16
}

func (r rejected) Error() string {
	return fmt.Sprintf("stranger: reject %d, code %d", r.reason, r.code)
}

type ended struct{ code uint16 }

func (e ended) Error() string { return fmt.Sprintf("stranger: bye with code %#x", e.code) }

// conn is one end of a connection.
type conn struct {
	h            *host
	state        int
	born         int
	initiator    bool // it sends Hellos of its own accord
	tag, far     uint64
	peerInc      uint64 // 0: any
	wanted       uint64 // the incarnation that it set out to reach
	addr         [2]netip.AddrPort
	nonces       [2]uint64
	cookies      [2][]byte
	proven       byte
	confirmed    bool
	lastFirst    uint64          // nonce of the first Hello that said that all is proven
	unheard      int             // what followed that one was dropped: for tests
	asksDue      time.Time       // when a half-open one may ask
	askedOut     int             // it has: for tests
	answered     map[uint64]bool // tags of Hellos that it has answered
	answeredAt   time.Time       // the latest of them first
	began        time.Time       // its first Hello
	trip         time.Duration   // from then until the first Retry
	helloDue     time.Time
	helloWait    time.Duration
	deadline     time.Time
	heard        time.Time
	waitTag      time.Time // rule 8: begins again under a new tag then
	number       [2]uint64
	numbers      [2]map[uint32]sent
	mtu, command int // the smaller of both Hellos
	features     uint64
	peerWindow   uint32
	peerFragment uint32
	peerFirst    uint32
	err          error
	over         chan struct{}
	law          law
	sender
	receiver
	lone lone
	sizes
	remote
	rely
}

func (h *host) newConn(state int, addr [2]netip.AddrPort) *conn {
	h.born++
	c := &conn{
		h: h, state: state, born: h.born, addr: addr, answered: map[uint64]bool{},
		deadline: h.now.Add(h.opt.handshake), over: make(chan struct{}),
	}
	c.begin()
	return c
}

// begin takes a new tag, and clears what the endpoint knows of its peer.
func (c *conn) begin() {
	h := c.h
	delete(h.conns, c.tag)
	c.tag, c.far, c.proven = h.dice.Uint64()|1, 0, 0
	h.conns[c.tag] = c
	c.cookies = [2][]byte{}
	clear(c.answered)
	c.lastFirst, c.began, c.trip, c.answeredAt = 0, h.now, 0, time.Time{}
	for i := range 2 {
		c.nonces[i], c.number[i], c.numbers[i] = h.dice.Uint64(), h.opt.number, map[uint32]sent{}
	}
	c.helloDue, c.helloWait, c.waitTag = h.now, 20*time.Millisecond, time.Time{}
	first := h.opt.first
	if first == 0 {
		first = h.dice.Uint32()
	}
	c.startSender(first)
	c.law = law{}
}

// dial begins a handshake with the peer at two addresses. An incarnation of 0 means any
// incarnation.
func (h *host) dial(inc uint64, command, data []byte) (*conn, error) {
	a, ok0 := h.parseAddress(command)
	b, ok1 := h.parseAddress(data)
	if !ok0 || !ok1 {
		return nil, errNoPacket
	}
	c := h.newConn(connecting, [2]netip.AddrPort{a, b})
	c.initiator, c.peerInc, c.wanted = true, inc, inc
	return c, nil
}

// connect returns an existing endpoint for the peer (section 11), or dials.
func (h *host) connect(inc uint64, command, data []byte) (*conn, error) {
	for _, c := range h.conns {
		if c.peerInc != inc || !bytes.Equal(h.addressOf(c.addr[0]), command) {
			continue
		}
		if c.state == halfOpen { // what it has learnt was not proven
			c.state, c.initiator, c.wanted, c.far, c.proven = connecting, true, inc, 0, 0
			c.deadline = h.now.Add(h.opt.handshake)
		}
		return c, nil
	}
	return h.dial(inc, command, data)
}

// hello fills in the body of a Hello or a HelloAck.
func (c *conn) hello(ch int) *hello {
	o := &c.h.opt
	x := &hello{
		incarnation: c.h.incarnation, tag: c.tag, nonce: c.nonces[ch], features: o.features,
		required: o.required, window: o.window, fragmentMax: o.fragmentMax, ackDelay: 1000,
		mtu: o.mtu, command: o.command, credit: 1, versionMin: 2, versionMax: 2,
		channel: byte(ch), proven: c.proven,
	}
	if c.state == halfOpen {
		x.proven = 0
	}
	if !c.confirmed {
		x.expected = c.wanted
	}
	x.ext = []extension{{1, c.h.own(0)}, {2, c.h.own(1)}}
	return x
}

func (c *conn) ask(ch int, far uint64) {
	x := c.hello(ch)
	if far == 0 && c.cookies[0] != nil && c.cookies[1] != nil {
		x.ext = append(x.ext, extension{3, c.cookies[0]}, extension{4, c.cookies[1]})
	}
	if x.proven>>ch&1 == 0 {
		x.pad()
	}
	c.post(ch, &packet{kind: kHello, conn: far, seq: c.una, hello: x})
}

// post gives a packet its number and sends it.
func (c *conn) post(ch int, p *packet) {
	if p.conn != 0 && p.kind != kReject && p.kind != kRetry {
		c.stamp(ch, p)
	}
	c.h.post(ch, c.addr[ch], p.encode())
}

// stamp gives a packet the next number of its channel, and skips some numbers.
func (c *conn) stamp(ch int, p *packet) {
	c.number[ch]++
	if c.h.dice.IntN(500) == 0 {
		c.number[ch]++
	}
	p.number = uint32(c.number[ch])
}

// shake sends the Hellos that are due.
func (c *conn) shake() {
	now := c.h.now
	asks := c.state == connected && c.initiator && !c.confirmed
	if c.state != connecting && c.state != halfOpen && !asks {
		return
	}
	if now.After(c.deadline) {
		if c.state != connected {
			c.end(errTimeout)
		}
		c.confirmed = true // it stops asking
		return
	}
	if !c.waitTag.IsZero() && c.far == 0 && now.After(c.waitTag) {
		c.begin()
	}
	if !c.initiator || now.Before(c.helloDue) {
		return
	}
	c.helloDue = now.Add(c.helloWait)
	c.helloWait = min(2*c.helloWait, 500*time.Millisecond)
	if asks {
		c.askLast()
		return
	}
	both := c.cookies[0] != nil && c.cookies[1] != nil
	for ch := range 2 {
		if c.far != 0 {
			c.ask(ch, c.far)
		}
		if c.far == 0 && (both || c.cookies[ch] == nil) || c.far != 0 && c.stale() {
			c.ask(ch, 0)
		}
	}
}

func (c *conn) stale() bool { return c.h.now.Sub(c.heard) > 40*time.Millisecond }

func (c *conn) onRetry(p *packet) {
	r := p.retry
	if c.state != connecting || r.nonce != c.nonces[r.channel] {
		return
	}
	if c.trip == 0 {
		c.trip = c.h.now.Sub(c.began)
	}
	had := c.cookies[0] != nil && c.cookies[1] != nil
	c.cookies[r.channel] = bytes.Clone(r.cookie)
	if !had && c.cookies[0] != nil && c.cookies[1] != nil {
		c.helloDue, c.helloWait = c.h.now, 20*time.Millisecond
	}
}

func (c *conn) onReject(p *packet) {
	own := p.reject.nonce == c.nonces[0] || p.reject.nonce == c.nonces[1]
	if c.state != connecting || !own ||
		c.far != 0 && c.h.now.Sub(c.heard) < 500*time.Millisecond {
		return
	}
	if p.tag != 5 {
		c.end(rejected{p.tag, p.reject.code})
	}
}

func (c *conn) onHelloAck(d *datagram, p *packet) {
	x := p.hello
	if c.peerInc != 0 && x.incarnation != c.peerInc || int(x.channel) != d.ch || !c.learn(p) {
		return
	}
	c.heard = c.h.now
	if c.state == connected {
		if !c.confirmed {
			c.answeredLast(x)
		}
		c.confirmed = c.confirmed || x.proven == 3
		return
	}
	if c.state == halfOpen { // it has asked
		if x.nonce == c.nonces[d.ch] && x.proven == 3 && c.promote() {
			c.know(p)
			c.confirmed = true
			c.establish()
		}
		return
	}
	if x.nonce == c.nonces[d.ch] {
		c.proven |= 1 << d.ch
	}
	if c.state == connecting && c.proven == 3 {
		c.confirmed = x.proven == 3
		c.establish()
	}
}

// know stores the parameters of a Hello.
func (c *conn) know(p *packet) {
	x, o := p.hello, &c.h.opt
	c.far, c.peerInc = x.tag, x.incarnation
	c.mtu, c.command = int(min(x.mtu, o.mtu)), int(min(x.command, o.command))
	c.features = x.features & o.features
	c.peerWindow, c.peerFragment, c.peerFirst = x.window, x.fragmentMax, p.seq
	c.limit = c.una + uint32(max(x.credit, 1)) - 1
	c.startReceiver(p.seq)
	c.startSizes()
	c.startRelying(p.seq)
}

func (c *conn) establish() {
	c.state, c.proven = connected, 3
	c.helloDue, c.helloWait = c.h.now, 20*time.Millisecond
	c.raised = c.h.now
	if c.initiator && !c.confirmed {
		c.askLast() // before all else
		c.helloDue = c.h.now.Add(c.helloWait)
	}
	if c.relies {
		c.postAckCounted()
	} else {
		c.postAck(fDup)
		c.askSize()
	}
	if c.h.opened != nil {
		c.h.opened(c)
	}
}

func (h *host) cookie(ch int, x *hello, address []byte) []byte {
	m := hmac.New(sha256.New, h.key[:])
	b := le.AppendUint64(le.AppendUint64([]byte{byte(ch)}, x.incarnation), x.tag)
	_, _ = m.Write(append(b, address...))
	return m.Sum(nil)[:20]
}

func (h *hello) find(kind byte) []byte {
	for _, e := range h.ext {
		if e.kind == kind {
			return e.value
		}
	}
	return nil
}

// onHello handles a Hello by the table at the end of section 7.
func (h *host) onHello(d *datagram, p *packet) {
	x := p.hello
	if int(x.channel) != d.ch || h.opt.mute {
		return
	}
	if x.expected != 0 && x.expected != h.incarnation {
		if x.incarnation != h.incarnation {
			h.reject(d, x, 3)
		}
		return
	}
	for _, e := range x.ext {
		if e.kind&0x80 != 0 {
			h.reject(d, x, 6)
			return
		}
	}
	if x.required&^h.opt.features != 0 || x.overhead != 0 {
		h.reject(d, x, 6)
		return
	}
	if p.conn != 0 {
		h.onReturned(d, p)
		return
	}
	at := h.addressOf(d.from)
	a0, a1 := x.find(1), x.find(2)
	ok := hmac.Equal(x.find(3), h.cookie(0, x, a0)) && hmac.Equal(x.find(4), h.cookie(1, x, a1))
	if !ok || !bytes.Equal(x.find(1+byte(d.ch)), at) {
		r := &retry{x.nonce, x.channel, at, h.cookie(d.ch, x, at)}
		h.post(d.ch, d.from, (&packet{kind: kRetry, conn: x.tag, retry: r}).encode())
		return
	}
	if c := h.endpointOf(p, a0, a1); c != nil {
		c.tell(x.tag)
		c.answer(d.ch, x, d.from)
	}
}

// endpointOf finds the endpoint for a Hello with both cookies, by rules 6 and 7.
func (h *host) endpointOf(p *packet, a0, a1 []byte) *conn {
	x := p.hello
	from, ok0 := h.parseAddress(a0)
	data, ok1 := h.parseAddress(a1)
	if !ok0 || !ok1 {
		return nil
	}
	var merge *conn
	for _, c := range h.conns {
		if c.peerInc != x.incarnation || c.addr[0] != from {
			continue
		}
		if c.far == x.tag {
			if c.state == halfOpen { // the one before may have been another's
				c.know(p)
			}
			return c
		}
		if c.initiator && c.state == connecting && c.far == 0 && c.freeFor(x.tag) {
			merge = c
		}
	}
	if merge != nil {
		return merge
	}
	c := h.newConn(halfOpen, [2]netip.AddrPort{from, data})
	c.know(p)
	c.proven = 3 // by the cookies
	return c
}

func (c *conn) answer(ch int, x *hello, to netip.AddrPort) {
	a := c.hello(ch)
	a.nonce = x.nonce
	if c.proven>>ch&1 == 0 && len(a.body()) > len(x.body()) {
		return
	}
	p := &packet{kind: kHelloAck, conn: x.tag, seq: c.una, hello: a}
	c.stamp(ch, p)
	c.h.post(ch, to, p.encode())
}

// onReturned handles a Hello that contains a tag of this side.
func (h *host) onReturned(d *datagram, p *packet) {
	x, c := p.hello, h.conns[p.conn]
	if c == nil || c.peerInc != 0 && c.peerInc != x.incarnation {
		return
	}
	if c.state == halfOpen {
		if c.far == x.tag {
			c.onLast(d, p)
		}
		return
	}
	if !c.learn(p) {
		return
	}
	if c.state == connected && c.initiator && !c.confirmed && x.proven != 3 {
		c.sendUnheard()
	}
	c.heard, c.confirmed = h.now, true
	c.tell(x.tag)
	c.answer(d.ch, x, c.addr[d.ch])
}

// promote gives the half-open endpoint its tag again, by rule 10.
func (c *conn) promote() bool {
	c.state = connecting
	c.deadline = c.h.now.Add(c.h.opt.handshake)
	for _, old := range c.h.conns {
		if old == c || old.addr[0] != c.addr[0] || old.state == halfOpen || old.state == gone {
			continue
		}
		if old.peerInc == c.peerInc {
			continue // superseded, or both go on
		}
		if old.state == connected && old.born > c.born {
			c.end(errRestarted)
			return false
		}
		if old.state == connected || old.born < c.born {
			old.end(errRestarted)
		}
	}
	return true
}

func (h *host) reject(d *datagram, x *hello, reason byte) {
	r := &reject{versionMin: 2, versionMax: 2, nonce: x.nonce}
	p := &packet{kind: kReject, tag: reason, conn: x.tag, reject: r}
	h.post(d.ch, d.from, p.encode())
}

// end removes the connection.
func (c *conn) end(err error) {
	if c.state == gone {
		return
	}
	c.state, c.err = gone, err
	delete(c.h.conns, c.tag)
	c.failAll(err)
	close(c.over)
}
