package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/regcache"
	"gobtl/btl/internal/remote"
)

// Handle identifies an exposed memory region in packets. A Handle is a uint64 with random upper
// bits. The application sends the Handle to the peers that may access the region.
type Handle = remote.Handle

// Rights is the set of operations that peers may perform on an exposed memory region.
type Rights = remote.Rights

// The constants below are the rights that a region can give to peers. A put with a completion
// notification needs RemoteWrite and RemoteNotify.
const (
	RemoteWrite  = remote.Write  // puts
	RemoteRead   = remote.Read   // gets
	RemoteAtomic = remote.Atomic // atomic operations
	RemoteNotify = remote.Notify // notifications, which tell the application that a put is complete
	RemoteAll    = remote.All
)

// Region is local memory that peers are allowed to access by its Handle.
type Region struct {
	m  *Module
	is peer.Region
}

// Expose makes mem a region that all peers are allowed to access, with the given rights, such as
// RemoteWrite. Accesses of peers take place during calls of Progress, until the region is closed.
// Accesses are not reported to the application, except by the notification of a completed put.
// During a put in several packets, and after a failed put, the target bytes can be a mixture of old
// bytes, new bytes, and zeros. Expose returns ErrAgain if RegionsMax regions are already exposed.
func (m *Module) Expose(mem []byte, rights Rights) (*Region, error) {
	r := new(Region)
	if err := m.ExposeAs(r, mem, rights, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// ExposeAs works like Expose, but uses the caller's Region r, which must be new or closed, and
// allocates nothing. If the argument "only" of ExposeAs is not nil, only the peer of the endpoint
// "only" is allowed to access the region. ExposeAs returns the errors of Expose, ErrState if r is
// already exposed, and ErrConfig for undefined rights. ExposeAs returns ErrEndpoint if the endpoint
// "only" belongs to another module. If the endpoint "only" has ended, ExposeAs returns the error
// with which this endpoint ended.
func (m *Module) ExposeAs(r *Region, mem []byte, rights Rights, only *Endpoint) error {
	switch {
	case m.closed:
		return ErrClosed
	case r.is.Exposed():
		return fmt.Errorf("%w: the region is exposed", ErrState)
	case only != nil && only.c.All != &m.all:
		return ErrEndpoint
	case only != nil && only.c.Err() != nil:
		return only.c.Err()
	case rights&^RemoteAll != 0:
		return fmt.Errorf("%w: rights %#x, of which %#x are none", ErrConfig, rights, rights&^RemoteAll)
	case !m.all.Remote.MayExpose():
		return fmt.Errorf("%w: %d regions are exposed", ErrAgain, m.all.Remote.Exposed())
	}
	r.m = m
	var to *peer.Endpoint
	if only != nil {
		to = &only.c
	}
	m.all.Remote.Expose(&r.is, mem, rights, to.Memory(), m.cfg.Random())
	return nil
}

// Handle returns the handle by which peers access the region. It differs after each new exposure.
func (r *Region) Handle() Handle { return r.is.Handle() }

// Bytes returns the exposed memory.
func (r *Region) Bytes() []byte { return r.is.Bytes() }

// Written returns the number of bytes that puts have written since the region was exposed.
func (r *Region) Written() uint64 { return r.is.Written() }

// Close ends all access of peers to the region's memory at once. Operations in progress, and later
// operations, fail with ErrRemoteAccess at the peers. Further calls of Close do nothing.
func (r *Region) Close() {
	if !r.is.Exposed() {
		return
	}
	r.m.all.Endings.Withdraw(&r.is)
}

// Registration keeps memory registered with the fabric. A provider that supports gathering
// (scatter-gather sends) reads the payload of large fragments directly from registered memory,
// without a copy. Registration.Close must not be called while a fragment from the registered memory
// is being sent.
type Registration = regcache.Registration

// RegisterMemory registers mem with the fabric, or shares an existing registration that covers mem.
// Go memory is pinned until Registration.Close. RegisterMemory returns fabric.ErrNotSupported if
// the provider cannot register memory. Fragments from unregistered memory are copied.
func (m *Module) RegisterMemory(mem []byte) (*Registration, error) {
	if m.closed {
		return nil, ErrClosed
	}
	if len(mem) == 0 {
		return nil, errors.Join(ErrConfig, errors.New("btl: registration of no memory"))
	}
	return m.all.Frags.Payloads.Register(mem)
}
