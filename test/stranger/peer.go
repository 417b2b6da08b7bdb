package stranger

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The channels, as the probe's bit 0 numbers them.
const (
	command, data = 0, 1
	channels      = 2
)

const (
	tick             = 500 * time.Microsecond // how late a timer of the peer may be
	handshakeTimeout = 3 * time.Second
	peerTimeout      = 5 * time.Second
	lingerTime       = time.Second
	halfOpenMax      = 64
)

// Errors that end a message or a connection.
var (
	ErrClosed     = errors.New("closed")
	ErrPeerClosed = errors.New("closed by the peer")
	ErrDead       = errors.New("no answer")
	ErrRejected   = errors.New("rejected")
	ErrRestarted  = errors.New("peer restarted")
	ErrTooLarge   = errors.New("larger than the peer takes")
	ErrRefused    = errors.New("refused with a Nack")
)

// Config describes a peer; zero fields take the values on the right.
type Config struct {
	Provider              string        // ofi/udp; what the module's name says
	CommandPort, DataPort uint16        // any free one
	MTUBytes              uint16        // 1472
	CommandBytes          uint16        // 768
	WindowPackets         uint32        // 1024
	Credit                uint16        // 128
	FragmentBytesMax      uint32        // 16 MiB
	AckDelay              time.Duration // 2 ms
	FirstSeq              uint32        // random
	Faults                Faults
	// OnMessage gets every message for which Accept (nil: all) has a handler; on the loop's goroutine.
	OnMessage func(c *Conn, tag uint8, message []byte)
	Accept    func(tag uint8) bool
	OnConn    func(c *Conn) // an endpoint is established
}

// Faults are injected at the sockets, in both directions, each with its probability.
type Faults struct {
	Seed             uint64
	Loss, Dup, Delay float64
	DelayMax         time.Duration
}

type datagram struct {
	channel int
	to      netip.AddrPort // of one that goes out
	bytes   []byte
	due     time.Time
	out     bool
}

// Peer is one module: two sockets and its connections.
type Peer struct {
	cfg         Config
	incarnation uint64
	secret      uint64 // of the cookies
	socks       [channels]*net.UDPConn
	names       [channels][]byte
	numbers     map[numberKey]uint32
	in          chan datagram
	calls       chan func()
	stop        chan struct{}
	once        sync.Once
	wg          sync.WaitGroup

	// All below belongs to the loop.
	rng     *rand.Rand
	conns   map[uint64]*Conn // by the tag that this side chose
	regions map[uint64][]byte
	delayed []datagram
	breach  []string
	counts  map[string]int
}

// Open binds the sockets on 127.0.0.1 and starts the peer.
func Open(cfg Config) (*Peer, error) {
	cfg.Provider = orDefault(cfg.Provider, "ofi/udp")
	cfg.MTUBytes = orDefault(cfg.MTUBytes, 1472)
	cfg.CommandBytes = orDefault(cfg.CommandBytes, 768)
	cfg.WindowPackets = orDefault(cfg.WindowPackets, 1024)
	cfg.Credit = orDefault(cfg.Credit, 128)
	cfg.FragmentBytesMax = orDefault(cfg.FragmentBytesMax, 16<<20)
	cfg.AckDelay = orDefault(cfg.AckDelay, 2*time.Millisecond)
	p := &Peer{
		cfg: cfg, incarnation: random(), secret: random(),
		in: make(chan datagram, 4096), calls: make(chan func()),
		stop: make(chan struct{}), rng: rand.New(rand.NewPCG(cfg.Faults.Seed, 1)),
		conns: map[uint64]*Conn{}, regions: map[uint64][]byte{}, counts: map[string]int{},
	}
	for ch, port := range [channels]uint16{cfg.CommandPort, cfg.DataPort} {
		addr := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
		sock, err := net.ListenUDP("udp4", addr)
		if err == nil {
			err = sock.SetReadBuffer(4 << 20)
		}
		if err != nil {
			return nil, err // what is open already closes with the process
		}
		p.socks[ch], p.names[ch] = sock, p.address(sock)
	}
	p.wg.Add(3)
	go p.read(command)
	go p.read(data)
	go p.loop()
	return p, nil
}

func orDefault[T comparable](v, def T) T {
	if v == *new(T) {
		return def
	}
	return v
}

// random returns a number other than 0.
func random() uint64 {
	var b [8]byte
	_, _ = cryptorand.Read(b[:]) // never fails
	return le.Uint64(b[:]) | 1
}

// address is an address as the providers write it: a sockaddr_in for ofi/udp.
func address(provider string, a netip.AddrPort) []byte {
	if provider == "udp" {
		b := binary.BigEndian.AppendUint16([]byte{4}, a.Port())
		return append(b, a.Addr().AsSlice()...)
	}
	b := binary.NativeEndian.AppendUint16(nil, 2)
	b = binary.BigEndian.AppendUint16(b, a.Port())
	b = append(b, a.Addr().AsSlice()...)
	return append(b, make([]byte, 8)...)
}

func (p *Peer) address(sock *net.UDPConn) []byte {
	return address(p.cfg.Provider, sock.LocalAddr().(*net.UDPAddr).AddrPort())
}

func parseAddress(b []byte) (netip.AddrPort, error) {
	switch {
	case len(b) == 7 && b[0] == 4:
		b = b[1:]
	case len(b) == 16 && binary.NativeEndian.Uint16(b) == 2:
		b = b[2:8]
	default:
		return netip.AddrPort{}, fmt.Errorf("no IPv4 address: %x", b)
	}
	ip, _ := netip.AddrFromSlice(b[2:])
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b)), nil
}

