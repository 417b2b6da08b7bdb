package net

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/internal/doorbell"
	"gobtl/fabric/internal/inet"
)

const (
	defaultBuffers = 4096
	maxBuffers     = 1 << 24
	maxBufferBytes = 1 << 20
	maxArenaBytes  = min(1<<36, math.MaxInt)
	cacheLineBytes = 64
)

var (
	errUnknownAddr = failure("send", syscall.EINVAL, "unknown or removed peer address")
	errRemoveAddr  = failure("remove", syscall.EINVAL, "unknown or removed peer address")
	errBadBuf      = failure("post", syscall.EINVAL, "buffer outside the arena")
	errTooLong     = failure("send", syscall.EMSGSIZE, "datagram larger than the buffer or the MTU")
)

func failure(op string, errno syscall.Errno, text string) error {
	return sysError{op: op, errno: errno, text: text}
}

// The type "domain" implements fabric.Domain and fabric.Sleeper. Only the goroutine that uses the
// domain may access the fields of the domain, except the fields "bell" and "polls", through which
// other goroutines wake the domain.
type domain struct {
	local     inet.Local
	info      fabric.Info
	mtuBytes  int
	arena     fabric.Arena
	buffers   buffers
	peers     peerTable
	endpoints []*endpoint
	opened    int            // endpoints ever
	bell      *doorbell.Bell // of who sleeps
	polls     *doorbell.Bell // for polls that find nothing (see giveWay)
	vain      int            // polls in vain, in a row
	pollable  func() bool
	closed    bool
}

var (
	_ fabric.Domain    = (*domain)(nil)
	_ fabric.Sleeper   = (*domain)(nil)
	_ fabric.Addresser = (*domain)(nil)
)

// The type "buffers" describes the memory of the arena for the reader goroutines. The caller's part
// of each buffer is followed by at least one additional byte, by which the endpoint detects
// datagrams that are larger than the caller's part.
type buffers struct {
	mem                []byte
	count, stride, len int
}

// readInto returns the memory of a buffer for a reader goroutine. The memory that readInto returns
// is one byte longer than the caller's part of the buffer.
func (a *buffers) readInto(b fabric.Buf) []byte {
	lo := int(b) * a.stride
	return a.mem[lo : lo+a.len+1]
}

// The method "bytes" returns the caller's part of a buffer.
func (a *buffers) bytes(b fabric.Buf) []byte {
	lo := int(b) * a.stride
	return a.mem[lo : lo+a.len]
}

func openDomain(l *inet.Local, nodeText string, cfg fabric.DomainConfig) (*domain, error) {
	d := &domain{
		local: *l,
		info:  newInfo(l, nodeText, 0),
		peers: peerTable{byName: make(map[netip.AddrPort]uint32)},
		bell:  doorbell.New(),
		polls: doorbell.New(),
	}
	d.pollable = d.somethingToPoll
	if err := d.makeArena(cfg); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *domain) makeArena(cfg fabric.DomainConfig) (err error) {
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
	stride := (size/cacheLineBytes + 1) * cacheLineBytes
	if count > maxArenaBytes/stride {
		return badConfig("%d buffers of %d bytes are more than %d bytes", count, stride, maxArenaBytes)
	}
	mem := make([]byte, count*stride)
	if d.arena, err = fabric.NewArena(mem, count, stride, 0, size); err != nil {
		return err
	}
	d.buffers = buffers{mem: mem, count: count, stride: stride, len: size}
	d.mtuBytes = min(d.info.MTUBytes, size)
	d.info.MTUBytes, d.info.InjectBytes = d.mtuBytes, d.mtuBytes
	return nil
}

// Info implements fabric.Domain. The attributes of the returned Info contain counters of events in
// the domain.
func (d *domain) Info() fabric.Info {
	info := d.info
	info.Attrs = slices.Clone(info.Attrs)
	for _, e := range d.endpoints {
		setAttr(info.Attrs, "receive buffer",
			fmt.Sprintf("%d bytes as the system counts, %d datagrams of %d bytes", e.caps.RecvBufferBytes,
				e.caps.RecvCapacity, d.mtuBytes))
	}
	return info
}

func setAttr(attrs []fabric.Attr, name, value string) {
	for i := range attrs {
		if attrs[i].Name == name {
			attrs[i].Value = value
		}
	}
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
	return d.peers.insert(ap, d.local.Device)
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

// RegisterRegion always fails with fabric.ErrNotSupported, because Go's package net cannot send a
// datagram from two pieces of memory.
func (d *domain) RegisterRegion([]byte) (fabric.Region, error) {
	if d.closed {
		return 0, fabric.ErrClosed
	}
	return 0, fabric.ErrNotSupported
}

// DeregisterRegion implements fabric.Domain.
func (d *domain) DeregisterRegion(fabric.Region) error {
	if d.closed {
		return fabric.ErrClosed
	}
	return fabric.ErrNotSupported
}

// OpenEndpoint implements fabric.Domain. If a queue depth in the configuration exceeds the
// provider's limit, OpenEndpoint uses the limit instead, and Endpoint.Caps contains the limit.
func (d *domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
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
	port := uint16(0)
	if d.opened < len(d.local.Ports) {
		port = d.local.Ports[d.opened]
	}
	d.opened++
	s, err := openSocket(&d.local, port, cfg)
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

// Close implements fabric.Domain. Close releases all resources even if it returns an error, and a
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
	d.peers, d.buffers.mem = peerTable{}, nil
	return first
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

// Arm implements fabric.Sleeper.
func (d *domain) Arm() bool { return !d.closed && d.bell.Arm(d.pollable) }

// Sleep implements fabric.Sleeper.
func (d *domain) Sleep(timeout time.Duration) error {
	d.bell.Sleep(timeout)
	return nil
}

// After vainMost consecutive polls without a completion, giveWay parks the polling goroutine for a
// short time, because without a pause Go's scheduler might never run the reader goroutines.
func (d *domain) giveWay() {
	if d.vain++; d.vain >= vainMost {
		d.vain = 0
		d.polls.Wait(parkTime, d.pollable)
	}
}

func (d *domain) somethingToPoll() bool {
	for _, e := range d.endpoints {
		if e.inbox.waiting() {
			return true
		}
	}
	return false
}

// ParseAddress implements fabric.Addresser. The host part of the argument of ParseAddress must be
// an IP address of this domain's IP version.
func (d *domain) ParseAddress(text string) (first, second []byte, err error) {
	return inet.ParseAddress(text, d.local.Version())
}

// FormatName implements fabric.Addresser.
func (d *domain) FormatName(name []byte) string { return inet.FormatName(name, d.local.Version()) }

// Host implements fabric.Addresser.
func (d *domain) Host(name []byte) []byte { return inet.Host(name) }

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadConfig}, args...)...)
}
