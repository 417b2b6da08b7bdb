package fabric

import "time"

// Addr is a peer's address in a Domain. Insert returns an Addr, which is valid only in the same
// Domain (fi_addr_t). The value of an Addr is opaque, because the value is a pointer with some
// providers.
type Addr uint64

// AddrUnknown is the source of a datagram whose sender was never inserted, or whose sender the
// provider does not know.
const AddrUnknown Addr = 1<<64 - 1

// Buf is the index of a packet buffer in a Domain's Arena.
type Buf uint32

// Region names memory that was registered with a Domain. Zero means no region.
type Region uint32

// Send describes one datagram. The datagram of a Send has Len bytes from the start of Buf. If
// Region is not zero, RegionLen bytes of that region from RegionOff follow (only with Caps.Gather).
type Send struct {
	To        Addr
	RegionOff uint64
	Buf       Buf
	Len       uint32
	Region    Region
	RegionLen uint32
}

// Op is the operation that a Completion completes.
type Op uint8

// The operations that complete.
const (
	OpSend Op = 1 // the caller owns the buffer of a posted send again
	OpRecv Op = 2 // a buffer that was posted with Recv holds a datagram
)

// Completion reports one finished operation. After a Completion the buffer of the operation belongs
// to the caller again.
type Completion struct {
	// From is the sender's Addr (for OpRecv, only with Caps.Source), or AddrUnknown.
	From Addr
	Buf  Buf
	// Len is the number of bytes received, without any provider prefix. If a datagram is larger
	// than the buffer, Len is greater than the buffer's size where the provider knows the
	// datagram's size. Such a datagram must not be used.
	Len uint32
	// Errno is 0 for success, or the positive errno (or libfabric error number) of the failure.
	Errno int32
	Op    Op
	_     [1]byte
	// Origin is the provider's own mark of where the datagram came from, for Sourcer.
	Origin uint16
	// Landed is the number of bytes at the end of the datagram that Poll wrote to the landing
	// (Lander) instead of Buf. The landed bytes begin at LandedOff in the landing. Buf holds the
	// first Len-Landed bytes.
	Landed    uint32
	LandedOff uint32
}

// Caps are the capabilities of an open Endpoint.
type Caps struct {
	MTUBytes    int // largest datagram payload
	InjectBytes int // a send up to this size is complete when Post returns, without a Completion
	TxDepth     int // sends that may wait for their completion
	RxDepth     int // receive buffers that may be posted
	// RecvCapacity is the number of full-size datagrams that can wait at this endpoint without loss
	// between polls, at least 1. RecvCapacity is limited by the number of posted receives and by
	// the socket buffer's capacity. RecvCapacity bounds the flow-control credits of all peers
	// together.
	RecvCapacity int
	// RecvFixedBytes is the largest cost of a waiting datagram in the receive buffer beyond twice
	// the datagram's length. RecvFullBytes is the cost of a full-size datagram. RecvFixedBytes and
	// RecvFullBytes tell how many small datagrams fit in place of a full-size datagram. Zero means
	// that the cost is not known, or that the receive buffer is not the only limit.
	RecvFixedBytes, RecvFullBytes int
	// RecvBufferBytes is the size of the kernel's receive buffer as granted, or 0 if there is none.
	RecvBufferBytes int
	Gather          bool // Send.Region works
	// FreeRegions says that RegisterRegion is cheap enough to register memory for a single send.
	// FreeRegions requires Gather.
	FreeRegions bool
	// Landing says that the Endpoint is a Lander whose Land works.
	Landing bool
	Source  bool // Completion.From is filled
	// PollsAll says that a short Poll has emptied the receive queue. A Poll is short if the number
	// of completions is less than both the room in the result and the number of posted buffers.
	PollsAll bool
	// RemoveCancels says that a Remove that undoes the last Insert of an address cancels the
	// pending sends to that address. The cancelled sends complete with ECANCELED, and their bytes
	// are no longer read. Without RemoveCancels an address must stay inserted until its sends have
	// completed.
	RemoveCancels bool
}

