package btl

import (
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/peer"
)

// Status is the result of a successful Send, and tells whether the send is complete (Done) or will
// be reported later (Queued).
type Status uint8

// The values of Status are the results of a Send that returns no error.
const (
	// Done means that the fragment was sent, and that the module will not access the caller's memory
	// any more. If Send returns Done, OnDone is not called, and the descriptor belongs to the module
	// again.
	Done Status = 1
	// Queued means that OnDone will be called exactly once. The error argument of OnDone is nil if the
	// peer has acknowledged every byte, and otherwise says why the send has failed.
	Queued Status = 2
)

// Fragment is the descriptor of one message or memory operation to be sent. Alloc and the methods
// whose names begin with Prepare lend a Fragment to the caller. A successful call of Send or Free
// returns the Fragment to the module.
type Fragment struct {
	// OnDone is called when a queued fragment ends, and may be nil. After OnDone has returned, the
	// caller must not use the Fragment any more.
	OnDone func(f *Fragment, err error)
	// Context is a value of the application, which the module only copies to the Completion.
	Context uint64
	// If Signal is set, Send never returns Done, and the module always reports the completion.
	Signal bool
	// Urgent makes Send put a message that fits into one packet ahead of the endpoint's queued
	// fragments. At most 8 unfinished fragments of an endpoint are treated as urgent at a time. Urgent
	// has no effect while the send queue of the fragment's channel is more than half full. Urgent has
	// no effect on fragments that follow a Fence, on fragments of several packets, and on memory
	// operations such as puts. A fragment that overtakes queued fragments because of the flag Urgent
	// is sent as if the flag Signal were set, and never shares a packet. Urgent saves time only if
	// many queued messages are large, but fit into one packet each. For example, an urgent message of
	// 8 bytes behind 64 queued messages of 32 KiB arrives after 36 µs instead of 334 µs. Even without
	// Urgent, small messages are sent ahead of queued messages that need several packets. A continuous
	// flow of urgent fragments delays the endpoint's small fragments that are not urgent.
	Urgent bool

	c peer.Fragment // the state of the message or operation
}

// newFragment makes a descriptor for package peer.
func newFragment() *peer.Fragment {
	f := new(Fragment)
	f.c.Init(f)
	return &f.c
}

// fragmentOf returns the public Fragment for the internal fragment c, or the given error.
func fragmentOf(c *peer.Fragment, err error) (*Fragment, error) {
	if err != nil {
		return nil, err
	}
	f, _ := c.Owner.(*Fragment)
	return f, nil
}

// The method "clear" resets a descriptor that was returned to the module, for its next use.
func (f *Fragment) clear() { f.OnDone, f.Context, f.Signal, f.Urgent = nil, 0, false, false }

// Bytes returns the fragment's payload, which the caller fills before Send. After a successful Send
// the payload belongs to the module. For a payload in several memory segments, Bytes returns nil.
func (f *Fragment) Bytes() []byte { return f.c.Data.Bytes }

// Endpoint returns the endpoint to which the fragment will be sent.
func (f *Fragment) Endpoint() *Endpoint { return endpointOf(f.c.Ep) }

// Value returns the old value that an atomic operation with Atomic.Fetch has read. The result of
// Value is valid when OnDone is called.
func (f *Fragment) Value() uint64 { return f.c.Value() }

// Alloc lends the caller a fragment of sizeBytes with memory of the module. If sizeBytes is at most
// Limits.SegmentBytes, the fragment's memory is a packet buffer, which is sent without a copy. The
// caller fills Bytes and calls Send. The error of Alloc is ErrAgain, ErrTooLarge, ErrTag, or, for
// an ended endpoint, the result of Err.
func (ep *Endpoint) Alloc(tag Tag, sizeBytes int) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.Alloc(&ep.c, uint8(tag), sizeBytes))
}

// Prepare lends the caller a fragment whose payload is mem. The module reads mem when it sends or
// retransmits packets. The memory mem must not change until OnDone is called or Send returns Done.
// Prepare returns the same errors as Alloc.
func (ep *Endpoint) Prepare(tag Tag, mem []byte) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.Prepare(&ep.c, uint8(tag), mem))
}

// PreparePieces works like Prepare for a payload in up to PiecesMax memory segments. The peer's
// handler gets the bytes of all segments as one contiguous message. The bytes of the segments must
// not change until OnDone is called or Send returns Done. The caller may reuse the slice "pieces"
// itself after PreparePieces has returned. PreparePieces returns ErrTooLarge for more than
// PiecesMax segments, and otherwise the errors of Alloc.
func (ep *Endpoint) PreparePieces(tag Tag, pieces ...[]byte) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.PreparePieces(&ep.c, uint8(tag), pieces...))
}

// Free returns a fragment to the module without sending the fragment. Free returns ErrState if the
// caller does not own the fragment.
func (ep *Endpoint) Free(f *Fragment) error {
	if err := ep.c.All.Frags.Free(&ep.c, &f.c); err != nil {
		return err
	}
	f.clear()
	return nil
}

// PiecesMax is the maximum number of memory segments in a fragment.
const PiecesMax = payload.PiecesMax
