package fabric

import "time"

// Addr is a peer's address in a Domain, returned by Insert. An Addr is valid only in the Domain
// whose Insert returned it (fi_addr_t). With some providers the value of an Addr is a pointer,
// and callers must not interpret the value.
type Addr uint64

// AddrUnknown is the source of a datagram whose sender was never inserted or is not known to the
// provider.
const AddrUnknown Addr = 1<<64 - 1

// Buf is the index of a packet buffer in a Domain's Arena.
type Buf uint32

// Region identifies memory that was registered with a Domain. Zero means no region.
type Region uint32

// Send describes one datagram. The datagram of a Send begins with the first Len bytes of
// Buf. If Region is not zero, RegionLen bytes of that region from RegionOff follow the
// bytes of Buf (only with Caps.Gather).
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

// Completion reports one finished operation. After the Completion, the buffer of the operation
// belongs to the caller.
type Completion struct {
	// From is the sender's Addr (for OpRecv, only with Caps.Source), or AddrUnknown.
	From Addr
	Buf  Buf
	// Len is the number of bytes received, without any provider prefix. If a datagram is larger
	// than its buffer and the provider knows the datagram's size, Len is larger than the buffer.
	// The caller must drop a datagram that is larger than its buffer.
	Len uint32
	// Errno is 0 for success, or the positive errno (or libfabric error number) of the failure.
	Errno int32
	Op    Op
	_     [1]byte
	// Origin is an internal number of the provider for the source of the datagram, for
	// AppendSource.
	Origin uint16
	// Landed is the number of bytes at the end of the datagram that Poll wrote to the
	// direct-receive memory (Lander) instead of Buf. The directly received bytes begin at offset
	// LandedOff of the direct-receive memory. Buf holds the first Len-Landed bytes of the
	// datagram.
	Landed    uint32
	LandedOff uint32
}

// Caps are the capabilities of an open Endpoint.
type Caps struct {
	MTUBytes    int // largest datagram payload
	InjectBytes int // a send up to this size is complete when Post returns, without a Completion
	TxDepth     int // sends that may wait for their completion
	RxDepth     int // receive buffers that may be posted
	// RecvCapacity is the number of full-size datagrams that can wait at this endpoint between two
	// polls without loss, at least 1. RecvCapacity is limited by the number of posted receives and
	// by the size of the socket buffer. The flow-control credits of all peers together must not
	// exceed RecvCapacity.
	RecvCapacity int
	// In the receive buffer, a datagram costs at most twice its length plus RecvFixedBytes.
	// RecvFullBytes is the cost of a full-size datagram. RecvFixedBytes and RecvFullBytes tell
	// how many small datagrams fit in place of a full-size datagram. A RecvFixedBytes or
	// RecvFullBytes of 0 means that the cost is not known, or that the receive buffer is not the
	// only limit.
	RecvFixedBytes, RecvFullBytes int
	// RecvBufferBytes is the size of the receive buffer that the kernel has granted, or 0 if there
	// is no such buffer.
	RecvBufferBytes int
	Gather          bool // Send.Region works
	// FreeRegions says that RegisterRegion is cheap enough to register memory for a single send.
	// FreeRegions is true only if Gather is true.
	FreeRegions bool
	// Landing says that the Endpoint is a Lander and that its method Land works.
	Landing bool
	Source  bool // Completion.From is filled
	// PollsAll says that a Poll with a short result has emptied the receive queue. A Poll is short
	// if the number of completions is less than both len(out) and the number of posted buffers.
	PollsAll bool
	// RemoveCancels says that the Remove that undoes the last Insert of an address cancels the
	// pending sends to that address. The cancelled sends complete with ECANCELED, and the provider
	// no longer reads their bytes. Without RemoveCancels an address must stay inserted until its
	// sends have completed.
	RemoveCancels bool
}

