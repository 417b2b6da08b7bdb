package fabric

import "time"

// Addr is a peer's address in a Domain, returned by Insert. An Addr is valid only in the Domain
// whose Insert returned it (fi_addr_t). With some providers the value of an Addr is a pointer,
// and callers must not interpret the value.
type Addr uint64

// AddrUnknown stands for the sender of a datagram if the sender was never inserted, or if the
// provider cannot tell the sender.
const AddrUnknown Addr = 1<<64 - 1

// Buf is the index of a packet buffer in a Domain's Arena.
type Buf uint32

// Region identifies memory that was registered with a Domain. Zero means no region.
type Region uint32

// Send describes one datagram. The datagram of a Send begins with the first Len bytes of
// Buf. If Region is not zero, the datagram continues with RegionLen bytes of that region, starting
// at the offset RegionOff. Regions require Caps.Gather.
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

// Completion reports one finished operation. When a Completion has been polled, the buffer of the
// operation belongs to the caller again.
type Completion struct {
	// From is the Addr of the sender of a received datagram, or AddrUnknown. Without Caps.Source,
	// and for operations other than OpRecv, From is AddrUnknown.
	From Addr
	Buf  Buf
	// Len is the number of bytes received, without any provider prefix. If a datagram was larger
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
	// RecvCapacity is the number of full-size datagrams, at least 1, that can arrive at this
	// endpoint between two polls without the loss of any. RecvCapacity is limited by the number of
	// posted receives and by the size of the socket buffer. The flow-control credits of all peers
	// together must not exceed RecvCapacity.
	RecvCapacity int
	// In the receive buffer, a datagram costs at most twice its length plus RecvFixedBytes.
	// RecvFullBytes is the cost of a full-size datagram. From RecvFixedBytes and RecvFullBytes, a
	// caller can compute how many small datagrams fit in place of a full-size datagram. A
	// RecvFixedBytes or RecvFullBytes of 0 means that the cost is not known, or that the number of
	// waiting datagrams has another limit besides the receive buffer.
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
	// If PollsAll is true, a Poll that returns fewer completions than len(out), and fewer than
	// there are posted buffers, has emptied the receive queue.
	PollsAll bool
	// If RemoveCancels is true, the last Remove of an address, which makes the address invalid,
	// cancels the pending sends to that address. The cancelled sends complete with ECANCELED, and
	// the provider no longer reads their bytes. Without RemoveCancels an address must stay inserted
	// until its sends have completed.
	RemoveCancels bool
}

// Endpoint is a datagram queue pair with its completion queues (FI_EP_DGRAM).
type Endpoint interface {
	// Caps returns the capabilities of the endpoint, which do not change while the endpoint is
	// open.
	Caps() Caps
	// Name returns the address that peers insert to reach this endpoint (fi_getname). The
	// name of an endpoint consists of at most MaxNameBytes opaque bytes. The caller of Name owns
	// the returned slice, and may change it.
	Name() []byte
	// Post sends a batch of datagrams in order, and returns how many sends were accepted.
	// If n < len(sends), the error is the reason why sends[n] was not accepted. ErrAgain means that
	// the queue is full, and that the caller should call Poll and then post the remaining sends.
	// Any other error of Post concerns only sends[n], and the caller may continue with the send
	// after it. An accepted send of at most Caps.InjectBytes has no Completion, and its buffer
	// belongs to the caller when Post returns. Each accepted send of more than Caps.InjectBytes
	// yields exactly one Completion.
	Post(sends []Send) (n int, err error)
	// Poll writes up to len(out) completions to out, and returns their number. Poll never blocks.
	// An error of Poll (such as ErrClosed or a broken device) is final, which means that every
	// later Poll fails, too.
	Poll(out []Completion) (n int, err error)
	// Recv posts buffers for arriving datagrams, and returns the number of accepted buffers. If n <
	// len(bufs), the error is ErrAgain (RxDepth buffers are posted) or a final error.
	Recv(bufs []Buf) (n int, err error)
	// Close releases the endpoint. After Close, there are no completions for the posted buffers.
	Close() error
}