// Close ends the peer without a word to anybody, as a crash would.
func (p *Peer) Close() {
	p.once.Do(func() {
		close(p.stop)
		_ = p.socks[command].Close()
		_ = p.socks[data].Close()
	})
	p.wg.Wait()
}

// Name is the module's name.
func (p *Peer) Name() []byte {
	n := Name{
		Provider: p.cfg.Provider, Command: p.names[command], Data: p.names[data],
		Incarnation: p.incarnation, MTUBytes: p.cfg.MTUBytes, CommandBytes: p.cfg.CommandBytes,
	}
	return n.Encode()
}

// Ports are those of the two channels.
func (p *Peer) Ports() (commandPort, dataPort uint16) {
	port := func(ch int) uint16 { return uint16(p.socks[ch].LocalAddr().(*net.UDPAddr).Port) }
	return port(command), port(data)
}

// do runs fn on the loop.
func (p *Peer) do(fn func()) {
	done := make(chan struct{})
	select {
	case p.calls <- func() { fn(); close(done) }:
		<-done
	case <-p.stop:
	}
}

// Breaches lists what was received against the rules of the page.
func (p *Peer) Breaches() (list []string) {
	p.do(func() { list = append(list, p.breach...) })
	return list
}

// Count returns one of the peer's counters.
func (p *Peer) Count(name string) (n int) {
	p.do(func() { n = p.counts[name] })
	return n
}

// Expose makes memory a region and returns its handle.
func (p *Peer) Expose(mem []byte) uint64 {
	handle := random()
	p.do(func() { p.regions[handle] = mem })
	return handle
}

func (p *Peer) breachf(format string, args ...any) {
	if len(p.breach) < 100 {
		p.breach = append(p.breach, fmt.Sprintf(format, args...))
	}
}

func (p *Peer) read(channel int) {
	defer p.wg.Done()
	buf := make([]byte, 65536)
	for {
		n, err := p.socks[channel].Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // such as the refusal of an earlier datagram by a port that is closed
		}
		select {
		case p.in <- datagram{channel: channel, bytes: append([]byte(nil), buf[:n]...)}:
		case <-p.stop:
			return
		}
	}
}

func (p *Peer) loop() {
	defer p.wg.Done()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case d := <-p.in:
			p.fault(d)
			for range len(p.in) {
				p.fault(<-p.in)
			}
		case fn := <-p.calls:
			fn()
		case <-ticker.C:
		case <-p.stop:
			return
		}
		now := time.Now()
		kept := p.delayed[:0]
		for _, d := range p.delayed {
			if d.due.After(now) {
				kept = append(kept, d)
			} else {
				p.pass(d)
			}
		}
		p.delayed = kept
		for _, c := range p.conns {
			c.work(now)
		}
	}
}

// fault lets a datagram pass, or loses, doubles or delays it.
func (p *Peer) fault(d datagram) {
	f := p.cfg.Faults
	copies := 1
	if p.rng.Float64() < f.Dup {
		copies = 2
	}
	for range copies {
		switch {
		case p.rng.Float64() < f.Loss:
			p.counts["lost"]++
		case p.rng.Float64() < f.Delay:
			d.due = time.Now().Add(time.Duration(p.rng.Int64N(int64(f.DelayMax))))
			p.delayed = append(p.delayed, d)
		default:
			p.pass(d)
		}
	}
}

func (p *Peer) pass(d datagram) {
	if d.out {
		_, _ = p.socks[d.channel].WriteToUDPAddrPort(d.bytes, d.to) // else it is lost
		return
	}
	p.receive(d.channel, d.bytes)
}

var kindNames = [16]string{
	"", "Frag", "Chunk", "Ack", "Hello", "HelloAck", "Nack", "Reject", "Pack", "Part",
	"Ping", "Pong", "Retry",
}

// numberKey names what packets are numbered by.
type numberKey struct {
	channel int
	conn    uint64
}

func (p *Peer) send(channel int, to netip.AddrPort, pkt *Packet) {
	pkt.Version = version
	if pkt.Conn != 0 && pkt.Kind != kindReject && pkt.Kind != kindRetry {
		if p.numbers == nil {
			p.numbers = map[numberKey]uint32{}
		}
		key := numberKey{channel, pkt.Conn}
		p.numbers[key]++
		pkt.Number = p.numbers[key]
	}
	p.counts["sent "+kindNames[pkt.Kind]]++
	p.fault(datagram{channel: channel, to: to, bytes: pkt.Encode(nil), out: true})
}

// receive sorts a datagram to its connection.
func (p *Peer) receive(channel int, b []byte) {
	pkt, err := Decode(b)
	if err != nil {
		p.breachf("%v: %x", err, b[:min(len(b), 64)])
		return
	}
	p.counts["got "+kindNames[pkt.Kind]]++
	if limit := [...]uint16{p.cfg.CommandBytes, p.cfg.MTUBytes}[channel]; len(b) > int(limit) {
		p.breachf("%s of %d bytes on channel %d", kindNames[pkt.Kind], len(b), channel)
	}
	switch pkt.Kind {
	case kindAck, kindNack:
		if channel != command {
			p.breachf("%s on the data channel", kindNames[pkt.Kind])
		}
	case kindChunk:
		if channel != data {
			p.breachf("Chunk on the command channel")
		}
	case kindHello:
		p.hello(channel, pkt)
		return
	}
	c := p.conns[pkt.Conn]
	if c == nil {
		p.counts["unknown conn"]++
		p.counts[fmt.Sprintf("unknown conn %x", pkt.Conn)]++
		return
	}
	c.receive(channel, pkt)
}
