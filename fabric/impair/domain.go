package impair

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

const (
	defaultBuffers = 4096
	// To the n buffers of the caller, the function Reserve adds n+spareBuffers hidden buffers.
	spareBuffers = 2048
	// spareMin is the smallest number of hidden buffers with which Wrap accepts a Domain.
	spareMin = 16
)

// Domain wraps a fabric.Domain of any provider, and injects faults into the datagrams that arrive
// at its endpoints. Domain implements fabric.Domain and fabric.Waiter.
type Domain struct {
	inner     fabric.Domain
	waiter    fabric.Waiter // nil if inner is no Waiter
	faults    Faults
	visible   int          // buffers that the caller has
	all       fabric.Arena // including the hidden buffers
	spares    []fabric.Buf // hidden buffers that no endpoint has
	endpoints []*endpoint  // open ones
	opened    uint64
	closed    bool
	now       func() mono.Time
	counters  counters
}

var (
	_ fabric.Domain = (*Domain)(nil)
	_ fabric.Waiter = (*Domain)(nil)
)

var errBadBuf error = &fabric.Error{
	Provider: "impair", Op: "post", Errno: int(syscall.EINVAL), Text: "buffer outside the arena",
}

// Reserve returns the configuration "cfg" with hidden buffers added, into which package impair
// receives datagrams. The caller opens the inner Domain with the configuration that Reserve
// returns, and passes the original number of buffers to Wrap.
func Reserve(cfg fabric.DomainConfig) fabric.DomainConfig {
	if cfg.Buffers == 0 {
		cfg.Buffers = defaultBuffers
	}
	if cfg.Buffers > 0 { // the provider refuses a negative number
		cfg.Buffers += cfg.Buffers + spareBuffers
	}
	return cfg
}

// Open adds hidden buffers (see Reserve) to the configuration "cfg", opens the Domain that the
// argument "info" describes, and wraps this Domain.
func Open(info fabric.Info, cfg fabric.DomainConfig, f Faults) (*Domain, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	inner, err := fabric.Open(info, Reserve(cfg))
	if err != nil {
		return nil, err
	}
	visible := cfg.Buffers
	if visible == 0 {
		visible = defaultBuffers
	}
	d, err := Wrap(inner, visible, f)
	if err != nil {
		inner.Close()
		return nil, err
	}
	return d, nil
}

// Wrap returns a Domain that injects faults into the arriving datagrams of an open Domain. The
// arena of the returned Domain has only the first visibleBuffers buffers of "inner", and all other
// buffers of "inner" are hidden from the caller. After Wrap, the caller must use and close the
// returned Domain instead of the argument "inner". The errors of Wrap wrap fabric.ErrBadConfig. If
// Wrap returns an error, Wrap has not changed the Domain "inner".
func Wrap(inner fabric.Domain, visibleBuffers int, f Faults) (*Domain, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	all := inner.Arena()
	if visibleBuffers < 1 || visibleBuffers > all.Len()-spareMin {
		return nil, fmt.Errorf(
			"%w: impair: %d visible buffers of %d, want at least 1 visible and %d more",
			fabric.ErrBadConfig, visibleBuffers, all.Len(), spareMin)
	}
	d := &Domain{inner: inner, faults: f, visible: visibleBuffers, all: all}
	d.waiter, _ = inner.(fabric.Waiter)
	for b := all.Len() - 1; b >= visibleBuffers; b-- {
		d.spares = append(d.spares, fabric.Buf(b))
	}
	d.now = realClock()
	return d, nil
}

// Faults returns the faults that the domain injects.
func (d *Domain) Faults() Faults { return d.faults }

// Info returns the inner Domain's Info, with an Attr added that shows the faults.
func (d *Domain) Info() fabric.Info {
	info := d.inner.Info()
	info.Reliable, info.Ordered = false, false // the faults make delivery unreliable
	info.Attrs = append(slices.Clone(info.Attrs),
		fabric.Attr{Name: "impair", Value: d.faults.String()})
	return info
}

// Arena returns the arena with the visible buffers, without the hidden ones.
func (d *Domain) Arena() fabric.Arena { return d.all.Shrink(d.visible) }

// OpenEndpoint opens an endpoint that injects faults into arriving datagrams. An endpoint gets
// 2*RxDepth hidden buffers, or half of the unused hidden buffers of the Domain if this half is
// smaller.
func (d *Domain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if len(d.spares) < 2 {
		return nil, fmt.Errorf("%w: impair: no hidden buffers left for another endpoint",
			fabric.ErrBadConfig)
	}
	inner, err := d.inner.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	rest := len(d.spares) - min(2*inner.Caps().RxDepth, len(d.spares)/2)
	e := newEndpoint(d, inner, d.spares[rest:])
	d.spares = d.spares[:rest]
	if err := e.refill(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	d.endpoints = append(d.endpoints, e)
	d.opened++
	return e, nil
}

// Insert implements fabric.Domain.
func (d *Domain) Insert(name []byte) (fabric.Addr, error) { return d.inner.Insert(name) }

// Remove implements fabric.Domain.
func (d *Domain) Remove(a fabric.Addr) error { return d.inner.Remove(a) }

// RegisterRegion implements fabric.Domain.
func (d *Domain) RegisterRegion(mem []byte) (fabric.Region, error) {
	return d.inner.RegisterRegion(mem)
}

// DeregisterRegion implements fabric.Domain.
func (d *Domain) DeregisterRegion(r fabric.Region) error { return d.inner.DeregisterRegion(r) }

// Close closes the endpoints and the inner Domain. Close drops the reordered and delayed datagrams
// that were not delivered. A second Close does nothing and returns nil.
func (d *Domain) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	var first error
	for len(d.endpoints) > 0 {
		if err := d.endpoints[0].Close(); err != nil && first == nil {
			first = err
		}
	}
	if err := d.inner.Close(); err != nil {
		return err
	}
	return first
}

func (d *Domain) forget(e *endpoint) {
	d.spares = append(d.spares, e.quota...)
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
}
