package stranger

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// options are the properties of a peer, and setDefaults sets zero fields.
type options struct {
	provider     string // "udp" or "ofi/udp": how addresses are written
	mtu, command uint16
	window       uint32
	credit       uint16
	bytes        uint16        // credit in bytes, in units of 4096
	ackAfter     time.Duration // Acks alone wait so long for more to come
	features     uint64
	required     uint64
	fragmentMax  uint32
	first        uint32 // sequence number
	fragID       uint32 // of the first fragment in chunks
	number       uint64 // the one before the first packet number of each channel
	faults       int    // of 100 datagrams so many are lost, repeated, delayed, each way
	parts        int    // of 100 repetitions so many go in Parts
	withhold     int    // of 100 packets so many are withheld, one at a time
	liar         bool   // acknowledges what has not come
	mute         bool   // answers no Hello
	handshake    time.Duration
}

func (o *options) setDefaults() {
	set := func(v *uint16, d uint16) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.mtu, 1400)
	set(&o.command, min(700, o.mtu))
	set(&o.credit, 64)
	set(&o.bytes, 0xFFFF)
	if o.provider == "" {
		o.provider = "udp"
	}
	if o.window == 0 {
		o.window = 256
	}
	if o.fragmentMax == 0 {
		o.fragmentMax = 8 << 20
	}
	if o.handshake == 0 {
		o.handshake = 3 * time.Second
	}
}

// datagram is a datagram as the network has delivered it.
type datagram struct {
	ch   int
	from netip.AddrPort
	b    []byte
}

// parcel is an action with a simulated delay.
type parcel struct {
	due time.Time
	run func()
}

// host is a complete peer with two sockets and the connections of one incarnation. Only its loop
// may call its methods, except do, newHost and stop.
type host struct {
	opt         options
	dice        *rand.Rand
	now         time.Time
	socks       [2]*net.UDPConn
	incarnation uint64
	key         [32]byte
	in          chan datagram
	calls       chan func()
	quit        chan struct{}
	ended       sync.WaitGroup

	conns    map[uint64]*conn
	born     int // connections made
	handlers map[byte]func(*conn, []byte)
	regions  map[uint64]*region
	late     []parcel
	strays   int                               // packets for a tag that nobody has
	pass     func(out bool, d *datagram) bool  // false loses a datagram
	opened   func(*conn)                       // a connection is established
	see      func(d *datagram, p *packet) bool // false: the host is not to see this packet
	wrongs   []string                          // what the other side did against the document
	echoed   string                            // for tests, as is kept
	kept     int
}

func newHost(seed uint64, opt options) (*host, error) {
	opt.setDefaults()
	h := &host{
		opt: opt, dice: rand.New(rand.NewPCG(seed, 7)), now: time.Now(),
		in: make(chan datagram, 8192), calls: make(chan func()), quit: make(chan struct{}),
		handlers: map[byte]func(*conn, []byte){},
	}
	for i := range h.socks {
		s, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		_ = s.SetReadBuffer(4 << 20) // as much as the system grants
		h.socks[i] = s
	}
	h.begin()
	h.ended.Add(3)
	go h.read(0)
	go h.read(1)
	go h.run()
	return h, nil
}

// begin starts another incarnation, without the state of the previous one.
func (h *host) begin() {
	h.incarnation = h.dice.Uint64() | 1
	h.conns, h.regions = map[uint64]*conn{}, map[uint64]*region{}
	for i := range h.key {
		h.key[i] = byte(h.dice.Uint32())
	}
	h.late = nil
}

func (h *host) stop() {
	close(h.quit)
	for _, s := range h.socks {
		_ = s.Close()
	}
	h.ended.Wait()
}

func (h *host) read(ch int) {
	defer h.ended.Done()
	for {
		b := make([]byte, 65536)
		n, from, err := h.socks[ch].ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		select {
		case h.in <- datagram{ch, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), b[:n:n]}:
		case <-h.quit:
			return
		}
	}
}

