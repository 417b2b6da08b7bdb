package stranger

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"
)

type state uint8

const (
	opening  state = iota // this side has begun: it sends probes
	halfOpen              // the peer has begun: it is only answered
	established
	ended // after a Bye of the peer: repetitions are acknowledged for a while; else gone
)

// Conn is this side's endpoint of a connection. Its fields belong to the peer's loop.
type Conn struct {
	p           *Peer
	state       state
	err         error         // why it ended
	up, down    chan struct{} // closed when established, when ended
	dialed      bool
	born, begun time.Time // made; began to be opening
	heard       time.Time
	endedAt     time.Time
	incarnation uint64 // the peer's; of its name, or of its first Hello
	myTag       uint64
	peerTag     uint64    // 0 if not known yet
	answered    uint64    // tag of the peer's end whose Hellos were answered, 0 if there was none
	contested   time.Time // then a new tag is due, if no peer is known by then; zero: never
	addrs       [channels]netip.AddrPort
	sizes       [channels]int // largest packet, agreed
	peerMax     uint32        // largest fragment that the peer takes
	proven      uint8
	nonces      [channels]uint64
	shown       [channels]*Retry // what the peer wants to see in Hellos without a tag
	ready       bool             // the peer knows that both channels work
	confirmed   bool             // the peer knows that this side is established
	nextProbe   time.Time
	probeWait   time.Duration

	cut map[uint32]*inParts // by sequence number
	// watch, if set, gets all packets but those of the handshake and of section 17 in the place of
	// the endpoint.
	watch func(channel int, pkt *Packet)

	sender
	receiver
}

func (p *Peer) newConn(st state, incarnation uint64) *Conn {
	now := time.Now()
	c := &Conn{
		p: p, state: st, incarnation: incarnation, myTag: random(), born: now, begun: now,
		heard: now, nonces: [channels]uint64{random(), random()},
		up: make(chan struct{}), down: make(chan struct{}), probeWait: 20 * time.Millisecond,
	}
	c.initSender(orDefault(p.cfg.FirstSeq, uint32(random())))
	p.conns[c.myTag] = c
	return c
}

// Dial begins a connection to the module of that name.
func (p *Peer) Dial(name []byte) (*Conn, error) {
	n, err := DecodeName(name)
	if err != nil {
		return nil, err
	}
	var c *Conn
	p.do(func() {
		if c = p.living(n.Incarnation); c != nil {
			return
		}
		c = p.newConn(opening, n.Incarnation)
		c.dialed = true
		c.setSizes(n.MTUBytes, n.CommandBytes)
		err = c.setAddrs(n.Command, n.Data)
	})
	return c, err
}

// Wait returns when the endpoint is established, or why it is not.
func (c *Conn) Wait() error {
	select {
	case <-c.up:
		return nil
	case <-c.down:
		return c.err
	}
}

// Down is closed when the endpoint has ended; Err tells why.
func (c *Conn) Down() <-chan struct{} { return c.down }

// Err may be called when Down is closed.
func (c *Conn) Err() error { return c.err }

