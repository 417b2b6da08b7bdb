package fabric

import "time"

// Addr is a peer's address in a Domain, returned by Insert. An Addr is valid only in the Domain
// whose Insert returned it (fi_addr_t). With some providers the value of an Addr is a pointer, so
// callers must not interpret the value of an Addr.
type Addr uint64

// AddrUnknown is the Addr of a datagram's sender if the sender was never inserted (Domain.Insert),
// or if the provider does not know the sender.
const AddrUnknown Addr = 1<<64 - 1

// Buf is the index of a packet buffer in a Domain's Arena.
type Buf uint32

// Region identifies memory that was registered with a Domain. Zero means no region.
type Region uint32

// Send describes one datagram. The datagram of a Send begins with the first Len bytes of Buf. If
// Region is not zero, the datagram continues with the RegionLen bytes at the offset RegionOff of
// the registered region. Regions require Caps.Gather.
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

// Completion reports one finished send or receive. When Poll has returned the Completion of an
// operation, the buffer of the operation belongs to the caller again.
type Completion struct {
	// From is the Addr of the sender of a received datagram, or AddrUnknown. If Caps.Source is false,
	// or if the Completion reports a send (OpSend), From is AddrUnknown.
	From Addr
	Buf  Buf
	// Len is the length of the received datagram in bytes, without the provider's packet prefix. If a
	// datagram was larger than its buffer and the provider knows the datagram's size, Len is larger
	// than the buffer. The caller must drop a datagram that is larger than its buffer.
	Len uint32
	// Errno is 0 if the operation has succeeded, or the positive errno (or libfabric error number) of
	// the failure.
	Errno int32
	Op    Op
	_     [1]byte
	// Origin is the provider's internal number for the source of the datagram, which the provider's
	// method AppendSource converts to a name.
	Origin uint16
	// Landed is the number of bytes at the end of the datagram that Poll has written to the
	// direct-receive memory (see Lander), at the offset LandedOff. The packet buffer Buf holds only
	// the first Len-Landed bytes of the datagram.
	Landed    uint32
	LandedOff uint32
}

// Caps are the capabilities of an open Endpoint.
type Caps struct {
	MTUBytes    int // largest datagram payload
	InjectBytes int // a send up to this size is complete when Post returns, without a Completion
	TxDepth     int // sends that may wait for their completion
	RxDepth     int // receive buffers that may be posted
	// RecvCapacity is the number of full-size datagrams, at least 1, that can arrive at this endpoint
	// between two polls without a loss. RecvCapacity depends on the number of receives that can be
	// posted, and on the size of the socket's receive buffer. In a protocol with credit-based flow
	// control, the credits granted to all peers together must not exceed RecvCapacity.
	RecvCapacity int
	// In the socket's receive buffer, a datagram occupies at most RecvFixedBytes plus twice the
	// datagram's length, and a full-size datagram occupies RecvFullBytes. From RecvFixedBytes and
	// RecvFullBytes, a caller can compute how many small datagrams occupy as many bytes of the receive
	// buffer as one full-size datagram. RecvFixedBytes and RecvFullBytes are 0 if the provider does
	// not know them, or if the receive buffer is limited in datagrams as well as in bytes.
	RecvFixedBytes, RecvFullBytes int
	// RecvBufferBytes is the size of the socket's receive buffer that the kernel has granted, or 0 for
	// a provider without sockets.
	RecvBufferBytes int
	Gather          bool // Send.Region works
	// FreeRegions is true if RegisterRegion is cheap enough to be called for a single send.
	// FreeRegions is true only if Gather is true.
	FreeRegions bool
	// Landing is true if the Endpoint implements Lander and the method Land of the Endpoint works
	// (direct receive).
	Landing bool
	Source  bool // Completion.From is filled
	// If PollsAll is true, a Poll that returns fewer than len(out) completions has either emptied the
	// receive queue or used all posted receive buffers.
	PollsAll bool
	// If RemoveCancels is true, the call of Remove that undoes the last Insert of an address cancels
	// the pending sends to this address. The cancelled sends complete with ECANCELED, and the provider
	// no longer reads their bytes. If RemoveCancels is false, the caller must not remove an address
	// until all sends to it have completed.
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
	// Post sends a batch of datagrams in order, and returns the number n of accepted sends. If n <
	// len(sends), the error of Post is the reason why Post has not accepted sends[n]. The error
	// ErrAgain of Post means that the send queue is full, and that the caller should call Poll and
	// then post the remaining sends. An error of Post that is not ErrAgain concerns only sends[n], the
	// first send that Post has not accepted. After an error of Post that is not ErrAgain, the caller
	// may post the sends that follow sends[n]. An accepted send of at most Caps.InjectBytes has no
	// Completion, and the buffer of the send belongs to the caller when Post returns. Each accepted
	// send of more than Caps.InjectBytes yields exactly one Completion.
	Post(sends []Send) (n int, err error)
	// Poll writes up to len(out) completions to the argument "out", and returns the number of
	// completions. Poll never blocks. After an error of Poll, such as ErrClosed or the failure of a
	// device, every later call of Poll fails.
	Poll(out []Completion) (n int, err error)
	// Recv posts buffers for arriving datagrams, and returns the number n of accepted buffers. If n <
	// len(bufs), Recv returns an error. The error ErrAgain of Recv means that RxDepth buffers are
	// already posted. After an error of Recv that is not ErrAgain, every later Recv fails.
	Recv(bufs []Buf) (n int, err error)
	// Close releases the endpoint. The buffers that are posted when Close is called never get a
	// Completion.
	Close() error
}

