package sim

import (
	"math"
	"syscall"

	"gobtl/fabric"
)

const (
	defaultBuffers  = 4096
	maxBuffers      = 1 << 24
	maxBufferBytes  = 1 << 24
	maxArenaBytes   = min(1<<36, math.MaxInt)
	bufferAlignment = 64
	maxRegions      = 1 << 20
)

var (
	errUnknownAddr = failure("fi_send", syscall.EINVAL, "unknown or removed peer address")
	errRemoveAddr  = failure("fi_av_remove", syscall.EINVAL, "unknown or removed peer address")
	errBadBuf      = failure("post", syscall.EINVAL, "buffer outside the arena")
	errBusyBuf     = failure("post", syscall.EBUSY, "buffer still posted for another use")
	errTooLong     = failure("fi_send", syscall.EMSGSIZE, "datagram larger than the buffer or the MTU")
	errBadRegion   = failure("fi_send", syscall.EINVAL, "unknown region, or bytes outside it")
	errNoRegion    = failure("fi_close", syscall.EINVAL, "unknown region")
	errSend        = failure("fi_send", syscall.EIO, "injected fault")
)

func failure(op string, errno syscall.Errno, text string) error {
	return &fabric.Error{Provider: ProviderName, Op: op, Errno: int(errno), Text: text}
}

// domain implements fabric.Domain.
type domain struct {
	node     *Node
	info     fabric.Info
	arena    fabric.Arena
	memory   []byte
	stride   int
	addrBase fabric.Addr  // upper half of this domain's Addrs, to detect other domains' Addrs
	peers    []peer       // by lower half of the Addr; entries stay, and a name keeps its Addr
	byPort   map[Port]int // index in peers; never iterated
	regions  []region     // by Region; entry 0 is none
	use      []int32      // by Buf: inUseByRecv, or the number of incomplete sends
	used     []bool       // by Buf: the buffer was posted, and its memory may not be zero
	ports    []*endpoint  // by Port.Index; nil after Close
	closed   bool
}

const inUseByRecv = -1

// A peer is an entry of the address vector. An entry of the address vector is unused if its field
// "inserts" is 0.
type peer struct {
	port    Port
	inserts int
	sending int // incomplete sends to the peer
}

type region struct {
	mem     []byte // nil: the entry is free
	sending int    // incomplete sends from the region
}

var _ fabric.Domain = (*domain)(nil)

func newDomain(n *Node, cfg fabric.DomainConfig) (*domain, error) {
	nw := n.nw
	if cfg.Buffers == 0 {
		cfg.Buffers = defaultBuffers
	}
	if cfg.BufferBytes == 0 {
		cfg.BufferBytes = nw.cfg.MTUBytes
	}
	if cfg.Buffers < 0 || cfg.Buffers > maxBuffers {
		return nil, badConfig("Buffers is %d, want 1 to %d", cfg.Buffers, maxBuffers)
	}
	if cfg.BufferBytes < 0 || cfg.BufferBytes > maxBufferBytes {
		return nil, badConfig("BufferBytes is %d, want 1 to %d", cfg.BufferBytes, maxBufferBytes)
	}
	stride := (cfg.BufferBytes + bufferAlignment - 1) &^ (bufferAlignment - 1)
	if cfg.Buffers > maxArenaBytes/stride {
		return nil, badConfig("an arena of %d buffers of %d bytes is more than %d bytes",
			cfg.Buffers, stride, maxArenaBytes)
	}
	memory := nw.arenaMemory(cfg.Buffers * stride)
	arena, err := fabric.NewArena(memory, cfg.Buffers, stride, 0, cfg.BufferBytes)
	if err != nil {
		return nil, err
	}
	nw.lastDomain++
	return &domain{
		node:     n,
		info:     nw.info(n),
		arena:    arena,
		memory:   memory,
		stride:   stride,
		addrBase: fabric.Addr(nw.lastDomain) << 32,
		byPort:   make(map[Port]int),
		regions:  make([]region, 1),
		use:      make([]int32, cfg.Buffers),
		used:     make([]bool, cfg.Buffers),
	}, nil
}

func (nw *Network) info(n *Node) fabric.Info {
	c := &nw.cfg
	iov := 2
	if c.NoGather {
		iov = 1
	}
	return fabric.Info{
		Provider:    ProviderName,
		Version:     "1",
		Fabric:      "virtual",
		Domain:      n.name,
		AddrFormat:  "sim:<node><index>",
		MTUBytes:    c.MTUBytes,
		InjectBytes: c.InjectBytes,
		TxDepth:     c.TxDepth,
		RxDepth:     c.RxDepth,
		IOVLimit:    iov,
		Source:      true,
		Loopback:    true,
		Reliable:    nw.cfg.Reliable,
		Ordered:     nw.cfg.Reliable,
	}
}

// Info returns the Info that a domain of this node would have. From the returned Info, a caller can
// choose the sizes of the domain before opening it.
func (n *Node) Info() fabric.Info { return n.nw.info(n) }

func (d *domain) Info() fabric.Info   { return d.info }
func (d *domain) Arena() fabric.Arena { return d.arena }

