//go:build linux

package udp

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
	"gobtl/fabric/internal/regions"
	"gobtl/internal/park"
)

const (
	cacheLineBytes = 64
	defaultBuffers = 4096
	maxBuffers     = 1 << 24
	maxBufferBytes = 1 << 20
	maxArenaBytes  = 1 << 36
)

// The type "domain" implements fabric.Domain and fabric.Sleeper. Only the goroutine that uses the
// domain may access the fields of the domain, except the fields "bell" and "sleeper", which Wake,
// Sleep and Hasten use on other goroutines.
type domain struct {
	options  Options
	local    inet.Local
	info     fabric.Info
	mtuBytes int
	runs     runBounds
	arena    fabric.Arena
	buffers  buffers
	peers    peerTable
	regions  regions.Table

	endpoints []*endpoint
	opened    int    // endpoints opened so far, without those of groups
	groups    bool   // datagrams go to multicast groups
	past      counts // counts of closed endpoints
	bell      *park.Bell
	sleeper   sleeper
	pollFds   []unix.PollFd
	pollTime  unix.Timespec
	closed    bool
}

// The type "buffers" describes the memory of the arena for the endpoints.
type buffers struct {
	mem                []byte // mapped, not of the Go heap
	base               uintptr
	count, stride, len int
}

// The method "bytes" returns a buffer's memory.
func (a *buffers) bytes(b fabric.Buf) []byte {
	lo := int(b) * a.stride
	return a.mem[lo : lo+a.len]
}

func (a *buffers) addr(b fabric.Buf) uintptr { return a.base + uintptr(b)*uintptr(a.stride) }

var (
	_ fabric.Domain  = (*domain)(nil)
	_ fabric.Sleeper = (*domain)(nil) // sleep.go
)

func openDomain(
	l *inet.Local, o Options, nodeText string, cfg fabric.DomainConfig,
) (fabric.Domain, error) {
	have, err := probe(l, o)
	if err != nil {
		return nil, err
	}
	d := &domain{
		options: o,
		local:   *l,
		info:    newInfo(l, o, have, nodeText),
		runs:    boundsOf(l),
		peers:   peerTable{byName: make(map[netip.AddrPort]uint32)},
	}
	if err := d.mapArena(cfg); err != nil {
		return nil, err
	}
	if d.bell, err = park.NewBell(); err != nil {
		_ = unix.Munmap(d.buffers.mem)
		return nil, err
	}
	return d, nil
}