// Endpoint is a datagram queue pair with its completion queues (FI_EP_DGRAM).
type Endpoint interface {
	// Caps returns the capabilities of the endpoint, which do not change while the endpoint is
	// open.
	Caps() Caps
	// Name returns the address that peers insert to reach this endpoint (fi_getname). The
	// name of an endpoint consists of at most MaxNameBytes opaque bytes. The caller owns
	// the returned slice.
	Name() []byte
	// Post sends a batch of datagrams in order, and returns how many sends were accepted.
	// If n < len(sends), the error is the error of sends[n]. ErrAgain means that the queue
	// is full, and the caller should call Poll before it posts the remaining sends. An
	// error of Post other than ErrAgain concerns sends[n] alone, which the caller may skip.
	// An accepted send of at most Caps.InjectBytes has no Completion, and its buffer
	// belongs to the caller when Post returns. Each accepted send of more than
	// Caps.InjectBytes yields exactly one Completion.
	Post(sends []Send) (n int, err error)
	// Poll writes up to len(out) completions and returns their number. Poll never blocks. An error
	// of Poll (ErrClosed, a broken device) is final.
	Poll(out []Completion) (n int, err error)
	// Recv posts buffers for arriving datagrams, and returns the number of accepted buffers. If n <
	// len(bufs), the error is ErrAgain (RxDepth reached) or a final error.
	Recv(bufs []Buf) (n int, err error)
	// Close releases the endpoint. Posted buffers do not complete after Close.
	Close() error
}

// Domain is an open device with its packet buffers and its address vector. All Endpoints of a
// Domain share the buffers and addresses, so that a packet sent through one endpoint can be
// retransmitted through another endpoint.
type Domain interface {
	// Info returns the Info with which the domain was opened, with the values that are in
	// effect. The Attrs of an open Domain's Info may include counters of events after the
	// domain was opened.
	Info() Info
	// Arena returns the packet buffers.
	Arena() Arena
	// OpenEndpoint opens a queue pair. All buffers of the endpoint come from the Arena.
	OpenEndpoint(cfg EndpointConfig) (Endpoint, error)
	// Insert makes a peer's endpoint name usable as the destination in Send.To. Equal names give
	// the same Addr. The Domain counts the Inserts of a name, and each Remove undoes one Insert.
	// For a malformed name, the error wraps ErrBadName.
	Insert(name []byte) (Addr, error)
	Remove(a Addr) error
	// RegisterRegion makes mem usable in Send.Region. Go memory stays pinned until
	// DeregisterRegion. Without Caps.Gather, the error of RegisterRegion is ErrNotSupported.
	RegisterRegion(mem []byte) (Region, error)
	DeregisterRegion(r Region) error
	// Close closes all open endpoints, and then releases the arena. Slices from Arena.Bytes must
	// not be used after Close.
	Close() error
}

// Lander is implemented by an Endpoint that can write the payloads of arriving datagrams directly
// to their destination (header-data split). With a Lander, a large message is copied only once.
type Lander interface {
	// Land sets the direct-receive memory, which takes the bytes after the first headBytes of
	// each datagram that Poll receives from now on. Poll writes the directly received payloads
	// one after the other in the order of arrival. A datagram is written to its buffer as a whole
	// if it has at most headBytes, or if the rest of the direct-receive memory is too small. The
	// provider may also write any other datagram to its buffer, and the Completion shows where
	// the bytes of the datagram are. A nil mem ends the direct receive.
	//
	// The provider writes to mem only during calls of Poll, and at most as many bytes as have
	// arrived after the call of Land. Bytes of mem that no Completion has reported are undefined.
	// Land returns false, without effect, while datagrams that belong to an earlier call of Land
	// have not been reported by Poll. A Poll that reports datagrams of an earlier call of Land
	// receives no new datagrams. Without Caps.Landing, Land does nothing and returns false.
	Land(mem []byte, headBytes int) bool
}

// OverrunsAttr is the name of the Attr of a Domain that holds the sum of its endpoints' Overruns.
const OverrunsAttr = "packets lost to a full receive buffer (a run of datagrams is one)"

// Overrunner is implemented by an Endpoint that counts datagrams dropped because its receive buffer
// was full.
type Overrunner interface {
	// Overruns returns the number of datagrams that were dropped because the receive buffer
	// was full. A dropped run of coalesced datagrams may count as one dropped datagram.
	// Overruns may make a system call.
	Overruns() uint64
}