// Insert accepts the name of any Port, even if the Port has no open endpoint. A datagram to a Port
// without an open endpoint is lost, like a datagram to a host that is down.
func (d *domain) Insert(name []byte) (fabric.Addr, error) {
	if d.closed {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	port, err := ParsePort(name)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	i, known := d.byPort[port]
	if !known {
		i = len(d.peers)
		d.peers = append(d.peers, peer{port: port})
		d.byPort[port] = i
	}
	d.peers[i].inserts++
	return d.addrBase | fabric.Addr(i), nil
}

func (d *domain) Remove(a fabric.Addr) error {
	if d.closed {
		return fabric.ErrClosed
	}
	p := d.peer(a)
	if p == nil {
		return d.misuse(errRemoveAddr)
	}
	p.inserts--
	if p.inserts == 0 && p.sending > 0 {
		d.node.nw.violate(Port{d.node.index, 0},
			"address of %v removed while %d sends to it have not completed", p.port, p.sending)
	}
	return nil
}

func (d *domain) peer(a fabric.Addr) *peer {
	i := a - d.addrBase // a huge number for other domains' addresses
	if i >= fabric.Addr(len(d.peers)) || d.peers[i].inserts == 0 {
		return nil
	}
	return &d.peers[i]
}

func (d *domain) addrOf(p Port) fabric.Addr {
	i, known := d.byPort[p]
	if !known || d.peers[i].inserts == 0 {
		return fabric.AddrUnknown
	}
	return d.addrBase | fabric.Addr(i)
}

// The method "misuse" records an incorrect use of the fabric interface by the code under test (see
// Violations), and returns the argument "err".
func (d *domain) misuse(err error) error {
	d.node.nw.violate(Port{d.node.index, 0}, "%v", err)
	return err
}

func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	switch {
	case d.closed:
		return 0, fabric.ErrClosed
	case d.node.nw.cfg.NoGather:
		return 0, fabric.ErrNotSupported
	case len(mem) == 0:
		return 0, badConfig("a region of no bytes")
	}
	for r := 1; r < len(d.regions); r++ {
		if d.regions[r].mem == nil && d.regions[r].sending == 0 {
			d.regions[r].mem = mem
			return fabric.Region(r), nil
		}
	}
	if len(d.regions) > maxRegions {
		return 0, fabric.ErrAgain
	}
	d.regions = append(d.regions, region{mem: mem})
	return fabric.Region(len(d.regions) - 1), nil
}

func (d *domain) DeregisterRegion(r fabric.Region) error {
	if d.closed {
		return fabric.ErrClosed
	}
	if int64(r) >= int64(len(d.regions)) || d.regions[r].mem == nil {
		return d.misuse(errNoRegion)
	}
	if n := d.regions[r].sending; n > 0 {
		d.node.nw.violate(Port{d.node.index, 0},
			"region %d deregistered while %d sends from it have not completed", r, n)
	}
	d.regions[r].mem = nil
	return nil
}

func (d *domain) gather(s *fabric.Send) ([]byte, error) {
	if d.node.nw.cfg.NoGather {
		return nil, fabric.ErrNotSupported
	}
	if int64(s.Region) >= int64(len(d.regions)) || d.regions[s.Region].mem == nil {
		return nil, errBadRegion
	}
	mem := d.regions[s.Region].mem
	if s.RegionOff > uint64(len(mem)) || uint64(s.RegionLen) > uint64(len(mem))-s.RegionOff {
		return nil, errBadRegion
	}
	return mem[s.RegionOff : s.RegionOff+uint64(s.RegionLen)], nil
}

func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if cfg.TxDepth == 0 {
		cfg.TxDepth = d.node.nw.cfg.TxDepth
	}
	if cfg.RxDepth == 0 {
		cfg.RxDepth = d.node.nw.cfg.RxDepth
	}
	if cfg.TxDepth < 0 || cfg.TxDepth > maxDepth {
		return nil, badConfig("TxDepth is %d, want 1 to %d", cfg.TxDepth, maxDepth)
	}
	if cfg.RxDepth < 0 || cfg.RxDepth > maxDepth {
		return nil, badConfig("RxDepth is %d, want 1 to %d", cfg.RxDepth, maxDepth)
	}
	if len(d.ports) == maxPorts {
		return nil, badConfig("this domain has opened its %d endpoints", maxPorts)
	}
	e := newEndpoint(d, cfg)
	d.ports = append(d.ports, e)
	return e, nil
}

// Close closes the domain. A second Close does nothing and returns nil.
func (d *domain) Close() error {
	if !d.closed {
		d.shut()
		d.node.nw.recycle(d)
	}
	return nil
}

// The method "shut" closes the domain, but does not release or clear the memory of the domain's
// arena, so that a test can examine the arena after a crash of the process.
func (d *domain) shut() {
	for _, e := range d.ports {
		if e != nil {
			e.shut()
		}
	}
	d.closed = true
	d.node.dom = nil
	d.peers, d.byPort, d.regions = nil, nil, nil
}

func (d *domain) pollable() bool {
	for _, e := range d.ports {
		if e != nil && e.pollable() {
			return true
		}
	}
	return false
}