// Domain is an open device with its packet buffers and its address vector. All Endpoints of a
// Domain share the buffers and addresses, so that a packet sent through one endpoint can be
// retransmitted through another endpoint.
type Domain interface {
	// Info returns the Info with which the domain was opened, but with the values that are in
	// effect. In the Info of an open Domain, the Attrs may include counters of events in the
	// domain.
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
	// Land sets the direct-receive memory. After the call of Land, Poll writes the bytes that
	// follow the first headBytes of each received datagram to the direct-receive memory. Poll
	// writes the directly received payloads one after the other in the order of arrival. A datagram
	// is written to its buffer as a whole if it has at most headBytes, or if the rest of the
	// direct-receive memory is too small. The provider is free to write any other datagram to its
	// buffer as well, and the Completion shows where the bytes of the datagram are. A nil mem ends
	// the direct receive.
	//
	// The provider writes to mem only during calls of Poll, and at most as many bytes as have
	// arrived after the call of Land. Bytes of mem that no Completion has reported are undefined.
	// Land returns false and changes nothing as long as Poll has not reported all datagrams that
	// were received with the memory of an earlier call of Land. A Poll that reports datagrams of an
	// earlier call of Land receives no new datagrams. If Caps.Landing is false, Land does nothing
	// and returns false.
	Land(mem []byte, headBytes int) bool
}

// OverrunsAttr is the name of the Attr of a Domain that holds the sum of its endpoints' Overruns.
const OverrunsAttr = "packets lost to a full receive buffer (a run of datagrams is one)"

// Overrunner is implemented by an Endpoint that counts datagrams dropped because its receive buffer
// was full.
type Overrunner interface {
	// Overruns returns the number of datagrams that were dropped because the receive buffer
	// was full. If the kernel drops a run of coalesced datagrams, the run may count as one dropped
	// datagram. Overruns may make a system call.
	Overruns() uint64
}

// Sourcer is implemented by an Endpoint that knows the source address of received datagrams, even
// of senders that were not inserted. With a Sourcer, a reply to an unknown sender can be sent to
// the datagram's source, and not to an address that the sender claims.
type Sourcer interface {
	// AppendSource appends to dst the name of the endpoint that has sent the datagram of the
	// Completion c, as reported by the network. The argument c of AppendSource must be one of the
	// completions of the latest Poll. The name that AppendSource appends can be passed to Insert,
	// and has at most MaxNameBytes. AppendSource appends nothing if the source is not known.
	AppendSource(dst []byte, c *Completion) []byte
}

// Addresser is implemented by a Domain whose endpoint names have a textual form. A caller of an
// Addresser can reach a peer by a textual address, without having received the peer's endpoint
// names.
type Addresser interface {
	// ParseAddress parses the address of a module, such as "192.0.2.1:4000". ParseAddress returns
	// the names of the two endpoints of the module. The first endpoint has the given port. The
	// second endpoint of the module has the next port, or the port after a comma, as in
	// "192.0.2.1:4000,4711". Errors wrap ErrBadName.
	ParseAddress(text string) (first, second []byte, err error)
	// FormatName returns the textual form of one endpoint name, such as "192.0.2.1:4000". If the
	// endpoint name is malformed, FormatName returns its bytes in hexadecimal.
	FormatName(name []byte) string
	// Host returns the part of an endpoint's name that identifies its host. Host returns the same
	// bytes for all endpoints of a host. The returned slice aliases name.
	Host(name []byte) []byte
}

// Waiter is implemented by a Domain that can put the calling thread to sleep until there is an
// event at any of the Domain's endpoints.
type Waiter interface {
	// Wait returns when a completion may be ready at any endpoint of the domain, when Wake is
	// called, when a signal arrives, or after timeout (a negative timeout means no limit). Wait may
	// return earlier for no reason. If a completion was ready when Wait was called, Wait returns at
	// once.
	Wait(timeout time.Duration) error
	// Wake ends the Wait in progress, or else the next Wait. Any goroutine may call Wake at any
	// time, even when the Domain is closed.
	Wake()
}