// Domain is an open device with its packet buffers and its address vector. All Endpoints of a
// Domain share the Domain's buffers and addresses, so that a packet sent through one endpoint can
// be retransmitted through a different endpoint.
type Domain interface {
	// Info returns the Info with which the Domain was opened, updated to the sizes and features that
	// the open Domain uses. The field Attrs of the returned Info can include counters of events in the
	// Domain.
	Info() Info
	// Arena returns the packet buffers of the Domain.
	Arena() Arena
	// OpenEndpoint opens a queue pair. All buffers of the endpoint come from the Arena.
	OpenEndpoint(cfg EndpointConfig) (Endpoint, error)
	// Insert converts the name of a peer's endpoint to an Addr, which can be the destination Send.To.
	// Equal names give the same Addr. The Domain counts the calls of Insert for each name, and each
	// call of Remove undoes one call of Insert. For a malformed name, the error wraps ErrBadName.
	Insert(name []byte) (Addr, error)
	Remove(a Addr) error
	// RegisterRegion registers the memory "mem", so that Send.Region can refer to it. Go memory stays
	// pinned until DeregisterRegion. If Caps.Gather is false, RegisterRegion fails with
	// ErrNotSupported.
	RegisterRegion(mem []byte) (Region, error)
	DeregisterRegion(r Region) error
	// Close closes all open endpoints, and then releases the arena. Slices from Arena.Bytes must
	// not be used after Close.
	Close() error
}

// Lander is implemented by an Endpoint that can write the payloads of arriving datagrams directly
// to their destination (header-data split). With a Lander, the receiver copies a large message only
// once (from the provider to the destination).
type Lander interface {
	// Land sets the direct-receive memory. After a call of Land, Poll leaves the first headBytes bytes
	// of a received datagram in its buffer, and writes the remaining bytes to the direct-receive
	// memory. Poll writes the payloads to the direct-receive memory one after the other, in the order
	// of arrival. Poll writes a whole datagram to its buffer if the datagram has at most headBytes
	// bytes, or if the unused part of the direct-receive memory is too small. The provider is allowed
	// to write any datagram wholly to its buffer. The Completion tells which bytes of a datagram are
	// in the buffer and which are in the direct-receive memory. A call of Land with the argument "mem"
	// set to nil ends the direct receive.
	//
	// The provider writes to the direct-receive memory only during calls of Poll. The provider never
	// writes more bytes to the direct-receive memory than have arrived since the call of Land. Bytes
	// of the direct-receive memory that no Completion has reported are undefined. Land returns false
	// and changes nothing if an earlier direct-receive memory contains datagrams that Poll has not
	// reported. All completions of one Poll refer to the direct-receive memory of the same call of
	// Land. If Caps.Landing is false, Land does nothing and returns false.
	Land(mem []byte, headBytes int) bool
}

// OverrunsAttr is the name of the Attr that holds the sum of the Overruns of a Domain's endpoints.
const OverrunsAttr = "packets lost to a full receive buffer (a run of datagrams is one)"

// Overrunner is implemented by an Endpoint that counts datagrams dropped because its receive buffer
// was full.
type Overrunner interface {
	// Overruns returns the number of datagrams that were dropped because the receive buffer was full.
	// If the kernel drops several coalesced datagrams, Overruns might count them as one dropped
	// datagram. A call of Overruns can make a system call.
	Overruns() uint64
}

