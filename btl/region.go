package btl

import (
	"fmt"

	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// Handle names an exposed region on the wire: opaque, random in its upper part. The owner must tell
// it to the peers that are to use the region.
type Handle = remote.Handle

// Rights say what peers may do with a region.
type Rights = remote.Rights

// The rights. A put with a notice needs RemoteWrite and RemoteNotify.
const (
	RemoteWrite  = remote.Write  // puts
	RemoteRead   = remote.Read   // gets
	RemoteAtomic = remote.Atomic // atomic operations
	RemoteNotify = remote.Notify // notices of puts
	RemoteAll    = remote.All
)

// Region is memory of this side that peers may access under its Handle.
type Region struct {
	m  *Module
	is remote.Region[*Fragment]
}

// Expose makes mem a region that all peers may access as its rights say: see RemoteWrite and the
// others. Accesses happen in Progress until Close, with no callback except for notices. During a
// put of several packets, and after a failed one, its range may hold old bytes, bytes of the put,
// and zeros. Errors: ErrAgain if RegionsMax regions are exposed.
func (m *Module) Expose(mem []byte, rights Rights) (*Region, error) {
	r := new(Region)
	if err := m.ExposeAs(r, mem, rights, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// ExposeAs is Expose with the caller's Region, new or closed, so that it allocates nothing; if only
// is not nil, only that peer has access. Further errors: ErrState if r is exposed, ErrEndpoint,
// ErrConfig for undefined rights.
func (m *Module) ExposeAs(r *Region, mem []byte, rights Rights, only *Endpoint) error {
	switch {
	case m.closed:
		return ErrClosed
	case r.is.Exposed():
		return fmt.Errorf("%w: the region is exposed", ErrState)
	case only != nil && only.m != m:
		return ErrEndpoint
	case rights&^RemoteAll != 0:
		return fmt.Errorf("%w: rights %#x, of which %#x are none", ErrConfig, rights, rights&^RemoteAll)
	case !m.remote.MayExpose():
		return fmt.Errorf("%w: %d regions are exposed", ErrAgain, m.remote.Exposed())
	}
	r.m = m
	m.remote.Expose(&r.is, mem, rights, only.memory(), m.random())
	return nil
}

// Handle is the region's name for peers. It changes each time that the region is exposed.
func (r *Region) Handle() Handle { return r.is.Handle() }

// Bytes is the exposed memory.
func (r *Region) Bytes() []byte { return r.is.Bytes() }

// Close withdraws the region: when it returns no operation reads or writes the memory any more.
// Later requests are refused, and operations under way fail with ErrRemoteAccess at the peers.
// Further calls do nothing.
func (r *Region) Close() {
	if !r.is.Exposed() {
		return
	}
	r.m.stir()
	r.m.remote.Withdraw(&r.is)
	r.endReads()
}

// endReads ends the answers that read a withdrawn region: their unsent rest is dropped, and the
// requesters are told.
func (r *Region) endReads() {
	m := r.m
	if r.is.Reader() != nil {
		r.takeAlong()
	}
	for o := r.is.Reader(); o != nil; o = r.is.Reader() {
		f, asks := o.Fragment(), o.Asks()
		ep := f.ep
		ep.remote.Left(o, false)
		o.StopReading() // which takes it off the list
		m.dropOwn(f)
		if f.state != fragQueued {
			continue
		}
		m.unqueue(ep, f)
		f.err = ErrClosed
		if f.out == 0 {
			m.complete(f, f.err)
		}
		if ep.err == nil && !ep.closing {
			failed := m.frags.lendAnswer(ep)
			m.answerWith(failed, m.remote.AnswerFailed(ep.remote, failed, asks, frag.NackAccess))
		}
		m.sched.rearm(ep)
	}
}