// Tender is implemented by a Domain whose Poll checks for rare events, such as new and vanished
// peers, in only one of many polls.
type Tender interface {
	// Tend checks at once for the rare events, such as new and vanished peers. A caller that polls
	// rarely should call Tend with every Poll. Tend may make a system call.
	Tend()
}

// Sleeper is implemented by a Waiter whose Wait can be replaced by the two calls Arm and Sleep.
// With Arm and Sleep, one thread can sleep while another thread uses the Domain, and need not be
// woken for each use.
type Sleeper interface {
	Waiter
	// Arm prepares the Domain for a Sleep, and returns true if there is nothing to poll. If Arm
	// returns false, the caller must call Poll and then Arm again. Arm may be called only by the
	// goroutine that uses the Domain.
	Arm() bool
	// Sleep returns when a completion may have arrived after Arm, when Wake is called, when a
	// signal arrives, or after timeout (a negative timeout means no limit). One goroutine at a time
	// may call Sleep, while other goroutines use the Domain. The Domain must not be closed during
	// Sleep.
	Sleep(timeout time.Duration) error
}

// Hastener is a Sleeper with a method that shortens a Sleep in progress.
type Hastener interface {
	// Hasten shortens the Sleep in progress, or else the next Sleep, so that it returns after
	// timeout at the latest. Any goroutine may call Hasten, except while the Domain is being
	// closed.
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
	// ArmReady, or when Wake is called. The descriptor stays readable until DisarmReady. Outside of
	// the time from ArmReady to DisarmReady, the state of the descriptor has no meaning. The Domain
	// owns the descriptor, and the caller must not read from it or close it. ReadyFd returns the
	// same descriptor until the Domain is closed.
	ReadyFd() (fd int, err error)
	// ArmReady prepares the descriptor of ReadyFd, and returns the longest time that the caller
	// may sleep. A negative result of ArmReady means no limit. A result of 0 means that the caller
	// must not sleep, but must call DisarmReady and Poll.
	ArmReady() (most time.Duration)
	// DisarmReady undoes ArmReady. The caller must call DisarmReady once after each ArmReady, and
	// every further call of DisarmReady does nothing.
	DisarmReady()
}

// MaxNameBytes is the largest length of an endpoint's name (FI_NAME_MAX of libfabric).
const MaxNameBytes = 64

// DomainConfig sets the sizes of a Domain.
type DomainConfig struct {
	// Buffers is the number of packet buffers in the arena. There must be enough buffers for all
	// sends in flight and all posted receives of all endpoints together. If Buffers is 0, there are
	// 4096 buffers.
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
	// If Source is true, providers that know the sender of a datagram set Completion.From, which
	// costs time for each packet.
	Source bool
	// If PathSize is true, Post refuses datagrams larger than the path MTU that the operating
	// system knows, with providers that support this. With UDP, the kernel learns the path MTU from
	// routes and from ICMP reports. PathSize is for callers that do not probe the path MTU. With
	// PathSize, an attacker who can send forged ICMP packets can make Post refuse datagrams that
	// the path would carry.
	PathSize bool
}

// Hints select results of GetInfo. The zero value selects everything.
type Hints struct {
	Provider string // registry name such as "ofi/udp", or a prefix ending in "/" such as "ofi/"
	Domain   string // a domain's (device's) name
	// Node is the local address to bind, in the provider's notation. If Node is empty, the provider
	// chooses a local address.
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
	// Two endpoints can communicate if their Infos have the same Wire, for example "udp" for every
	// variant of udp. If Wire is empty, two endpoints can communicate only if they have the same
	// Provider.
	Wire    string
	Version string // the provider's or its library's version, for people
	Fabric  string // network name ("127.0.0.0/8")
	Domain  string // device name ("lo")
	// Node is the Hints.Node that selected this Info. Src is the source address of the endpoints as
	// text, or empty if the address is not known.
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