// Endpoint is a datagram queue pair with its completion queues (FI_EP_DGRAM).
type Endpoint interface {
	// Caps returns the capabilities of the endpoint, which are constant while the endpoint is open.
	Caps() Caps
	// Name returns the address that peers insert to reach this endpoint (fi_getname). An endpoint's
	// name is opaque bytes, at most MaxNameBytes. The caller owns the slice.
	Name() []byte
	// Post sends a batch in order, and returns how many sends were accepted. If n < len(sends), the
	// error is that of sends[n]. ErrAgain means that the queue is full, and the caller should poll
	// and then post the rest again. Any other error concerns sends[n] alone, which the caller may
	// skip. An accepted send of at most Caps.InjectBytes is complete. Any larger accepted send
	// yields exactly one Completion.
	Post(sends []Send) (n int, err error)
	// Poll writes up to len(out) completions and returns their number. Poll never blocks. An error
	// (ErrClosed, a broken device) is final.
	Poll(out []Completion) (n int, err error)
	// Recv posts buffers for arriving datagrams, and returns how many buffers were accepted. If n <
	// len(bufs), the error is ErrAgain (RxDepth reached) or final.
	Recv(bufs []Buf) (n int, err error)
	// Close releases the endpoint. Posted buffers do not complete after Close.
	Close() error
}

// Domain is an open device with its packet buffers and its address vector. All Endpoints of a
// Domain share buffers and addresses, and a packet that was sent through one endpoint can be sent
// again through another.
type Domain interface {
	// Info returns the Info with which the domain was opened, with actual values filled in. The
	// Attrs may include counters of events since the domain was opened.
	Info() Info
	// Arena returns the packet buffers.
	Arena() Arena
	// OpenEndpoint opens a queue pair. All buffers of the endpoint come from the Arena.
	OpenEndpoint(cfg EndpointConfig) (Endpoint, error)
	// Insert makes a peer's endpoint name usable in Send.To. The same name gives the same Addr.
	// Inserts of a name are counted, and Remove undoes one Insert. The error of a malformed name
	// wraps ErrBadName.
	Insert(name []byte) (Addr, error)
	Remove(a Addr) error
	// RegisterRegion makes mem usable in Send.Region. Go memory is pinned until DeregisterRegion.
	// Without Caps.Gather the error is ErrNotSupported.
	RegisterRegion(mem []byte) (Region, error)
	DeregisterRegion(r Region) error
	// Close closes open endpoints, and then releases the arena. Slices from Arena.Bytes must not be
	// used after Close.
	Close() error
}

// Lander is implemented by an Endpoint that can write the payload of arriving datagrams directly to
// its destination (header-data split). A large message is then copied only once.
type Lander interface {
	// Land sets the landing, which is memory for the bytes after the first headBytes of each
	// datagram that Poll receives from now on. The payloads land one after the other in the order
	// of arrival. A datagram of at most headBytes goes to its buffer as a whole, and so does a
	// datagram for which the rest of the landing is too small. The provider may also write a
	// datagram that would fit in the landing to its buffer, and the Completion shows where the
	// datagram is. A nil mem ends the landing.
	//
	// mem is written only during calls of Poll, and at most as many bytes as have arrived since
	// Land. Bytes of the landing that Poll wrote but no Completion has named are undefined. Land
	// returns false, without effect, while datagrams of an earlier landing wait to be polled, as
	// after a Poll that has filled out. A Poll that reports datagrams of an earlier landing
	// receives no new datagrams. Without Caps.Landing, Land does nothing and returns false.
	Land(mem []byte, headBytes int) bool
}

// OverrunsAttr is the Attr of a Domain that has the sum of its endpoints' Overruns.
const OverrunsAttr = "packets lost to a full receive buffer (a run of datagrams is one)"

// Overrunner is implemented by an Endpoint that counts datagrams dropped because its receive buffer
// was full.
type Overrunner interface {
	// Overruns returns the number of such drops. A coalesced run of datagrams that is dropped may
	// count once. A call of Overruns may cost a system call.
	Overruns() uint64
}