// Backlogger is implemented by an Endpoint that knows how many bytes of its socket's send buffer
// are in use. Linux keeps a datagram in the send buffer for up to three seconds if its destination
// is on the local network and does not answer ARP or neighbour discovery. While the send buffer is
// full, Post accepts no datagram to any address.
type Backlogger interface {
	// Backlog returns the number of bytes of the send buffer that are in use, and the size of the send
	// buffer in bytes. Both results of Backlog include the kernel's overhead for each datagram. If the
	// endpoint does not know the use of its send buffer, Backlog returns 0 and 0. A call of Backlog
	// can make a system call.
	Backlog() (usedBytes, sizeBytes int)
}

// Sourcer is implemented by an Endpoint that knows the source address of received datagrams, even
// if the sender's address was not inserted. With a Sourcer, a reply to an unknown sender can be
// sent to the datagram's source, and not to an address that the sender claims.
type Sourcer interface {
	// AppendSource appends to the slice "dst" the name of the endpoint that sent a received datagram,
	// as reported by the network. The argument "c" of AppendSource is the Completion of the datagram,
	// and must be a result of the latest call of Poll. The name that AppendSource appends can be
	// passed to Insert, and has at most MaxNameBytes bytes. AppendSource appends nothing if the source
	// is not known.
	AppendSource(dst []byte, c *Completion) []byte
}

// Addresser is implemented by a Domain whose endpoint names have a textual form. With an Addresser,
// a caller can compute a peer's endpoint names from the peer's textual address.
type Addresser interface {
	// ParseAddress parses the textual address of a btl module (a pair of endpoints), such as
	// "192.0.2.1:4000". ParseAddress returns the names of the two endpoints of the module. The first
	// endpoint has the given port. The second endpoint of the module has the next higher port number,
	// or the port after the comma in a text such as "192.0.2.1:4000,4711". The errors of ParseAddress
	// wrap ErrBadName.
	ParseAddress(text string) (first, second []byte, err error)
	// FormatName returns the textual form of one endpoint name, such as "192.0.2.1:4000". If the
	// endpoint name is malformed, FormatName returns the bytes of the name in hexadecimal.
	FormatName(name []byte) string
	// Host returns the part of an endpoint's name that identifies its host. Host returns the same
	// bytes for all endpoints of a host. The returned slice is a part of the slice "name".
	Host(name []byte) []byte
}

// Waiter is implemented by a Domain that can put the calling thread to sleep until there is an
// event at any of the Domain's endpoints.
type Waiter interface {
	// Wait returns when a completion might be ready at any endpoint of the domain, when Wake is
	// called, when a signal arrives, or when the timeout expires (a negative timeout means no limit).
	// Wait can return without any reason (a spurious wake-up). If a completion was ready when Wait was
	// called, Wait returns at once.
	Wait(timeout time.Duration) error
	// Wake ends the call of Wait in progress, or the next call of Wait if none is in progress. Wake is
	// safe for concurrent use, even after the Domain was closed.
	Wake()
}

// Tender is implemented by a Domain whose endpoints check for rare events, such as new and vanished
// peers, only in one of many calls of Poll.
type Tender interface {
	// Tend checks immediately for rare events, such as new and vanished peers. A caller that polls
	// rarely should call Tend before every Poll. A call of Tend can make a system call.
	Tend()
}

// Sleeper is implemented by a Waiter whose Wait can be replaced by the two calls Arm and Sleep.
// With Arm and Sleep, one thread can keep sleeping while another thread uses the Domain.
type Sleeper interface {
	Waiter
	// Arm prepares the Domain for a call of Sleep, and reports whether the caller may call Sleep. If
	// Poll has something to report, Arm returns false. If Arm returns false, the caller must call Poll
	// and then Arm again. Only the goroutine that uses the Domain may call Arm.
	Arm() bool
	// Sleep returns when a completion might have arrived since the call of Arm, when Wake is called,
	// when a signal arrives, or when the timeout expires (a negative timeout means no limit). One
	// goroutine at a time may call Sleep, while other goroutines use the Domain. The Domain must not
	// be closed during Sleep.
	Sleep(timeout time.Duration) error
}