// Sourcer is implemented by an Endpoint that knows the source address of datagrams, even if
// the sender is not inserted. With a Sourcer, a reply to an unknown sender can be sent to
// the datagram's source, and not to an address that the sender claims.
type Sourcer interface {
	// AppendSource appends to dst the name of the endpoint from which the datagram of c
	// came, according to the network. The argument c of AppendSource must be one of the
	// completions of the latest Poll. The name that AppendSource appends can be passed to
	// Insert, and has at most MaxNameBytes. AppendSource appends nothing if the source is
	// not known.
	AppendSource(dst []byte, c *Completion) []byte
}

// Addresser is implemented by a Domain whose endpoint names have a textual form. With an
// Addresser, a peer can be reached by a textual address, without an exchange of names.
type Addresser interface {
	// ParseAddress parses the address of a module, such as "192.0.2.1:4000". ParseAddress returns
	// the names of the two endpoints of the module. The first endpoint has the given port. The
	// second endpoint of the module has the next port, or the port after a comma, as in
	// "192.0.2.1:4000,4711". Errors wrap ErrBadName.
	ParseAddress(text string) (first, second []byte, err error)
	// FormatName returns the textual form of one name, such as "192.0.2.1:4000". A malformed name
	// is returned in hexadecimal.
	FormatName(name []byte) string
	// Host returns the part of an endpoint's name that identifies its host. Host returns the same
	// bytes for all endpoints of a host. The returned slice aliases name.
	Host(name []byte) []byte
}

// Waiter is implemented by a Domain whose thread can sleep until there is an event at any of the
// Domain's endpoints.
type Waiter interface {
	// Wait returns when a completion may be ready at any endpoint of the domain, on Wake, on a
	// signal, or after timeout (a negative timeout means no limit). Wait may also return earlier.
	// Wait never misses a completion that arrived before the call of Wait.
	Wait(timeout time.Duration) error
	// Wake ends the Wait in progress, or the next Wait. Any goroutine may call Wake at any time,
	// even after the Domain is closed.
	Wake()
}

// Tender is implemented by a Domain whose Poll looks for rare events, such as new and vanished
// peers, only once in a number of polls.
type Tender interface {
	// Tend looks for the rare events, such as new and vanished peers, at once. A caller that
	// polls rarely should call Tend with every Poll. Tend may make a system call.
	Tend()
}

// Sleeper is implemented by a Waiter whose Wait is also available as the two calls Arm and Sleep.
// With Arm and Sleep, one thread can sleep while another thread uses the Domain, without a wake-up
// for each use.
type Sleeper interface {
	Waiter
	// Arm prepares the Domain for a Sleep, and reports whether there is nothing to poll. If Arm
	// returns false, the caller must call Poll first. Only the goroutine that uses the Domain may
	// call Arm.
	Arm() bool
	// Sleep returns when a completion may have arrived after Arm, on Wake, on a signal, or after
	// timeout (a negative timeout means no limit). One goroutine at a time may call Sleep, while
	// other goroutines use the Domain. The Domain must not be closed during Sleep.
	Sleep(timeout time.Duration) error
}

// Hastener is a Sleeper with a method that shortens a Sleep in progress.
type Hastener interface {
	// Hasten makes the Sleep in progress, or else the next Sleep, return after timeout at the
	// latest. Any goroutine may call Hasten, but not while the Domain is being closed.
	Hasten(timeout time.Duration)
}