// Sourcer is implemented by an Endpoint that knows the source address of datagrams, also for
// senders that are not inserted. An answer to an unknown sender can then go to the datagram's
// source, instead of an address that the sender claims.
type Sourcer interface {
	// AppendSource appends to dst the name of the endpoint that has sent the datagram of c,
	// according to the network. The argument c of AppendSource must be one of the completions of
	// the latest Poll. The name is suitable for Insert, and has at most MaxNameBytes. AppendSource
	// appends nothing if the source is not known.
	AppendSource(dst []byte, c *Completion) []byte
}

// Addresser is implemented by a Domain whose endpoint names have a textual form. A peer can then be
// reached by an address, without an exchange of names.
type Addresser interface {
	// ParseAddress parses the address of a module, such as "192.0.2.1:4000". ParseAddress returns
	// the names of the module's two endpoints. The first endpoint of the module has the given port.
	// The second endpoint of a module has the next port, or the port after a comma, as in
	// "192.0.2.1:4000,4711". Errors wrap ErrBadName.
	ParseAddress(text string) (first, second []byte, err error)
	// FormatName returns the textual form of one name, such as "192.0.2.1:4000". A malformed name
	// is returned in hexadecimal.
	FormatName(name []byte) string
	// Host returns the part of an endpoint's name that identifies its host. All endpoints of a host
	// have the same result of Host. The result of Host aliases name.
	Host(name []byte) []byte
}

// Waiter is implemented by a Domain whose thread can sleep until something happens on any of the
// Domain's endpoints.
type Waiter interface {
	// Wait returns when a completion may be ready to poll on any endpoint of the domain, on Wake,
	// on a signal, or after timeout (a negative timeout means no limit). Wait may return early.
	// Wait never misses a completion that arrived before the call.
	Wait(timeout time.Duration) error
	// Wake ends a Wait in progress, or the next Wait. Any goroutine may call Wake, also while and
	// after the Domain is closed.
	Wake()
}

// Tender is implemented by a Domain whose Poll checks for rare events, such as new and vanished
// peers, only once in a number of polls.
type Tender interface {
	// Tend checks for such events now. A caller that polls rarely calls Tend with every Poll. A
	// call of Tend may cost a system call.
	Tend()
}

// Sleeper is implemented by a Waiter whose Wait is also available in two halves. One thread can
// then sleep while another thread uses the Domain, without a wake-up for each use.
type Sleeper interface {
	Waiter
	// Arm prepares the Domain for a Sleep, and reports whether there is nothing to poll yet. If the
	// result is false, the caller must poll first. Only the goroutine that uses the Domain may call
	// Arm.
	Arm() bool
	// Sleep returns when a completion may have arrived since Arm, on Wake, on a signal, or after
	// timeout (a negative timeout means no limit). One goroutine at a time may call Sleep, while
	// other goroutines use the Domain. The Domain must not be closed during Sleep.
	Sleep(timeout time.Duration) error
}

// Hastener is a Sleeper whose Sleep can be shortened while the Sleep is in progress.
type Hastener interface {
	// Hasten makes the current Sleep, or else the next Sleep, return after timeout at the latest.
	// Any goroutine may call Hasten, but not while the Domain is closed.
	Hasten(timeout time.Duration)
}

// Readier is implemented by a Domain on which a foreign event loop can sleep. The loop uses epoll,
// in C or Go, with the descriptors of several domains and other files.
//
//	poll all there is -> ArmReady -> 0?  yes: poll
//	      ^                          no: sleep until a descriptor is readable, or so long at most
//	      +----------- DisarmReady <-----+
//
// Only the goroutine that uses the Domain may call these methods. While the Domain is armed, no
// other method may be called.
type Readier interface {
	Waiter
	// ReadyFd returns a descriptor that becomes readable when a completion may have arrived since
	// ArmReady, and on Wake. The descriptor stays readable until DisarmReady. While the Domain is
	// not armed, the state of the descriptor has no meaning. The Domain owns the descriptor of
	// ReadyFd, reads from the descriptor and closes the descriptor. The result of ReadyFd stays the
	// same until the Domain is closed.
	ReadyFd() (fd int, err error)
	// ArmReady prepares the descriptor, and returns the longest time that the caller may sleep. A
	// negative result of ArmReady means no limit, and 0 means that the caller must poll first.
	ArmReady() (most time.Duration)
	// DisarmReady ends an ArmReady. DisarmReady must be called after each ArmReady, and does
	// nothing without an ArmReady.
	DisarmReady()
}

