//go:build linux && cgo

package ofi

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	// wantSocketBytes is the size of the receive buffer that is requested if the caller has not set
	// RecvBufferBytes.
	wantSocketBytes     = 4 << 20
	fallbackSocketBytes = 64 << 10

	udpName     = family + "/" + udpProvider
	offloadName = udpName + optionOffload
)

// The type "domain" implements fabric.Domain and fabric.Waiter. Only the goroutine that uses the
// domain may access the fields of the domain, except the field "bell", through which other
// goroutines wake the domain.
type domain struct {
	c      *C.struct_gofi_domain // nil after Close
	info   fabric.Info
	limits limits
	layout layout
	arena  fabric.Arena
	rules  nameRules
	src    []byte // this host's address, without port; may be empty

	peers   peers
	regions regions

	endpoints []*endpoint
	bell      *bell
}

var (
	_ fabric.Domain = (*domain)(nil)
	_ fabric.Waiter = (*domain)(nil)
)

// openDomain opens the domain that the entry "e" describes. The argument "sourced" of openDomain is
// the entry that a query with FI_SOURCE has returned for the same domain, or nil if the query has
// returned no such entry.
func openDomain(e, sourced *entry, cfg fabric.DomainConfig) (fabric.Domain, error) {
	lay, err := newLayout(e.limits, cfg)
	if err != nil {
		return nil, err
	}
	d := &domain{
		info:   e.info,
		limits: e.limits,
		layout: lay,
		rules:  newRules(e),
		src:    e.src,
		peers:  newPeers(),
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
		quirks:    e.limits.quirks.flags(),
	}
	var fail C.struct_gofi_fail
	guard(func() { d.c = C.gofi_domain_open(e.fi, sourcedInfo, &clay, &fail) })
	if d.c == nil {
		return nil, failed(d.info.Provider, &fail)
	}
	d.info.Source = C.gofi_has_source(d.c) != 0
	d.info.CanWait = C.gofi_can_wait(d.c) != 0 && !e.layeredBy(rxdLayer)
	mem := unsafe.Slice((*byte)(C.gofi_arena(d.c)), int(C.gofi_arena_bytes(d.c)))
	d.arena, err = fabric.NewArena(mem, lay.count, lay.strideBytes, lay.headroomBytes, lay.sizeBytes)
	if err == nil {
		d.bell, err = newBell()
	}
	if err != nil {
		guard(func() { C.gofi_domain_close(d.c, &fail) })
		return nil, err
	}
	return addressed(d), nil
}

// isUDP reports whether the domain belongs to the udp provider, whose sockets this package uses
// directly.
func (d *domain) isUDP() bool {
	return d.info.Provider == udpName || d.info.Provider == offloadName
}

// newRules derives the format of endpoint names from the local address that libfabric reports. If
// libfabric reports no local address before a domain is opened, the name of the first endpoint
// determines the length of names.
func newRules(e *entry) nameRules {
	r := nameRules{form: e.form, bytes: len(e.src), scope: e.form.scopeOf(e.src)}
	switch e.form {
	case formSockIn:
		r.bytes = sockInBytes
	case formSockIn6:
		r.bytes = sockIn6Bytes
	case formString:
		r.bytes = 0 // texts have different lengths
	case formOpaque: // as long as the own address
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

func (d *domain) invalid(op, text string) error {
	return &fabric.Error{
		Provider: d.info.Provider, Op: op, Errno: int(syscall.EINVAL), Text: text,
	}
}

// OpenEndpoint implements fabric.Domain. If a queue depth in the configuration exceeds the
// provider's limit, OpenEndpoint uses the limit instead, and Endpoint.Caps contains the limit.
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

// newEndpoint opens the libfabric objects of an endpoint, and determines the endpoint's Caps.
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
	var c *C.struct_gofi_ep
	guard(func() { c = C.gofi_ep_open(d.c, &ccfg, &got, &fail) })
	if c == nil {
		return nil, d.fail(&fail)
	}
	e := &endpoint{
		domain: d,
		c:      c,
		waitFd: int(got.wait_fd),
		name:   C.GoBytes(unsafe.Pointer(&got.name[0]), C.int(got.name_len)),
		caps: fabric.Caps{
			MTUBytes:      d.layout.mtuBytes,
			InjectBytes:   d.limits.done(),
			TxDepth:       tx,
			RxDepth:       rx,
			RecvCapacity:  rx,
			Gather:        d.gathers(),
			Source:        got.source != 0,
			RemoveCancels: d.limits.quirks.copies,
		},
	}
	e.finish(cfg.RecvBufferBytes)
	return e, nil
}

// tryBind checks that a socket can be bound to the local address of the domain, before libfabric's
// udp provider binds its own socket. tryBind is needed because libfabric's udp provider leaks its
// socket if the bind fails.
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

func (e *endpoint) finish(recvBufferBytes int) {
	d := e.domain
	if d.rules.bytes == 0 && d.rules.form != formString {
		d.rules.bytes = len(e.name)
	}
	// The endpoint's name is converted to its canonical form, because peers compare endpoint names as
	// bytes. An endpoint name with a wildcard address has no canonical form, and is kept unchanged,
	// only for display.
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
		_ = unix.EpollCtl(e.waitFd, unix.EPOLL_CTL_DEL, fd, nil)
		e.waitFd = fd
		C.gofi_wait_socket(e.c)
	}
	return fd
}

// sizeReceiveBuffer enlarges the receive buffer of the udp provider's socket. If sizeReceiveBuffer
// fails, Caps.RecvCapacity is computed from the system's default size of a receive buffer.
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

// Close implements fabric.Domain. Close releases all resources even if it returns an error. A
// second Close does nothing.
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
	c := d.c
	err := d.arena.Retire(func() error {
		var fail C.struct_gofi_fail
		if guard(func() { C.gofi_domain_close(c, &fail) }); fail.code != 0 {
			return failed(d.info.Provider, &fail)
		}
		return nil
	})
	if err != nil && first == nil {
		first = err
	}
	d.c = nil
	d.regions.release()
	d.peers = peers{}
	d.bell.ready.close()
	d.bell.Close()
	return first
}