// Readier is implemented by a Domain that can be part of an event loop of its user. An event loop
// of the user sleeps in epoll, in C or Go, on the descriptors of several domains and other files.
//
//	poll all there is -> ArmReady -> 0?  yes: poll
//	      ^                          no: sleep until a descriptor is readable, or so long at most
//	      +----------- DisarmReady <-----+
//
// Only the goroutine that uses the Domain may call the methods of Readier. Between ArmReady and
// DisarmReady, no other method of the Domain may be called.
type Readier interface {
	Waiter
	// ReadyFd returns a descriptor that becomes readable when a completion may have arrived after
	// ArmReady, and on Wake. The descriptor stays readable until DisarmReady. Before ArmReady and
	// after DisarmReady, the state of the descriptor has no meaning. The Domain owns the
	// descriptor, and the caller must not read from it or close it. ReadyFd returns the same
	// descriptor until the Domain is closed.
	ReadyFd() (fd int, err error)
	// ArmReady prepares the descriptor of ReadyFd, and returns the longest time that the caller
	// may sleep. A negative result of ArmReady means no limit, and 0 means that the caller must
	// call Poll first.
	ArmReady() (most time.Duration)
	// DisarmReady undoes ArmReady. The caller must call DisarmReady after each ArmReady, and any
	// other call of DisarmReady does nothing.
	DisarmReady()
}

// MaxNameBytes is the largest length of an endpoint's name (FI_NAME_MAX of libfabric).
const MaxNameBytes = 64

// DomainConfig sets the sizes of a Domain.
type DomainConfig struct {
	// Buffers is the number of packet buffers in the arena. Buffers must suffice for all sends in
	// flight and all posted receives of all endpoints together. The value 0 of Buffers means 4096.
	Buffers int
	// BufferBytes is the size of each buffer, for a datagram without provider prefix. A
	// BufferBytes of 0 means MTUBytes of the Info.
	BufferBytes int
}

// EndpointConfig sets the sizes and options of an Endpoint. Zero fields mean the provider's
// defaults.
type EndpointConfig struct {
	TxDepth int // sends waiting for completion
	RxDepth int // posted receives
	// RecvBufferBytes is the requested size of the socket's receive buffer, for providers on
	// sockets. A RecvBufferBytes of 0 requests 4 MiB, and a negative value keeps the system's
	// default size. The granted size is in Caps.RecvBufferBytes.
	RecvBufferBytes int
	// Source requests Completion.From, at a cost per packet, if the provider knows the sender.
	Source bool
	// PathSize makes Post refuse datagrams above the path MTU that the system knows, if the
	// provider can. With UDP, the kernel learns the path MTU from routes and from ICMP
	// reports. PathSize is for callers that do not probe the path MTU. With PathSize, an
	// attacker who can send forged ICMP packets can cause refusals of datagrams.
	PathSize bool
}

// Hints select results of GetInfo. The zero value selects everything.
type Hints struct {
	Provider string // registry name such as "ofi/udp", or a prefix ending in "/" such as "ofi/"
	Domain   string // a domain's (device's) name
	// Node is the local address to bind, in the provider's notation. If Node is empty, the provider
	// chooses.
	//
	// For udp, Node is an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0") or
	// "localhost". A colon and fixed ports may follow the host in a Node, as in
	// "192.0.2.1:4000", "[::1]:4000" or "eth0:4000". The port of the second endpoint is the
	// next port, or follows a comma, as in "192.0.2.1:4000,4711". A Node of the form
	// ":4000" or "0.0.0.0:4000" selects only the first of this host's addresses. The list
	// of this host's addresses begins with the addresses that other hosts can reach.
	Node string
}

// Info describes one way to reach a network (fi_info). Open opens the Domain that an Info
// describes.
type Info struct {
	Provider string // such as "ofi/udp"
	// Wire is a name that is equal at both ends of a connection, for example "udp" for every
	// variant of udp. An empty Wire means that the two ends must have the same Provider.
	Wire    string
	Version string // the provider's or its library's version, for people
	Fabric  string // network name ("127.0.0.0/8")
	Domain  string // device name ("lo")
	// Node is the Hints.Node that selected this Info. Src is the printable source address of the
	// endpoints, if the address is known.
	Node, Src string
	// AddrFormat is the format of the endpoint names, such as "FI_SOCKADDR_IN".
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

	// Attrs holds further attributes of a network for display ("threading", "progress", "mode",
	// "caps"), in the order of display.
	Attrs []Attr
}

// Attr is a named attribute for display.
type Attr struct{ Name, Value string }
