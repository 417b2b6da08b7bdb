//go:build linux && cgo

package ofi

/*
#cgo noescape gofi_region_add
#cgo nocallback gofi_region_add
#cgo noescape gofi_region_drop
#cgo nocallback gofi_region_drop
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	// wantSocketBytes is the receive buffer asked for when the caller names none.
	wantSocketBytes = 4 << 20
	// fallbackSocketBytes is counted on where the socket could not be found: less than any default.
	fallbackSocketBytes = 64 << 10

	udpName     = family + "/" + udpProvider
	offloadName = udpName + optionOffload

	regionIndexBits = 20
	regionGenBits   = 32 - regionIndexBits
	maxRegions      = 1<<regionIndexBits - 1
	maxPeers        = 1<<31 - 1
)

// domain implements fabric.Domain and fabric.Waiter. Everything but bell belongs to the goroutine
// that uses the domain.
type domain struct {
	c      *C.struct_gofi_domain // nil after Close
	info   fabric.Info
	limits limits
	layout layout
	arena  fabric.Arena
	rules  nameRules
	src    []byte // our own address, without port; empty if libfabric does not tell

	peers     []peer            // by the index in an Addr
	freePeers []uint32          // indices to use again
	byName    map[string]uint32 // canonical name to index: Insert is idempotent on every provider

	regions     []region // by the index in a Region; entry 0 is none
	freeRegions []uint32

	endpoints []*endpoint
	bell      *bell
}

type peer struct {
	name  string
	gen   uint32
	count int // Inserts not undone
}

type region struct {
	pin  runtime.Pinner
	gen  uint32
	used bool
}

var (
	_ fabric.Domain = (*domain)(nil)
	_ fabric.Waiter = (*domain)(nil)
)

// openDomain opens what e describes; sourced is the same found with FI_SOURCE, or nil.
func openDomain(e, sourced *entry, cfg fabric.DomainConfig) (fabric.Domain, error) {
	lay, err := newLayout(e.limits, cfg)
	if err != nil {
		return nil, err
	}
	d := &domain{
		info:    e.info,
		limits:  e.limits,
		layout:  lay,
		rules:   newRules(e),
		src:     e.src,
		byName:  make(map[string]uint32),
		regions: make([]region, 1),
	}
	var sourcedInfo *C.struct_fi_info
	if sourced != nil && sourced.info.Source {
		sourcedInfo = sourced.fi
	}
	clay := C.struct_gofi_layout{
		count:     C.uint32_t(lay.count),
		size:      C.uint32_t(lay.sizeBytes),
		headroom:  C.uint32_t(lay.headroomBytes),
		stride:    C.uint32_t(lay.strideBytes),
		tx_prefix: C.uint32_t(lay.txPrefixBytes),
		rx_prefix: C.uint32_t(lay.rxPrefixBytes),
		mtu:       C.uint32_t(lay.mtuBytes),
		inject:    C.uint32_t(lay.injectBytes),
	}
	if e.limits.private {
		clay.private = 1
	}
	var fail C.struct_gofi_fail
	d.c = C.gofi_domain_open(e.fi, sourcedInfo, &clay, &fail)
	if d.c == nil {
		return nil, failed(d.info.Provider, &fail)
	}
	d.info.Source = C.gofi_has_source(d.c) != 0
	d.info.CanWait = C.gofi_can_wait(d.c) != 0
	mem := unsafe.Slice((*byte)(C.gofi_arena(d.c)), int(C.gofi_arena_bytes(d.c)))
	d.arena, err = fabric.NewArena(mem, lay.count, lay.strideBytes, lay.headroomBytes, lay.sizeBytes)
	if err == nil {
		d.bell, err = newBell()
	}
	if err != nil {
		C.gofi_domain_close(d.c, &fail)
		return nil, err
	}
	return d, nil
}

// isUDP says whether the domain is the udp provider's, whose sockets this package knows.
func (d *domain) isUDP() bool {
	return d.info.Provider == udpName || d.info.Provider == offloadName
}

// newRules derives what a name looks like from our own address. Where libfabric does not tell it
// beforehand, the first endpoint's name does.
func newRules(e *entry) nameRules {
	r := nameRules{form: e.form, bytes: len(e.src), scope: e.form.scopeOf(e.src)}
	switch e.form {
	case formSockIn:
		r.bytes = sockInBytes
	case formSockIn6:
		r.bytes = sockIn6Bytes
	case formString:
		r.bytes = 0 // texts differ in length
	case formOpaque: // as long as our own name
	}
	return r
}

func (d *domain) Info() fabric.Info {
	info := d.info
	info.Attrs = slices.Clone(info.Attrs)
	for _, e := range d.endpoints {
		if text := e.offload(); text != "" {
			info.Attrs = append(info.Attrs, fabric.Attr{Name: "offload", Value: text})
		}
	}
	return info
}

func (d *domain) Arena() fabric.Arena { return d.arena }

func (d *domain) fail(f *C.struct_gofi_fail) error { return failed(d.info.Provider, f) }

// Insert implements fabric.Domain. Of a name that libfabric's provider refuses the error wraps its
// *fabric.Error, and ErrBadName as well if the name may have been malformed.
func (d *domain) Insert(name []byte) (fabric.Addr, error) {
	if d.c == nil {
		return fabric.AddrUnknown, fabric.ErrClosed
	}
	canon, err := d.rules.check(name)
	if err != nil {
		return fabric.AddrUnknown, err
	}
	if i, ok := d.byName[canon]; ok {
		d.peers[i].count++
		return d.peers[i].addr(i), nil
	}
	i, err := d.newPeer()
	if err != nil {
		return fabric.AddrUnknown, err
	}
	p := &d.peers[i]
	// Some providers read the longest name they know of, whatever the length of this one.
	var padded [fabric.MaxNameBytes]byte
	copy(padded[:], canon)
	var fail C.struct_gofi_fail
	if C.gofi_insert(d.c, C.uint64_t(p.addr(i)), unsafe.Pointer(&padded[0]), &fail) != 0 {
		d.freePeers = append(d.freePeers, i)
		return fabric.AddrUnknown, d.refused(d.fail(&fail))
	}
	p.name, p.count = canon, 1
	d.byName[canon] = i
	return p.addr(i), nil
}

// refused makes the error of a name that the provider did not take. Of opaque names only the
// provider knows whether they are malformed or lead nowhere, and it does not tell which.
func (d *domain) refused(err error) error {
	bad := errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EADDRNOTAVAIL)
	if bad && d.rules.form != formSockIn && d.rules.form != formSockIn6 {
		return fmt.Errorf("%w, or one that cannot be reached: %w", fabric.ErrBadName, err)
	}
	return err
}

// newPeer returns the index of an unused peer, under a generation that it never had.
func (d *domain) newPeer() (uint32, error) {
	n := len(d.freePeers)
	if n == 0 {
		if len(d.peers) >= maxPeers {
			return 0, fmt.Errorf("%w: %d peers", fabric.ErrAgain, len(d.peers))
		}
		d.freePeers = append(d.freePeers, uint32(len(d.peers)))
		d.peers = append(d.peers, peer{})
		n = 1
	}
	i := d.freePeers[n-1]
	d.freePeers = d.freePeers[:n-1]
	d.peers[i].gen++
	if d.peers[i].gen == 0 {
		d.peers[i].gen = 1 // 0 marks a removed peer in the shim
	}
	return i, nil
}

func (p *peer) addr(index uint32) fabric.Addr {
	return fabric.Addr(p.gen)<<32 | fabric.Addr(index)
}

// Remove implements fabric.Domain. Of an Addr that names no peer it is a *fabric.Error with EINVAL.
func (d *domain) Remove(a fabric.Addr) error {
	if d.c == nil {
		return fabric.ErrClosed
	}
	i := uint32(a)
	if uint64(i) >= uint64(len(d.peers)) || d.peers[i].count == 0 || d.peers[i].addr(i) != a {
		return d.invalid("fi_av_remove", "unknown or removed peer address")
	}
	p := &d.peers[i]
	p.count--
	if p.count > 0 {
		return nil
	}
	delete(d.byName, p.name)
	p.name = ""
	d.freePeers = append(d.freePeers, i)
	var fail C.struct_gofi_fail
	if C.gofi_remove(d.c, C.uint64_t(a), &fail) != 0 {
		return d.fail(&fail)
	}
	return nil
}

func (d *domain) invalid(op, text string) error {
	return &fabric.Error{
		Provider: d.info.Provider, Op: op, Errno: int(syscall.EINVAL), Text: text,
	}
}

// RegisterRegion implements fabric.Domain. mem must not be empty (ErrBadConfig).
func (d *domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	switch {
	case d.c == nil:
		return 0, fabric.ErrClosed
	case !d.gathers():
		return 0, fabric.ErrNotSupported
	case len(mem) == 0:
		return 0, fmt.Errorf("%w: a region of no bytes", fabric.ErrBadConfig)
	}
	i, err := d.newRegion()
	if err != nil {
		return 0, err
	}
	r := &d.regions[i]
	id := fabric.Region(r.gen<<regionIndexBits | i)
	base := unsafe.Pointer(unsafe.SliceData(mem))
	// Pin ignores memory that is not Go's. The shim keeps the address, so Go must not free it.
	r.pin.Pin(base)
	var fail C.struct_gofi_fail
	if C.gofi_region_add(d.c, C.uint32_t(id), base, C.uint64_t(len(mem)), &fail) != 0 {
		r.pin.Unpin()
		d.freeRegions = append(d.freeRegions, i)
		return 0, d.fail(&fail)
	}
	r.used = true
	return id, nil
}

func (d *domain) gathers() bool { return d.limits.iovLimit >= 2 }

// newRegion returns the index of an unused region, under another generation than its last one.
func (d *domain) newRegion() (uint32, error) {
	n := len(d.freeRegions)
	if n == 0 {
		if len(d.regions) > maxRegions {
			return 0, fmt.Errorf("%w: %d regions", fabric.ErrAgain, maxRegions)
		}
		d.freeRegions = append(d.freeRegions, uint32(len(d.regions)))
		d.regions = append(d.regions, region{})
		n = 1
	}
	i := d.freeRegions[n-1]
	d.freeRegions = d.freeRegions[:n-1]
	d.regions[i].gen = (d.regions[i].gen + 1) & (1<<regionGenBits - 1)
	return i, nil
}

// DeregisterRegion implements fabric.Domain. Sends from the region must have completed.
func (d *domain) DeregisterRegion(id fabric.Region) error {
	if d.c == nil {
		return fabric.ErrClosed
	}
	i := uint32(id) & maxRegions
	if uint64(i) >= uint64(len(d.regions)) || !d.regions[i].used ||
		d.regions[i].gen != uint32(id)>>regionIndexBits {
		return d.invalid("fi_close", "unknown region")
	}
	var fail C.struct_gofi_fail
	code := C.gofi_region_drop(d.c, C.uint32_t(id), &fail)
	d.regions[i].used = false
	d.regions[i].pin.Unpin()
	d.freeRegions = append(d.freeRegions, i)
	if code != 0 {
		return d.fail(&fail)
	}
	return nil
}

// OpenEndpoint implements fabric.Domain. Depths beyond the provider's are cut to them: Caps tells.
func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.c == nil {
		return nil, fabric.ErrClosed
	}
	tx, err := depth("TxDepth", cfg.TxDepth, d.limits.txDepth)
	if err != nil {
		return nil, err
	}
	rx, err := depth("RxDepth", cfg.RxDepth, d.limits.rxDepth)
	if err != nil {
		return nil, err
	}
	e, err := d.newEndpoint(cfg, tx, rx)
	if err != nil {
		return nil, err
	}
	d.endpoints = append(d.endpoints, e)
	return e, nil
}

// newEndpoint opens the libfabric objects and learns what they can do.
func (d *domain) newEndpoint(cfg fabric.EndpointConfig, tx, rx int) (*endpoint, error) {
	ccfg := C.struct_gofi_ep_cfg{tx_depth: C.uint32_t(tx), rx_depth: C.uint32_t(rx)}
	if cfg.Source && d.info.Source {
		ccfg.source = 1
	}
	if d.info.CanWait {
		ccfg.wait = 1
	}
	if d.isUDP() {
		if err := d.tryBind(); err != nil {
			return nil, err
		}
	}
	var got C.struct_gofi_ep_info
	var fail C.struct_gofi_fail
	c := C.gofi_ep_open(d.c, &ccfg, &got, &fail)
	if c == nil {
		return nil, d.fail(&fail)
	}
	e := &endpoint{
		domain: d,
		c:      c,
		waitFd: int(got.wait_fd),
		name:   C.GoBytes(unsafe.Pointer(&got.name[0]), C.int(got.name_len)),
		caps: fabric.Caps{
			MTUBytes:     d.layout.mtuBytes,
			InjectBytes:  d.layout.injectBytes,
			TxDepth:      tx,
			RxDepth:      rx,
			RecvCapacity: rx,
			Gather:       d.gathers(),
			Source:       got.source != 0,
		},
	}
	e.finish(cfg.RecvBufferBytes)
	return e, nil
}

// tryBind binds a socket of our own as the udp provider is about to. When the provider fails in
// that, all versions of libfabric to date leave its socket open for ever.
func (d *domain) tryBind() error {
	ap, ok := d.rules.form.addrPort(d.src)
	if !ok {
		return nil
	}
	err := tryBind(ap, d.rules.scope)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return newError(d.info.Provider, "bind", int(errno), strerror)
	}
	return err
}

// finish does what follows from the endpoint's name and descriptor.
func (e *endpoint) finish(recvBufferBytes int) {
	d := e.domain
	if d.rules.bytes == 0 && d.rules.form != formString {
		d.rules.bytes = len(e.name)
	}
	// Peers compare names as bytes, so ours goes out in its canonical form, where it has one (a
	// wildcard address is no peer's name, but the owner may want to see it).
	if canon, err := d.rules.check(e.name); err == nil {
		e.name = []byte(canon)
	}
	if d.isUDP() {
		fd := e.takeSocket()
		e.sizeReceiveBuffer(fd, recvBufferBytes)
		if d.info.Provider == offloadName {
			e.startOffload(fd)
		}
	}
	if e.waitFd >= 0 {
		d.bell.watch(e.waitFd)
	}
}

// takeSocket returns the descriptor of the udp provider's socket, -1 if it was not found, and has
// sleeps wait for that. libfabric's own wait descriptor is an epoll instance: as long as it watches
// the socket it takes part in every arrival.
func (e *endpoint) takeSocket() int {
	local, ok := e.domain.rules.form.addrPort(e.name)
	if !ok {
		return -1
	}
	fd, err := findSocket(e.waitFd, local)
	if err != nil {
		return -1
	}
	if e.waitFd >= 0 {
		// It fails if the socket was not there, which is as well.
		_ = unix.EpollCtl(e.waitFd, unix.EPOLL_CTL_DEL, fd, nil)
		e.waitFd = fd
		C.gofi_wait_socket(e.c)
	}
	return fd
}

// sizeReceiveBuffer enlarges the udp provider's socket. Failing that is no reason not to run: the
// capacity then is what any socket holds.
func (e *endpoint) sizeReceiveBuffer(fd, ask int) {
	if ask == 0 {
		ask = wantSocketBytes
	}
	if fd >= 0 {
		e.caps.RecvBufferBytes, _ = sizeSocket(fd, ask)
	}
	bytes := e.caps.RecvBufferBytes
	if bytes == 0 {
		bytes = fallbackSocketBytes
	}
	e.caps.RecvCapacity = socketCapacity(bytes, e.caps.MTUBytes)
}

// Close implements fabric.Domain. It releases everything even if it returns an error; a second
// Close does nothing.
func (d *domain) Close() error {
	if d.c == nil {
		return nil
	}
	var first error
	for len(d.endpoints) > 0 {
		if err := d.endpoints[0].Close(); err != nil && first == nil {
			first = err
		}
	}
	var fail C.struct_gofi_fail
	C.gofi_domain_close(d.c, &fail)
	if fail.code != 0 && first == nil {
		first = d.fail(&fail)
	}
	d.c = nil
	for i := range d.regions {
		d.regions[i].pin.Unpin()
	}
	d.peers, d.byName, d.regions = nil, nil, nil
	d.bell.close()
	return first
}