func (d *domain) mapArena(cfg fabric.DomainConfig) error {
	count, size := cfg.Buffers, cfg.BufferBytes
	if count == 0 {
		count = defaultBuffers
	}
	if size == 0 {
		size = d.info.MTUBytes
	}
	if count < 0 || count > maxBuffers {
		return badConfig("Buffers is %d, want 1 to %d", count, maxBuffers)
	}
	if size < 0 || size > maxBufferBytes {
		return badConfig("BufferBytes is %d, want 1 to %d", size, maxBufferBytes)
	}
	stride := strideBytes(size)
	if uint64(count)*uint64(stride) > min(maxArenaBytes, math.MaxInt) {
		return badConfig("%d buffers of %d bytes are more than this provider maps", count, stride)
	}
	mem, err := mapMemory(count * stride)
	if err != nil {
		return err
	}
	if stride <= 16<<10 {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	if d.arena, err = fabric.NewArena(mem, count, stride, 0, size); err != nil {
		_ = unix.Munmap(mem)
		return err
	}
	d.buffers = buffers{
		mem: mem, base: uintptr(unsafe.Pointer(&mem[0])), count: count, stride: stride, len: size,
	}
	d.mtuBytes = min(d.info.MTUBytes, size)
	d.info.MTUBytes, d.info.InjectBytes = d.mtuBytes, d.mtuBytes
	return nil
}

func strideBytes(size int) int {
	lines := (size + cacheLineBytes - 1) / cacheLineBytes
	return (lines | 1) * cacheLineBytes
}

// mapMemory returns zeroed memory outside of the Go heap (mmap).
func mapMemory(sizeBytes int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, sizeBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	return mem, sysError("mmap", err)
}

// Info returns the Info with which the domain was opened. The attributes of the returned Info
// describe the present state of the domain, and include counters of events.
func (d *domain) Info() fabric.Info {
	info := d.info
	info.Attrs = slices.Clone(info.Attrs)
	if least, ok := d.tightest(); ok {
		setAttr(info.Attrs, least)
	}
	total := d.past
	for _, e := range d.endpoints {
		c := e.total()
		total.add(&c)
		if !e.sock.have.gso {
			setAttr(info.Attrs, e.sock.have.attrs()[0])
		}
	}
	for _, c := range total.list() {
		if c.value > 0 {
			info.Attrs = append(info.Attrs,
				fabric.Attr{Name: c.name, Value: strconv.FormatUint(c.value, 10)})
		}
	}
	return info
}

func (d *domain) Arena() fabric.Arena { return d.arena }

// Insert implements fabric.Domain. Insert assumes that an endpoint with a link-local IPv6 address
// is on the link of this domain's network device.
func (d *domain) Insert(name []byte) (fabric.Addr, error) {
	if d.closed {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	ap, err := inet.DecodeName(name, d.local.Version())
	if err != nil {
		return fabric.AddrUnknown, err
	}
	return d.peers.insert(ap, scope(&d.local))
}

// Remove implements fabric.Domain.
func (d *domain) Remove(a fabric.Addr) error {
	if d.closed {
		return fabric.ErrClosed
	}
	if !d.peers.remove(a) {
		return errRemoveAddr
	}
	return nil
}

func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	if d.closed {
		return 0, fabric.ErrClosed
	}
	return d.regions.Add(mem)
}

func (d *domain) DeregisterRegion(r fabric.Region) error {
	if d.closed {
		return fabric.ErrClosed
	}
	if !d.regions.Remove(r) {
		return errDropRegion
	}
	return nil
}

// OpenEndpoint implements fabric.Domain. If a queue depth in the configuration exceeds the
// provider's limit, OpenEndpoint uses the limit instead, and Endpoint.Caps contains the limit.
func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	return d.openEndpoint(cfg, func() (*socket, error) {
		at := d.local
		if d.opened < len(at.Ports) {
			at.Port = at.Ports[d.opened]
		}
		d.opened++
		return openSocket(&at, d.options, cfg.RecvBufferBytes)
	})
}

func (d *domain) openEndpoint(
	cfg fabric.EndpointConfig, open func() (*socket, error),
) (fabric.Endpoint, error) {
	if cfg.TxDepth < 0 || cfg.RxDepth < 0 {
		return nil, badConfig("TxDepth is %d, RxDepth %d, want 0 or more", cfg.TxDepth, cfg.RxDepth)
	}
	if cfg.TxDepth == 0 {
		cfg.TxDepth = defaultTxDepth
	}
	if cfg.RxDepth == 0 {
		cfg.RxDepth = defaultRxDepth
	}
	cfg.TxDepth, cfg.RxDepth = min(cfg.TxDepth, maxDepth), min(cfg.RxDepth, maxDepth)
	s, err := open()
	if err == nil && d.groups {
		err = s.multicastBy(&d.local)
	}
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(d, s, cfg)
	if err != nil {
		return nil, err
	}
	d.endpoints = append(d.endpoints, e)
	return e, nil
}

// Close implements fabric.Domain. Close releases all resources even if it returns an error. A
// second Close does nothing.
func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	var first error
	for len(d.endpoints) > 0 {
		if err := d.endpoints[0].Close(); err != nil && first == nil {
			first = err
		}
	}
	d.closed = true
	d.bell.Close()
	d.sleeper.close()
	mem := d.buffers.mem
	err := d.arena.Retire(func() error { return sysError("munmap", unix.Munmap(mem)) })
	if err != nil && first == nil {
		first = err
	}
	d.peers, d.regions, d.buffers.mem = peerTable{}, regions.Table{}, nil
	return first
}
