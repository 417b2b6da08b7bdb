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
	// defaultBuffers is what fabric.DomainConfig.Buffers means by 0.
	defaultBuffers = 4096
	// spareBuffers is how many hidden buffers Reserve asks for beyond one for each visible one: room
	// for datagrams that are held back.
	spareBuffers = 2048
	// spareMin is the least that Wrap works with.
	spareMin = 16
)

// Domain impairs what arrives at the endpoints of another Domain, which it owns from then on. It
// implements fabric.Domain and fabric.Waiter.
type Domain struct {
	inner     fabric.Domain
	waiter    fabric.Waiter // nil if inner is none
	faults    Faults
	visible   int          // buffers that the caller has
	all       fabric.Arena // with the hidden ones
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

// errBadBuf is a value, so that reporting it allocates nothing.
var errBadBuf error = &fabric.Error{
	Provider: "impair", Op: "post", Errno: int(syscall.EINVAL), Text: "buffer outside the arena",
}

// Reserve returns cfg with the hidden buffers added that Wrap needs: open the inner Domain with it,
// and give Wrap the number of buffers of the first cfg.
func Reserve(cfg fabric.DomainConfig) fabric.DomainConfig {
	if cfg.Buffers == 0 {
		cfg.Buffers = defaultBuffers
	}
	if cfg.Buffers > 0 { // a negative number is for the provider to refuse
		cfg.Buffers += cfg.Buffers + spareBuffers
	}
	return cfg
}

// Open opens the Domain that info describes, enlarged as Reserve says, and wraps it.
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

// Wrap impairs an open Domain, whose arena shows only its first visibleBuffers from now on; the
// others are the wrapper's. The caller uses and closes the result instead of inner. Errors wrap
// fabric.ErrBadConfig and leave inner alone.
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

// Faults returns the faults that the domain makes.
func (d *Domain) Faults() Faults { return d.faults }

// Info returns the inner Domain's Info with the faults among its Attrs.
func (d *Domain) Info() fabric.Info {
	info := d.inner.Info()
	info.Reliable, info.Ordered = false, false // not through what is done here
	info.Attrs = append(slices.Clone(info.Attrs),
		fabric.Attr{Name: "impair", Value: d.faults.String()})
	return info
}

// Arena returns the buffers that are not hidden.
func (d *Domain) Arena() fabric.Arena { return d.all.Shrink(d.visible) }

// OpenEndpoint opens an endpoint whose arrivals are impaired. It takes up to twice its RxDepth of
// the hidden buffers, but never more than half of those left, so that there are some for the next
// one.
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

// The address vector and the regions are the inner Domain's.

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

// Close closes the endpoints and the inner Domain. Datagrams that are held back are lost. A second
// Close does nothing and returns nil.
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

// forget takes a closed endpoint off the list and its hidden buffers back.
func (d *Domain) forget(e *endpoint) {
	d.spares = append(d.spares, e.quota...)
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
}
