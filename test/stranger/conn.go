package stranger

import (
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
	confirmed   bool // the peer knows that this side is established
	nextProbe   time.Time
	probeWait   time.Duration

	// watch, if set, gets all packets but Hellos, HelloAcks and Rejects in the place of the endpoint.
	watch func(channel int, pkt *Packet)

	sender
	receiver
}

func (p *Peer) newConn(st state, incarnation uint64) *Conn {
	now := time.Now()
	c := &Conn{
		p: p, state: st, incarnation: incarnation, myTag: random(), born: now, begun: now,
		heard: now, up: make(chan struct{}), down: make(chan struct{}), probeWait: 20 * time.Millisecond,
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

// sendHello sends probe number probe; as an answer (a HelloAck) in the size that was asked for.
func (c *Conn) sendHello(kind uint8, conn uint64, probe uint8, sizeBytes int) {
	cfg := &c.p.cfg
	h := &Hello{
		Incarnation: c.p.incarnation, Tag: c.myTag,
		WindowPackets: cfg.WindowPackets, FragmentBytesMax: cfg.FragmentBytesMax,
		MTUBytes: cfg.MTUBytes, CommandBytes: cfg.CommandBytes, Credit: 1,
		VersionMin: version, VersionMax: version, Probe: probe, Proven: c.proven,
		AckDelayUs:  uint32((cfg.AckDelay + tick).Microseconds()),
		CommandName: c.p.names[command], DataName: c.p.names[data], SizeBytes: sizeBytes,
	}
	if c.dialed && !c.confirmed {
		h.Expected = c.incarnation
	}
	ch := int(probe & 1)
	c.p.send(ch, c.addrs[ch], &Packet{Kind: kind, Conn: conn, Seq: c.first, Hello: h})
}

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
		c.sendHello(kindHello, c.peerTag, 0, headerBytes+helloBytes)
		return
	}
	for probe := range uint8(4) {
		size := headerBytes + helloBytes
		if probe&2 != 0 {
			size = c.sizes[probe&1]
		}
		if c.proven&(1<<probe) == 0 {
			c.sendHello(kindHello, c.peerTag, probe, size)
		}
	}
}

// hello answers a Hello.
func (p *Peer) hello(channel int, pkt *Packet) {
	h := pkt.Hello
	if int(h.Probe&1) != channel {
		p.breachf("Hello with probe %d on channel %d", h.Probe, channel)
		return
	}
	if h.Expected != 0 && h.Expected != p.incarnation {
		if h.Incarnation == p.incarnation {
			return // somebody has sent it back
		}
		if to, err := parseAddress(h.CommandName); err == nil {
			p.send(command, to, &Packet{
				Kind: kindReject, Tag: rejectStale, Conn: h.Tag, VersionMin: version, VersionMax: version,
			})
		}
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
		c.prove(h.Proven)
		c.confirmed = c.state == established
	}
	c.answered = h.Tag
	c.sendHello(kindHelloAck, h.Tag, h.Probe, h.SizeBytes)
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
	if c.proven != provenAll || c.state == established || c.state == ended {
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
		if c.state == opening && (c.peerTag == 0 || since >= 500*time.Millisecond) {
			c.end(fmt.Errorf("%w: reason %d, versions %d to %d", ErrRejected, pkt.Tag,
				pkt.VersionMin, pkt.VersionMax))
		}
		return
	case kindHelloAck:
		c.helloAck(channel, pkt)
		return
	}
	if c.peerTag == 0 {
		c.p.counts["early"]++
		return
	}
	if c.state == halfOpen && !c.proveAddress() {
		return
	}
	c.prove(provenAll) // before that the peer sends nothing like this
	c.confirmed = true
	if c.watch != nil {
		c.watch(channel, pkt)
		return
	}
	c.sequenced(pkt)
}

func (c *Conn) helloAck(channel int, pkt *Packet) {
	h := pkt.Hello
	switch {
	case int(h.Probe&1) != channel:
		c.p.breachf("HelloAck with probe %d on channel %d", h.Probe, channel)
	case h.Incarnation != c.incarnation:
		c.p.breachf("HelloAck from another incarnation")
	case c.state == halfOpen, c.state == ended, !c.learn(pkt):
	default:
		if want := [4]int{216, 216, c.sizes[command], c.sizes[data]}[h.Probe]; h.SizeBytes != want {
			c.p.breachf("HelloAck of %d bytes, probe %d", h.SizeBytes, h.Probe)
		}
		c.prove(1 << h.Probe)
		c.confirmed = c.confirmed || h.Proven == provenAll && c.state == established
	}
}

// KeepAlive asks the peer for a sign of life.
func (c *Conn) KeepAlive() {
	c.p.do(func() { c.sendHello(kindHello, c.peerTag, 0, headerBytes+helloBytes) })
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