func (c *Conn) setAddrs(commandName, dataName []byte) (err error) {
	for ch, name := range [channels][]byte{commandName, dataName} {
		if c.addrs[ch], err = parseAddress(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) setSizes(mtu, commandBytes uint16) {
	c.sizes[command] = int(min(commandBytes, c.p.cfg.CommandBytes))
	c.sizes[data] = int(min(mtu, c.p.cfg.MTUBytes))
}

// find returns the endpoint to which a Hello belongs, nil if there is none.
func (p *Peer) find(pkt *Packet) *Conn {
	h := pkt.Hello
	if pkt.Conn != 0 {
		if c := p.conns[pkt.Conn]; c != nil && c.incarnation == h.Incarnation {
			return c
		}
		return nil
	}
	var merge *Conn
	for _, c := range p.conns {
		if c.incarnation == h.Incarnation && c.peerTag == h.Tag {
			return c
		}
		if addr, err := parseAddress(h.CommandName); c.incarnation == h.Incarnation &&
			c.state == opening && err == nil && addr == c.addrs[command] && c.peerTag == 0 &&
			(c.answered == 0 || c.answered == h.Tag) {
			merge = c
		}
	}
	return merge
}

// living returns an endpoint for an incarnation that has not ended.
func (p *Peer) living(incarnation uint64) *Conn {
	for _, c := range p.conns {
		if c.incarnation == incarnation && c.state != ended {
			return c
		}
	}
	return nil
}

// sendHello sends a Hello, or with a nonce a HelloAck, by a channel.
func (c *Conn) sendHello(kind uint8, conn uint64, ch int, nonce uint64) {
	cfg := &c.p.cfg
	h := &Hello{
		Incarnation: c.p.incarnation, Tag: c.myTag, Nonce: nonce,
		WindowPackets: cfg.WindowPackets, FragmentBytesMax: cfg.FragmentBytesMax,
		MTUBytes: cfg.MTUBytes, CommandBytes: cfg.CommandBytes, Credit: 1,
		VersionMin: version, VersionMax: version, Channel: uint8(ch), Proven: c.proven,
		AckDelayUs:  uint32((cfg.AckDelay + tick).Microseconds()),
		CommandName: c.p.names[command], DataName: c.p.names[data],
	}
	if c.state == halfOpen {
		h.Proven = 0
	}
	if c.dialed && !c.confirmed {
		h.Expected = c.incarnation
	}
	if a, b := c.shown[command], c.shown[data]; conn == 0 && a != nil && b != nil {
		h.CommandName, h.CommandCookie, h.DataName, h.DataCookie = a.Addr, a.Cookie, b.Addr, b.Cookie
	}
	c.p.send(ch, c.addrs[ch], &Packet{Kind: kind, Conn: conn, Seq: c.first, Hello: h})
}

func (c *Conn) ask(ch int) { c.sendHello(kindHello, c.peerTag, ch, c.nonces[ch]) }

// probes sends the Hellos that are due.
func (c *Conn) probes(now time.Time) {
	if !c.contested.IsZero() && c.peerTag == 0 && now.After(c.contested) {
		c.retag()
	}
	if now.Before(c.nextProbe) || c.confirmed || c.state == halfOpen || c.state == ended {
		return
	}
	c.nextProbe = now.Add(c.probeWait)
	c.probeWait = min(2*c.probeWait, 500*time.Millisecond)
	if c.proven == provenAll {
		c.ask(command)
		return
	}
	for ch := range channels {
		if c.proven&(1<<ch) == 0 {
			c.ask(ch)
		}
	}
}

// retry takes a cookie.
func (c *Conn) retry(channel int, pkt *Packet) {
	r := pkt.Retry
	if c.state != opening || int(r.Channel) != channel || r.Nonce != c.nonces[channel] {
		return
	}
	c.shown[channel] = r
	if c.shown[1-channel] != nil && c.peerTag == 0 {
		c.ask(command)
		c.ask(data)
	}
}

// cookie is what shows that somebody receives at an address of a channel.
func (p *Peer) cookie(h *Hello, ch int) []byte {
	name := [channels][]byte{h.CommandName, h.DataName}[ch]
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %x %x %x", p.secret, ch, h.Incarnation, h.Tag, name))
	return sum[:16]
}

// hello answers a Hello.
func (p *Peer) hello(channel int, pkt *Packet) {
	h := pkt.Hello
	if int(h.Channel) != channel {
		p.breachf("Hello for channel %d on channel %d", h.Channel, channel)
		return
	}
	to, err := parseAddress([channels][]byte{h.CommandName, h.DataName}[channel])
	if err != nil {
		return
	}
	if h.Expected != 0 && h.Expected != p.incarnation {
		if h.Incarnation == p.incarnation {
			return // somebody has sent it back
		}
		p.send(channel, to, &Packet{
			Kind: kindReject, Tag: rejectStale, Conn: h.Tag, VersionMin: version, VersionMax: version,
			Nonce: h.Nonce,
		})
		return
	}
	if pkt.Conn == 0 && (!bytes.Equal(h.CommandCookie, p.cookie(h, command)) ||
		!bytes.Equal(h.DataCookie, p.cookie(h, data))) {
		name := [channels][]byte{h.CommandName, h.DataName}[channel]
		p.send(channel, to, &Packet{Kind: kindRetry, Conn: h.Tag, Retry: &Retry{
			Nonce: h.Nonce, Channel: h.Channel, Addr: name, Cookie: p.cookie(h, channel),
		}})
		return
	}
	c := p.find(pkt)
	if c == nil && pkt.Conn == 0 {
		c = p.newHalfOpen(pkt)
	}
	if c == nil {
		p.counts["unanswered Hello"]++
		return
	}
	if pkt.Conn != 0 && c.state != ended {
		if !c.learn(pkt) {
			return
		}
		c.heard = time.Now()
		if c.state == halfOpen && !c.proveAddress() {
			return
		}
		c.ready = c.ready || h.Proven == provenAll
		c.prove(0)
		c.confirmed = c.state == established
	}
	c.answered = h.Tag
	c.sendHello(kindHelloAck, h.Tag, channel, h.Nonce)
}

func (p *Peer) newHalfOpen(pkt *Packet) *Conn {
	n := 0
	for _, c := range p.conns {
		if c.state == halfOpen {
			n++
		}
	}
	c := p.newConn(halfOpen, pkt.Hello.Incarnation)
	err := c.setAddrs(pkt.Hello.CommandName, pkt.Hello.DataName)
	if n >= halfOpenMax || err != nil || !c.learn(pkt) {
		delete(p.conns, c.myTag)
		return nil
	}
	c.proven = provenAll // the cookies came back
	return c
}

// proveAddress makes a half-open endpoint opening, for it got its tag back, and ends those of other
// lives at that address; false if it is itself of an earlier life.
func (c *Conn) proveAddress() bool {
	for _, old := range c.others() {
		switch {
		case old.state == established && old.born.After(c.born):
			c.end(ErrRestarted)
			return false
		case old.state == opening && old.dialed: // who is established will tell
		default:
			old.end(ErrRestarted)
		}
	}
	c.state, c.begun = opening, time.Now()
	return true
}

// others returns the endpoints of other lives of the peer.
func (c *Conn) others() (list []*Conn) {
	for _, o := range c.p.conns {
		if o.addrs[command] == c.addrs[command] && o.incarnation != c.incarnation && o.state != ended {
			list = append(list, o)
		}
	}
	return list
}

// retag begins again under another tag: two ends of the peer know the one so far.
func (c *Conn) retag() {
	delete(c.p.conns, c.myTag)
	c.myTag = random()
	c.p.conns[c.myTag] = c
	c.answered, c.proven, c.contested = 0, 0, time.Time{}
	c.nonces, c.shown = [channels]uint64{random(), random()}, [channels]*Retry{}
	c.nextProbe, c.probeWait = time.Time{}, 20*time.Millisecond
	c.p.counts["new tag"]++
}

// learn takes the values of the first packet of the peer that counts; false if a later one has
// another tag, and this endpoint cannot turn to it.
func (c *Conn) learn(pkt *Packet) bool {
	h := pkt.Hello
	if h.Tag == c.peerTag {
		return true
	}
	if c.peerTag != 0 && c.state != opening {
		return false
	}
	if c.answered != 0 && c.answered != h.Tag {
		switch {
		case c.peerTag != 0 || !c.contested.IsZero():
		case c.p.incarnation < c.incarnation:
			c.retag()
		default:
			c.contested = time.Now().Add(20 * time.Millisecond)
		}
		return false
	}
	c.setSizes(h.MTUBytes, h.CommandBytes)
	c.peerTag, c.peerMax, c.proven = h.Tag, h.FragmentBytesMax, 0
	c.window, c.limit = h.WindowPackets, c.first-1+uint32(max(h.Credit, 1))
	c.initReceiver(pkt.Seq)
	return true
}

func (c *Conn) prove(mask uint8) {
	c.proven |= mask
	if c.proven != provenAll || !c.dialed && !c.ready || c.state == established || c.state == ended ||
		c.state == halfOpen {
		return
	}
	c.state = established
	if c.dialed {
		for _, old := range c.others() {
			old.end(ErrRestarted)
		}
	}
	c.nextProbe, c.probeWait = time.Time{}, 20*time.Millisecond
	c.ackNow() // the credits
	close(c.up)
	if c.p.cfg.OnConn != nil {
		c.p.cfg.OnConn(c)
	}
}

// receive takes any packet but a Hello that has the endpoint's tag.
func (c *Conn) receive(channel int, pkt *Packet) {
	since := time.Since(c.heard)
	if pkt.Kind != kindReject {
		c.heard = time.Now()
	}
	switch pkt.Kind {
	case kindReject:
		if known := pkt.Nonce == c.nonces[command] || pkt.Nonce == c.nonces[data]; known &&
			c.state == opening && (c.peerTag == 0 || since >= 500*time.Millisecond) {
			c.end(fmt.Errorf("%w: reason %d, versions %d to %d", ErrRejected, pkt.Tag,
				pkt.VersionMin, pkt.VersionMax))
		}
		return
	case kindHelloAck:
		c.helloAck(channel, pkt)
		return
	case kindRetry:
		c.retry(channel, pkt)
		return
	}
	if c.peerTag == 0 {
		c.p.counts["early"]++
		return
	}
	if c.state == halfOpen && !c.proveAddress() {
		return
	}
	c.ready = true // before that the peer sends nothing like this
	if c.prove(0); c.state == opening {
		return
	}
	c.confirmed = true
	if pkt = c.aside(channel, pkt); pkt == nil {
		return
	}
	if c.watch != nil {
		c.watch(channel, pkt)
		return
	}
	c.sequenced(pkt)
}

func (c *Conn) helloAck(channel int, pkt *Packet) {
	h := pkt.Hello
	switch {
	case int(h.Channel) != channel:
		c.p.breachf("HelloAck for channel %d on channel %d", h.Channel, channel)
	case h.Incarnation != c.incarnation:
		c.p.breachf("HelloAck from another incarnation")
	case c.state == halfOpen, c.state == ended, !c.learn(pkt):
	default:
		if h.Nonce == c.nonces[channel] {
			c.ready = c.ready || h.Proven == provenAll
			c.prove(1 << channel)
		}
		c.confirmed = c.confirmed || h.Proven == provenAll && c.state == established
	}
}

// KeepAlive asks the peer for a sign of life.
func (c *Conn) KeepAlive() {
	c.p.do(func() { c.ask(command) })
}

// work does what is due.
func (c *Conn) work(now time.Time) {
	young := now.Sub(c.begun) < handshakeTimeout
	switch {
	case c.state == ended:
		c.acknowledge(now)
		if now.Sub(c.endedAt) > lingerTime || !c.bye {
			delete(c.p.conns, c.myTag)
		}
		return
	case c.state != established && !young, c.waiting() && now.Sub(c.heard) > peerTimeout:
		c.end(ErrDead)
		delete(c.p.conns, c.myTag)
		return
	}
	c.probes(now)
	if c.state == established {
		c.pump(now)
		c.resend(now)
		c.acknowledge(now)
	}
}

// end leaves the endpoint there to answer repetitions, if the peer has closed it.
func (c *Conn) end(err error) {
	if c.state == ended {
		return
	}
	c.state, c.err, c.endedAt = ended, err, time.Now()
	close(c.down)
	c.failAll(err)
}