// Hastener is implemented by a Sleeper that can shorten a Sleep in progress.
type Hastener interface {
	// Hasten makes the call of Sleep in progress return within the given timeout. If no call of Sleep
	// is in progress, Hasten limits the next call of Sleep to the given timeout. Hasten is safe for
	// concurrent use, but must not be called during or after Close of the Domain.
	Hasten(timeout time.Duration)
}

// Readier is implemented by a Domain that can be part of a program's own event loop. The event
// loop, in C or Go, sleeps in epoll on the file descriptors of several domains together with file
// descriptors of the program.
//
//	poll all there is --> ArmReady --> 0?  yes, poll
//	      ^                           no, sleep until a descriptor is readable, or so long at most
//	      +----------- DisarmReady <------+
//
// Only the goroutine that uses the Domain may call the methods of Readier. Between ArmReady and
// DisarmReady, Wake is the only method of the Domain that may be called.
type Readier interface {
	Waiter
	// ReadyFd returns a descriptor that becomes readable when a completion might have arrived since
	// the call of ArmReady, or when Wake is called. The descriptor stays readable until DisarmReady.
	// Before ArmReady and after DisarmReady, the readiness of the descriptor has no meaning. The
	// Domain owns the descriptor of ReadyFd, and the caller must neither read from this descriptor nor
	// close it. ReadyFd returns the same descriptor until the Domain is closed.
	ReadyFd() (fd int, err error)
	// ArmReady prepares the descriptor of ReadyFd, and returns the longest time that the caller may
	// sleep. A negative result of ArmReady means no limit. If ArmReady returns 0, the caller must not
	// sleep, and must call DisarmReady and then Poll.
	ArmReady() (most time.Duration)
	// DisarmReady undoes ArmReady. The caller must call DisarmReady after each call of ArmReady. A
	// second call of DisarmReady does nothing.
	DisarmReady()
}

// MaxNameBytes is the largest length of an endpoint's name (FI_NAME_MAX of libfabric).
const MaxNameBytes = 64

// DomainConfig sets the sizes of a Domain.
type DomainConfig struct {
	// Buffers is the number of packet buffers in the arena. The arena needs enough buffers for all
	// sends in flight and all posted receives of all endpoints together. If Buffers is 0, there are
	// 4096 buffers.
	Buffers int
	// BufferBytes is the size of each packet buffer, not counting the provider's packet prefix. A
	// BufferBytes of 0 means MTUBytes of the Info.
	BufferBytes int
}

// EndpointConfig sets the sizes and options of an Endpoint. For each field with the zero value, the
// provider uses the field's default.
type EndpointConfig struct {
	TxDepth int // sends waiting for completion
	RxDepth int // posted receives
	// RecvBufferBytes is the requested size of the socket's receive buffer, for providers on
	// sockets. A RecvBufferBytes of 0 requests 4 MiB, and a negative value keeps the system's
	// default size. The granted size is in Caps.RecvBufferBytes.
	RecvBufferBytes int
	// If Source is true, providers that know the sender of a datagram set Completion.From. Setting
	// Completion.From costs time for each received datagram.
	Source bool
}

// Hints select results of GetInfo. The zero value of Hints selects all networks of all providers.
type Hints struct {
	Provider string // registry name such as "ofi/udp", or a prefix ending in "/" such as "ofi/"
	Domain   string // a domain's (device's) name
	// Node is the local address to bind, in the provider's notation. If Node is empty, the provider
	// chooses a local address.
	//
	// For udp, Node is an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0") or "localhost".
	// After the address or device, a Node may contain a colon and a fixed port, as in
	// "192.0.2.1:4000", "[::1]:4000" or "eth0:4000". The second endpoint of a btl module gets the next
	// higher port number, or the port after the comma in a Node such as "192.0.2.1:4000,4711". For a
	// Node such as ":4000" or "0.0.0.0:4000", GetInfo returns one Info for each address of this host,
	// beginning with the addresses that remote hosts can reach.
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
	Version string // version of the provider or of its library, only for display
	Fabric  string // network name ("127.0.0.0/8")
	Domain  string // device name ("lo")
	// Node is the Hints.Node that selected this Info. Src is the source address of the endpoints as
	// text, or an empty string if the address is not known.
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

	// Attrs holds attributes of a network that are only for display ("threading", "progress", "mode",
	// "caps"), in the order of display.
	Attrs []Attr
}

// Attr is a named attribute for display.
type Attr struct{ Name, Value string }