func (h *host) run() {
	defer h.ended.Done()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case d := <-h.in:
			h.now = time.Now()
			for n := 0; ; n++ {
				h.arrive(d)
				if n == 30 || len(h.in) == 0 {
					break
				}
				d = <-h.in
			}
		case fn := <-h.calls:
			h.now = time.Now()
			fn()
		case h.now = <-tick.C:
			h.deliverLate()
			ticked = true
		case <-h.quit:
			return
		}
		for _, c := range h.conns {
			c.progress(ticked)
		}
	}
}

// do runs fn in the loop, and waits for its end.
func (h *host) do(fn func()) {
	done := make(chan struct{})
	select {
	case h.calls <- func() { fn(); close(done) }:
		<-done
	case <-h.quit:
	}
}

func (h *host) wrong(format string, args ...any) {
	if len(h.wrongs) < 20 {
		h.wrongs = append(h.wrongs, fmt.Sprintf(format, args...))
	}
}

// impair simulates the faults of a network.
func (h *host) impair(run func()) {
	f := h.opt.faults
	switch n := h.dice.IntN(100); {
	case f == 0 || n >= 3*f:
		run()
	case n < f:
	case n < 2*f:
		run()
		run()
	default:
		wait := time.Duration(h.dice.IntN(4000)) * time.Microsecond
		h.late = append(h.late, parcel{h.now.Add(wait), run})
	}
}

func (h *host) deliverLate() {
	all := h.late
	h.late = nil
	for _, p := range all {
		if h.now.Before(p.due) {
			h.late = append(h.late, p)
			continue
		}
		p.run()
	}
}

func (h *host) post(ch int, to netip.AddrPort, b []byte) {
	if h.pass != nil && !h.pass(true, &datagram{ch, to, b}) {
		return
	}
	h.impair(func() { _, _ = h.socks[ch].WriteToUDPAddrPort(b, to) })
}

func (h *host) arrive(d datagram) {
	p, err := decode(d.b)
	if err == nil {
		h.judge(&d, p)
	}
	if h.pass != nil && !h.pass(false, &d) {
		return
	}
	if err != nil {
		h.wrong("no packet: %x", d.b[:min(len(d.b), 120)])
		return
	}
	if h.see == nil || h.see(&d, p) {
		h.impair(func() { h.take(&d, p) })
	}
}

func (h *host) take(d *datagram, p *packet) {
	if p.kind == kHello {
		h.onHello(d, p)
		return
	}
	c := h.conns[p.conn]
	if c == nil {
		h.strays++
		return
	}
	switch p.kind {
	case kHelloAck:
		c.onHelloAck(d, p)
	case kRetry:
		c.onRetry(p)
	case kReject:
		c.onReject(p)
	default:
		c.onTraffic(d, p)
	}
}

// addressOf encodes a socket's address as in section 1.
func (h *host) addressOf(a netip.AddrPort) []byte {
	ip, port := a.Addr().As4(), a.Port()
	if h.opt.provider == "udp" {
		return append([]byte{4, byte(port >> 8), byte(port)}, ip[:]...)
	}
	return append(append([]byte{2, 0, byte(port >> 8), byte(port)}, ip[:]...), make([]byte, 8)...)
}

func (h *host) parseAddress(b []byte) (a netip.AddrPort, ok bool) {
	skip, size := 1, 7
	if h.opt.provider != "udp" {
		skip, size = 2, 16
	}
	if len(b) != size || h.opt.provider == "udp" && b[0] != 4 {
		return a, false
	}
	ip := netip.AddrFrom4([4]byte(b[skip+2 : skip+6]))
	return netip.AddrPortFrom(ip, uint16(b[skip])<<8|uint16(b[skip+1])), true
}

func (h *host) own(ch int) []byte {
	return h.addressOf(h.socks[ch].LocalAddr().(*net.UDPAddr).AddrPort())
}

func (h *host) name() []byte {
	n := &name{
		provider: h.opt.provider, command: h.own(0), data: h.own(1),
		incarnation: h.incarnation, mtu: h.opt.mtu, tiny: h.opt.command,
	}
	return n.encode()
}
