package pml

import (
	"time"

	"gobtl/btl"
)

// Mode defines when a send is Done, and whether the receive must be posted before the send.
type Mode uint8

// The modes of sends, as in MPI.
const (
	// Standard means that the send is Done as soon as the caller may change the memory of the message,
	// because the transport no longer needs this memory.
	Standard Mode = iota
	// Synchronous means that the send is Done when the transport no longer needs the memory of the
	// message and a receive has matched the message.
	Synchronous
	// Ready is like Standard, for a program that has made sure that the receive is posted. If the
	// receive of a Ready message is not posted, the Layer treats the message like a Standard message,
	// and counts it (Stats.NotReady).
	Ready
	// Eager is like Standard, but the message is never announced. If an Eager message would exceed the
	// peer's limits on unexpected messages, this message and later messages to the peer wait at the
	// sender. If an Eager message exceeds the size limit for eager messages, the send fails with
	// ErrEager.
	Eager
	// Announce is like Standard, but the message is always announced, even if it is short. An
	// announced send is Done when the receiver has all data, or when the peer has refused the message.
	Announce

	active    Mode = 1 << 7 // an active message
	abandoned Mode = 1 << 6 // marks an abandoned send
)

// The type "state" is the state of a Request.
type state uint8

const (
	idle      state = iota // idle, owned by the caller
	queued                 // a send that waits for the peer or the module
	announced              // a send that waits to be matched
	moving                 // a send whose data is being transferred
	waiting                // a receive that waits for a message
	landing                // a receive whose data is being transferred
	over                   // ended, but OnDone was not called yet
)

// Request is a send or a receive. The caller allocates a Request, can reuse it when it is Done, and
// must not copy it while it is in use. The zero Request is ready for use.
type Request struct {
	// OnDone, which can be nil, is called when the request ends, by Progress or by the method that
	// begins the request. OnDone is allowed to begin requests, including the request that has just
	// ended.
	OnDone func(*Request)
	// Context is a value of the caller, which the Layer does not use.
	Context any
	// Layout describes the memory of a non-contiguous message. If Layout is not nil, the memory
	// argument of Send or Recv must be nil. Layout must be changed only while the request is Done, and
	// not between SendInit or RecvInit and Start.
	Layout Layout
	// Exact makes a receive end with ErrShort if the message does not fill the memory. A caller that
	// knows the length of the message sets Exact in order to detect a message of a different length.
	// Exact must be changed only while the request is Done.
	Exact bool
	// If Among is not nil, it restricts a receive from any peer to messages of the peers in this set.
	// If messages of peers outside the set Among have arrived before the call of Recv and match, Recv
	// drops them (see DropOthers). Messages that arrive later from peers outside the set Among do not
	// match the receive. Among has no effect on a receive from one peer. Among must be changed only
	// while the request is Done.
	Among *Members

	state  state
	mode   Mode
	repeat repeat
	peer   *Peer // peer of a send, of a matched receive, or of a receive from one peer
	from   *Peer // source of a receive; nil means any peer
	tag    uint64
	mask   uint64
	mem    []byte
	header []byte // of an unsent active message
	size   uint64 // size of the message
	err    error
	order  uint64 // order in which receives were posted
	queue  links[Request]
	active links[Request] // entry in Peer.active

	id     uint64 // id of this request in the protocol
	theirs uint64 // id of the peer's request
	handle btl.Handle
	region *btl.Region
	since  time.Duration // when the region was exposed, as of hosts.awake
	beside int64         // value of Peer.exposedBytes when the region was exposed
	moved  uint64        // bytes transferred; of a receive, only those in packets
	most   uint64        // bytes to transfer
	under  uint64        // bytes of the current put, or packets in flight
	base   uint64        // bytes that were put before the first packet

	asked     asked
	anyPeer   bool // a receive from any peer, or of a message that a probe from any peer found
	packets   bool // the data is sent in packets (packets.go)
	announced bool // the message was announced, not eager
}

// Done reports whether the request is not in use.
func (r *Request) Done() bool { return r.state == idle }

// Err returns the error with which the latest send or receive of the request ended, or nil. An
// error that Err returns wraps ErrTruncated, ErrShort, ErrCancelled, ErrTransfer, ErrNoHandler or
// ErrPeer.
func (r *Request) Err() error { return r.err }

// Peer returns the sender of a received message, or the destination of a send.
func (r *Request) Peer() *Peer { return r.peer }

// Tag returns the tag of the message.
func (r *Request) Tag() uint64 { return r.tag }

// Len returns the number of bytes that were received or sent.
func (r *Request) Len() int { return int(min(r.size, uint64(r.room()))) }

// Size returns the size of the message in bytes. If the message was truncated, Size exceeds Len.
func (r *Request) Size() uint64 { return r.size }

// Announced reports whether the latest message of the request was announced, so that its data was
// sent only after a receive had matched the message. The result of Announced is valid when the
// request is Done without an error.
func (r *Request) Announced() bool { return r.announced }

// Message is a message that has arrived or was announced, and that was not received or dropped yet.
type Message struct {
	peer    *Peer
	tag     uint64
	size    uint64
	id      uint64 // id of the send, if the sender waits for the match
	head    int    // bytes of the header of an active message
	eager   bool
	sync    bool
	active  bool
	lent    bool // the transport owns data
	kept    bool // the caller owns the Message
	gone    bool // received, dropped, or lost with its peer
	anyPeer bool // MProbe has found the message by a search for messages from any peer
	data    []byte
	order   links[Message]
	same    links[Message]
	own     links[Message] // entry in Peer.unexpected or Peer.probed
	any     [anyMasks]links[Message]
}

// Peer returns the sender of the message.
func (m *Message) Peer() *Peer { return m.peer }

// Tag returns the tag of the message, or the id of an active message.
func (m *Message) Tag() uint64 { return m.tag }

// Size returns the size of the message in bytes.
func (m *Message) Size() uint64 { return m.size }

// Info is the result of Probe.
type Info struct {
	Peer *Peer
	Tag  uint64
	Size uint64
}
