package pml

import "gobtl/btl"

// Mode defines when a send is done, and whether its receive must be posted already.
type Mode uint8

// The modes of MPI.
const (
	// Standard: the send is done when the memory may be changed again.
	Standard Mode = iota
	// Synchronous: the send is done when, in addition, a receive has matched the message.
	Synchronous
	// Ready: as Standard, for a program that knows that the receive is posted. If the receive is
	// not posted, this is only counted.
	Ready
	// Eager: as Standard, but the message is never announced. If the peer has no room for it, it
	// waits here, and so do later messages to the peer. A message that is too long is ErrEager.
	Eager
	// Announce: as Standard, but the message is announced however short it is. So the send is done
	// when the receive has taken the bytes, or was refused.
	Announce

	active    Mode = 1 << 7 // an active message
	abandoned Mode = 1 << 6 // marks an abandoned send
)

// state is the state of a Request.
type state uint8

const (
	idle      state = iota // idle, owned by the caller
	queued                 // a send that waits for room at the peer or in the module
	announced              // a send that waits to be matched
	moving                 // a send whose bytes are under way
	waiting                // a receive that waits for a message
	landing                // a receive whose bytes are under way
	over                   // ended, but the owner has not been told
)

// Request is a send or a receive. The caller owns its memory, may reuse it whenever it is Done, and
// must not copy or move it while it is under way. The zero value is ready for use.
type Request struct {
	// OnDone is called when the request ends, mostly by Progress, but also by the call that begins
	// it. It may begin requests, including this one. It may be nil.
	OnDone func(*Request)
	// Context is the caller's.
	Context any
	// Layout, unless it is nil, describes the memory of the message. The memory argument of Send or
	// Recv must then be nil. It may only change while the request is Done, and not while it is
	// prepared for Start.
	Layout Layout
	// Exact makes a receive end with ErrShort if its message does not fill the memory. It is for
	// callers that know the length of the message. It may only change while the request is Done.
	Exact bool

	state  state
	mode   Mode
	repeat repeat
	peer   *Peer // peer of a send, of a matched receive, or of a receive from one peer
	from   *Peer // source of a receive; nil: any
	tag    uint64
	mask   uint64
	mem    []byte
	header []byte // of an active message that was not sent yet
	size   uint64 // of the message
	err    error
	order  uint64 // of a receive, among those posted
	queue  links[Request]
	active links[Request] // of its peer

	id     uint64 // on the wire
	theirs uint64 // of the other side's request
	handle btl.Handle
	region *btl.Region
	moved  uint64 // bytes transferred; of a receive those that came in packets
	most   uint64 // bytes to transfer
	under  uint64 // bytes of the current put, or packets that are under way
	base   uint64 // bytes that were put before the rest goes in packets

	packets   bool // the bytes of a send go in packets: see packets.go
	announced bool // the message was announced, not sent at once
}

// Done reports whether the request has ended, or has not begun.
func (r *Request) Done() bool { return r.state == idle }

// Err returns the result of the last use of the request: nil, ErrTruncated, ErrShort, ErrCancelled,
// ErrTransfer, or ErrPeer with the reason.
func (r *Request) Err() error { return r.err }

// Peer returns the sender of a received message, or the destination of a send.
func (r *Request) Peer() *Peer { return r.peer }

// Tag returns the tag of the message.
func (r *Request) Tag() uint64 { return r.tag }

// Len returns the number of bytes that were received or sent.
func (r *Request) Len() int { return int(min(r.size, uint64(r.room()))) }

// Size returns the size of the message, which exceeds Len if the message was truncated.
func (r *Request) Size() uint64 { return r.size }

// Announced reports which way the last message of the request went: whether it was announced, and
// its bytes followed when its receive was there, or whether the bytes left at once. It is valid
// when the request is Done without an error.
func (r *Request) Announced() bool { return r.announced }

// Message is an unreceived message that has arrived or has been announced.
type Message struct {
	peer   *Peer
	tag    uint64
	size   uint64
	id     uint64 // id of the send, if the sender waits for the match
	head   int    // bytes of the header of an active message
	eager  bool
	sync   bool
	active bool
	lent   bool // the transport owns data
	kept   bool // the caller owns the Message
	gone   bool // received, or lost with its peer
	data   []byte
	order  links[Message]
	same   links[Message]
	own    links[Message] // of its peer
}

// Peer returns the sender of the message.
func (m *Message) Peer() *Peer { return m.peer }

// Tag returns the tag of the message, or the id of an active message.
func (m *Message) Tag() uint64 { return m.tag }

// Size returns the size of the message in bytes.
func (m *Message) Size() uint64 { return m.size }

// Info is the description of a message by a probe.
type Info struct {
	Peer *Peer
	Tag  uint64
	Size uint64
}
