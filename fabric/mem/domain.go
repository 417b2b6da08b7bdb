package mem

import (
	"math"
	"slices"
	"syscall"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/internal/doorbell"
)

const (
	defaultBuffers  = 4096
	maxBuffers      = 1 << 24
	maxBufferBytes  = 1 << 24
	maxArenaBytes   = min(1<<36, math.MaxInt)
	bufferAlignment = 64 // a cache line, which different buffers never share
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
)

func failure(op string, errno syscall.Errno, text string) error {
	return &fabric.Error{Provider: ProviderName, Op: op, Errno: int(errno), Text: text}
}

// The type "domain" implements fabric.Domain and fabric.Waiter. Only the goroutine that uses the
// domain may access the fields of the domain, except the field "bell", through which other
// goroutines wake the domain.
type domain struct {
	nw        *Network
	info      fabric.Info
	arena     fabric.Arena
	bell      *doorbell.Bell
	addrBase  fabric.Addr // upper half of this domain's Addrs, to detect those of other domains
	peers     []peer      // by endpoint number, so that the look-up for a packet needs no map
	regions   [][]byte    // by Region; nil entries are free, entry 0 always is
	use       []int32     // by Buf: inUseByRecv, or the number of incomplete sends
	endpoints []*endpoint // open ones
	closed    bool
}

const inUseByRecv = -1

// A peer is an entry of the address vector. An entry of the address vector is unused if its field
// "inserts" is 0.
type peer struct {
	inbox   *inbox
	inserts int
	name    [nameBytes]byte
}

var (
	_ fabric.Domain = (*domain)(nil)
	_ fabric.Waiter = (*domain)(nil)
)

func newDomain(nw *Network, id uint32, cfg fabric.DomainConfig) (*domain, error) {
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
	memory := make([]byte, cfg.Buffers*stride)
	arena, err := fabric.NewArena(memory, cfg.Buffers, stride, 0, cfg.BufferBytes)
	if err != nil {
		return nil, err
	}
	return &domain{
		nw:       nw,
		info:     nw.info(),
		arena:    arena,
		bell:     doorbell.New(),
		addrBase: fabric.Addr(id) << 32,
		regions:  make([][]byte, 1),
		use:      make([]int32, cfg.Buffers),
	}, nil
}

func (d *domain) Info() fabric.Info   { return d.info }
func (d *domain) Arena() fabric.Arena { return d.arena }

func (d *domain) Insert(name []byte) (fabric.Addr, error) {
	if d.closed {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	number, in, err := d.nw.resolve(name)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	if n := int(number) + 1; n > len(d.peers) {
		d.peers = append(d.peers, make([]peer, n-len(d.peers))...)
	}
	p := &d.peers[number]
	if p.inserts == 0 {
		p.inbox = in
		p.name = makeName(number)
	}
	p.inserts++
	return d.addrBase | fabric.Addr(number), nil
}

func (d *domain) Remove(a fabric.Addr) error {
	if d.closed {
		return fabric.ErrClosed
	}
	p := d.peer(a)
	if p == nil {
		return errRemoveAddr
	}
	p.inserts--
	if p.inserts == 0 {
		*p = peer{} // releases the inbox
	}
	return nil
}

func (d *domain) peer(a fabric.Addr) *peer {
	number := a - d.addrBase // a huge number for other domains' addresses
	if number >= fabric.Addr(len(d.peers)) || d.peers[number].inserts == 0 {
		return nil
	}
	return &d.peers[number]
}

func (d *domain) addrOf(number uint32) fabric.Addr {
	if int(number) >= len(d.peers) || d.peers[number].inserts == 0 {
		return fabric.AddrUnknown
	}
	return d.addrBase | fabric.Addr(number)
}

func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	switch {
	case d.closed:
		return 0, fabric.ErrClosed
	case d.nw.cfg.NoGather:
		return 0, fabric.ErrNotSupported
	case len(mem) == 0:
		return 0, badConfig("a region of no bytes")
	}
	for r := 1; r < len(d.regions); r++ {
		if d.regions[r] == nil {
			d.regions[r] = mem
			return fabric.Region(r), nil
		}
	}
	if len(d.regions) > maxRegions {
		return 0, fabric.ErrAgain
	}
	d.regions = append(d.regions, mem)
	return fabric.Region(len(d.regions) - 1), nil
}

func (d *domain) DeregisterRegion(r fabric.Region) error {
	if d.closed {
		return fabric.ErrClosed
	}
	if int(r) >= len(d.regions) || d.regions[r] == nil {
		return errNoRegion
	}
	d.regions[r] = nil
	return nil
}

func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if cfg.TxDepth == 0 {
		cfg.TxDepth = d.nw.cfg.TxDepth
	}
	if cfg.RxDepth == 0 {
		cfg.RxDepth = d.nw.cfg.RxDepth
	}
	if cfg.TxDepth < 0 || cfg.TxDepth > maxDepth {
		return nil, badConfig("TxDepth is %d, want 1 to %d", cfg.TxDepth, maxDepth)
	}
	if cfg.RxDepth < 0 || cfg.RxDepth > maxDepth {
		return nil, badConfig("RxDepth is %d, want 1 to %d", cfg.RxDepth, maxDepth)
	}
	e, err := newEndpoint(d, cfg)
	if err != nil {
		return nil, err
	}
	d.endpoints = append(d.endpoints, e)
	return e, nil
}

func (d *domain) forget(e *endpoint) {
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
}

// Close closes the endpoints and then the domain. A second Close does nothing and returns nil.
func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	for len(d.endpoints) > 0 {
		if err := d.endpoints[0].Close(); err != nil {
			return err
		}
	}
	d.closed = true
	d.peers, d.regions = nil, nil
	return nil
}

// Wait implements fabric.Waiter.
func (d *domain) Wait(timeout time.Duration) error {
	if d.closed {
		return fabric.ErrClosed
	}
	d.bell.Wait(timeout, d.pollable)
	return nil
}

// Wake implements fabric.Waiter.
func (d *domain) Wake() { d.bell.Wake() }

func (d *domain) pollable() bool {
	for _, e := range d.endpoints {
		if e.pollable() {
			return true
		}
	}
	return false
}
