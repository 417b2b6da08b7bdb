//go:build linux

package shm

import (
	"errors"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/regions"
	"gobtl/internal/park"
)

const (
	defaultBuffers = 4096
	maxBuffers     = 1 << 24
	maxBufferBytes = 1 << 20
	maxArenaBytes  = 1 << 36
	maxEndpoints   = 256
)

// The type "domain" implements fabric.Domain and fabric.Sleeper. Only the goroutine that uses the
// domain may access the fields of the domain, except the fields "bell", "sleeper" and
// "napper.bell", which Wake, Sleep and Hasten use on other goroutines.
type domain struct {
	info    fabric.Info
	name    name // without an endpoint number
	mem     []byte
	arena   fabric.Arena
	peers   peerTable
	regions regions.Table

	endpoints  []*endpoint // by slot; nil is free
	opened     int         // number of the next endpoint, which is never reused
	loop       loop
	bell       *park.Bell
	sleeper    sleeper
	napper     napper
	ringMost   int // largest ring of this domain, in bytes
	ringBytes  int // total size of the rings that this domain has made
	takenBytes int
	closed     bool
}

var (
	_ fabric.Domain  = (*domain)(nil)
	_ fabric.Sleeper = (*domain)(nil)
)

func openDomain(info fabric.Info, cfg fabric.DomainConfig) (_ fabric.Domain, err error) {
	d := &domain{info: info, peers: peerTable{byName: make(map[name]uint32)}}
	d.info.Reliable, d.info.Ordered = true, true
	d.ringMost = ringBytesMax
	for limit := fileLimit(); d.ringMost > ringBytesMin && headerBytes+uint64(d.ringMost) > limit; {
		d.ringMost /= 2
	}
	d.info.Attrs = attrs(d.ringMost)
	if err := d.mapArena(cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	if d.name, err = newName(); err != nil {
		return nil, err
	}
	d.info.Src = d.name.socketPath()
	if d.bell, err = park.NewBell(); err != nil {
		return nil, err
	}
	d.napper.open()
	return d, d.loop.open(d)
}

func (d *domain) mapArena(cfg fabric.DomainConfig) (err error) {
	count, size := cfg.Buffers, cfg.BufferBytes
	if count == 0 {
		count = defaultBuffers
	}
	if size == 0 {
		size = mtuBytes
	}
	if count < 0 || count > maxBuffers {
		return badConfig("Buffers is %d, want 1 to %d", count, maxBuffers)
	}
	if size < 0 || size > maxBufferBytes {
		return badConfig("BufferBytes is %d, want 1 to %d", size, maxBufferBytes)
	}
	stride := ((size+ringAlign-1)/ringAlign | 1) * ringAlign
	if uint64(count)*uint64(stride) > min(maxArenaBytes, math.MaxInt) {
		return badConfig("%d buffers of %d bytes are more than this provider maps", count, stride)
	}
	d.mem, err = unix.Mmap(-1, 0, count*stride, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if d.arena, err = fabric.NewArena(d.mem, count, stride, 0, size); err != nil {
		return errors.Join(err, unix.Munmap(d.mem))
	}
	d.info.MTUBytes = min(mtuBytes, size)
	d.info.InjectBytes = min(injectBytes, d.info.MTUBytes)
	return nil
}

func (d *domain) release() {
	d.sleeper.close()
	d.loop.close()
	if d.bell != nil {
		d.bell.Close()
	}
	mem := d.mem
	_ = d.arena.Retire(func() error { return unix.Munmap(mem) }) // cannot fail for memory from Mmap
	d.mem = nil
}

func (d *domain) Info() fabric.Info   { return d.info }
func (d *domain) Arena() fabric.Arena { return d.arena }

func (d *domain) Insert(b []byte) (fabric.Addr, error) {
	if d.closed {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	n, err := parseName(b, &d.name)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	return d.peers.insert(n)
}

// Remove implements fabric.Domain. The Remove that undoes the last Insert of an Addr makes the Addr
// invalid, and the sends to the Addr that wait for room in the ring complete with ECANCELED.
func (d *domain) Remove(a fabric.Addr) error {
	if d.closed {
		return fabric.ErrClosed
	}
	return d.peers.remove(a)
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
		return errNoRegion
	}
	return nil
}

func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	for _, depth := range []*int{&cfg.TxDepth, &cfg.RxDepth} {
		if *depth == 0 {
			*depth = defaultDepth
		}
		if *depth < 0 || *depth > maxDepth {
			return nil, badConfig("a depth of %d, want 1 to %d", *depth, maxDepth)
		}
	}
	slot := slices.Index(d.endpoints, nil)
	if slot < 0 {
		slot = len(d.endpoints)
		if slot == maxEndpoints {
			return nil, badConfig("more than %d endpoints", maxEndpoints)
		}
		d.endpoints = append(d.endpoints, nil)
	}
	if d.opened > math.MaxUint16 {
		return nil, badConfig("a domain opens %d endpoints in its life", math.MaxUint16+1)
	}
	e := newEndpoint(d, slot, uint16(d.opened), cfg)
	d.opened++
	d.endpoints[slot] = e
	return e, nil
}

func (d *domain) endpoint(number uint16) *endpoint {
	for _, e := range d.endpoints {
		if e != nil && e.number == number {
			return e
		}
	}
	return nil
}

// Close closes the endpoints and then the domain. A second Close does nothing and returns nil.
func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	for _, e := range d.endpoints {
		if e != nil {
			_ = e.Close() // returns nil
		}
	}
	d.closed = true
	d.release()
	d.peers, d.regions, d.endpoints = peerTable{}, regions.Table{}, nil
	return nil
}
