package pml

import "gobtl/btl"

// Mode says when a send is done, and what it may count on.
type Mode uint8

// The modes of MPI.
const (
	// Standard: done when the memory may be changed again.
	Standard Mode = iota
	// Synchronous: done when a receive was matched, too.
	Synchronous
	// Ready: as Standard, by who knows that the receive is posted; where it is not, it is counted.
	Ready

	active    Mode = 1 << 7 // an active message
	abandoned Mode = 1 << 6 // stands for a send that was abandoned
)

// state is how far a Request is.
type state uint8

const (
	idle      state = iota // the caller's
	queued                 // a send that the peer, or the module, has no room for yet
	announced              // a send that waits to be matched
	moving                 // a send whose bytes are under way
	waiting                // a receive that waits for a message
	landing                // a receive whose bytes are under way
	over                   // ended, and its owner is not told yet
)

// Request is a send or a receive. Its memory is the caller's, who may use it again as often as it
// is Done, and must not copy or move it meanwhile. The zero value is ready.
type Request struct {
	// OnDone is called when the request ends, mostly by Progress, but also by the call that begins
	// it. It may begin others, this one again among them. It may be nil.
	OnDone func(*Request)
	// Context is the caller's.
	Context any
	// Layout, unless it is nil, is where the bytes of the message lie; the memory that Send or Recv
	// is given must be nil then. It may only change while the request is Done, and not while it is
	// readied for Start.
	Layout Layout
	// Exact has a receive end with ErrShort where its message does not fill the memory: for who knows
	// how long it must be. It may only change while the request is Done.
	Exact bool

	state  state
	mode   Mode
	repeat repeat
	peer   *Peer // of a send; of a receive that has been matched, or of the one that it is for
	from   *Peer // of a receive: nil is any
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
	moved  uint64 // bytes that are in place
	most   uint64 // of those that are to be
	under  uint64 // bytes of the put that is under way
	staged uint64 // where in the message mem begins: 0 but for a send with a Layout
}

// Done says whether the request has ended, or has not begun.
func (r *Request) Done() bool { return r.state == idle }

// Err is how the last use of the request has ended: nil, ErrTruncated, ErrShort, ErrCancelled,
// ErrTransfer, or ErrPeer with the reason.
func (r *Request) Err() error { return r.err }

// Peer is who has sent what was received, or to whom was sent.
func (r *Request) Peer() *Peer { return r.peer }

// Tag is that of the message.
func (r *Request) Tag() uint64 { return r.tag }

// Len is the number of bytes that were received, or sent.
func (r *Request) Len() int { return int(min(r.size, uint64(r.room()))) }

// Size is the size of the message, which is more than Len if it was truncated.
func (r *Request) Size() uint64 { return r.size }

// Message is one that has arrived, or has been announced, and that nobody has received.
type Message struct {
	peer   *Peer
	tag    uint64
	size   uint64
	id     uint64 // of the send, if somebody waits for the match
	head   int    // bytes of the header of an active message
	eager  bool
	sync   bool
	active bool
	lent   bool // data is the transport's
	kept   bool // the Message is the caller's, who has asked for it
	gone   bool // received, or lost with its peer
	data   []byte
	order  links[Message]
	same   links[Message]
	own    links[Message] // of its peer
}

// Peer is who has sent it.
func (m *Message) Peer() *Peer { return m.peer }

// Tag is its tag, or its id if it is an active message.
func (m *Message) Tag() uint64 { return m.tag }

// Size is its size in bytes.
func (m *Message) Size() uint64 { return m.size }

// Info is what a probe tells of a message.
type Info struct {
	Peer *Peer
	Tag  uint64
	Size uint64
}