// MaxNameBytes bounds an endpoint's name (libfabric's FI_NAME_MAX).
const MaxNameBytes = 64

// DomainConfig sizes a Domain.
type DomainConfig struct {
	// Buffers is the number of packet buffers in the arena. The buffers serve all sends in flight
	// and all posted receives of all endpoints together. 0 means 4096.
	Buffers int
	// BufferBytes is the size of each buffer, for a datagram without provider prefix. 0 means the
	// Info's MTUBytes.
	BufferBytes int
	// RingBytes is the size of the ring to each peer, for providers with rings. RingBytes is a
	// power of two in the provider's range, and the error for another value states the range. 0
	// means the provider's choice. Other providers ignore RingBytes.
	RingBytes int
}

// EndpointConfig sizes an Endpoint. Zero fields mean the provider's default.
type EndpointConfig struct {
	TxDepth int // sends waiting for completion
	RxDepth int // posted receives
	// RecvBufferBytes is the requested size of the socket's receive buffer, where the provider has
	// such a buffer. 0 requests 4 MiB, and a negative value leaves the system's default. The
	// granted size is in Caps.
	RecvBufferBytes int
	// Source requests Completion.From where the provider knows the sender, at a cost per packet.
	Source bool
	// PathSize makes Post refuse datagrams above the system's path MTU, where the provider can. The
	// system knows the path MTU from routes and ICMP reports. PathSize is for callers that do not
	// probe the path themselves. With PathSize, anyone who can send ICMP packets can cause
	// refusals.
	PathSize bool
}

// Hints narrow the result of GetInfo. The zero value selects everything.
type Hints struct {
	Provider string // registry name such as "ofi/udp", or a prefix ending in "/" such as "ofi/"
	Domain   string // a domain's (device's) name
	// Node is the local address to bind, in the provider's notation. If Node is empty, the provider
	// chooses.
	//
	// For udp, Node is an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0") or "localhost".
	// Fixed ports follow a colon, as in "192.0.2.1:4000", "[::1]:4000" or "eth0:4000". The port of
	// the second channel is the next port, or follows a comma, as in "192.0.2.1:4000,4711". The
	// forms ":4000" and "0.0.0.0:4000" select only the first of this host's addresses. Addresses
	// that other hosts can reach come first.
	Node string
}

// Info is one way to reach a network (fi_info). Open takes an Info.
type Info struct {
	Provider string // such as "ofi/udp"
	// Wire is the name that both ends must share, for example "udp" for every variant of udp. An
	// empty Wire means the same as Provider.
	Wire    string
	Version string // the provider's or its library's version, for people
	Fabric  string // network name ("127.0.0.0/8")
	Domain  string // device name ("lo")
	// Node is the Hints.Node that selected this Info. Src is the printable source address of the
	// endpoints, if known.
	Node, Src string
	// AddrFormat names the form of the endpoint names, such as "FI_SOCKADDR_IN".
	AddrFormat string

	MTUBytes      int // largest datagram payload, without prefix
	InjectBytes   int
	TxPrefixBytes int
	RxPrefixBytes int
	TxDepth       int
	RxDepth       int
	IOVLimit      int

	LocalMR  bool // buffers must be registered (FI_MR_LOCAL)
	Source   bool // knows a datagram's source (FI_SOURCE)
	CanWait  bool // its Domain is a Waiter
	Loopback bool // reaches endpoints on this host and in this process
	// Reliable and Ordered describe the delivery of datagrams. FI_EP_DGRAM providers are neither
	// reliable nor ordered.
	Reliable, Ordered bool

	// Attrs holds further attributes for display ("threading", "progress", "mode", "caps"), in the
	// order of display.
	Attrs []Attr
}

// Attr is a named attribute for display.
type Attr struct{ Name, Value string }
