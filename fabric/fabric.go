package fabric

import "time"

// Addr is a peer's address as a Domain knows it: a handle given by Insert, meaningful to that
// Domain alone (fi_addr_t; on some providers a pointer, so it is opaque).
type Addr uint64

// AddrUnknown is the source of a datagram whose sender was never inserted, or that the provider
// cannot tell.
const AddrUnknown Addr = 1<<64 - 1

// Buf is the index of a packet buffer in a Domain's Arena.
type Buf uint32

// Region names memory that was registered with a Domain; zero is no region.
type Region uint32

// Send describes one datagram: Len bytes from the start of Buf, then, when Region is not zero,
// RegionLen bytes of that region from RegionOff (only if Caps.Gather).
type Send struct {
	To        Addr
	RegionOff uint64
	Buf       Buf
	Len       uint32
	Region    Region
	RegionLen uint32
}

// Op tells what a Completion completes.
type Op uint8

// The operations that complete.
const (
	OpSend Op = 1 // the buffer of a posted send is the caller's again
	OpRecv Op = 2 // a datagram stands in a buffer that was posted with Recv
)

// Completion reports one finished operation. After it the buffer belongs to the caller again.
type Completion struct {
	// From is the sender's Addr (OpRecv, only if Caps.Source), else AddrUnknown.
	From Addr
	Buf  Buf
	// Len counts the bytes received, without any provider prefix. A datagram larger than the buffer
	// is reported with Len greater than the buffer's size where the provider can tell, and must not
	// be used.
	Len uint32
	// Errno is 0 for success, else the positive errno (or libfabric error number) of the failure.
	Errno int32
	Op    Op
	_     [1]byte
	// Origin is the provider's own note of where the datagram came from, for Sourcer.
	Origin uint16
	// Landed counts the last bytes of the datagram that Poll put into the landing (Lander), from
	// LandedOff on, instead of into Buf; Buf holds the first Len-Landed.
	Landed    uint32
	LandedOff uint32
}

// Caps is what an open Endpoint can really do.
type Caps struct {
	MTUBytes    int // largest datagram payload
	InjectBytes int // sends up to this size are complete when Post returns, and make no Completion
	TxDepth     int // sends that may wait for their completion
	RxDepth     int // receive buffers that may be posted
	// RecvCapacity is the number of full-size datagrams that can wait at this endpoint without loss
	// between polls: the smaller of the posted receives and the socket buffer's capacity. It bounds
	// the flow-control credits given to all peers together. At least 1.
	RecvCapacity int
	// RecvFixedBytes is the largest cost of a waiting datagram in that room, beyond twice its
	// length, and RecvFullBytes the cost of a full-size one: so many small datagrams fit in place
	// of a full one. 0: the cost is not known, or room is not the only bound.
	RecvFixedBytes, RecvFullBytes int
	// RecvBufferBytes is the kernel's receive buffer as granted, 0 where there is none.
	RecvBufferBytes int
	Gather          bool // Send.Region works
	// FreeRegions: RegisterRegion is so cheap that memory may be registered for a single send. Only
	// with Gather.
	FreeRegions bool
	// Landing: the Endpoint is a Lander whose Land works.
	Landing bool
	Source  bool // Completion.From is filled
	// PollsAll: a Poll that returns fewer completions than it has room for, and than buffers are
	// posted, has left none.
	PollsAll bool
	// RemoveCancels: a Remove that undoes the last Insert of an address ends the sends that still wait
	// for it with ECANCELED, and no longer reads their bytes. Without RemoveCancels an address must
	// stay inserted until they have completed.
	RemoveCancels bool
}

// Endpoint is a datagram queue pair with its completion queues (FI_EP_DGRAM).
type Endpoint interface {
	// Caps tells what the endpoint can do; constant while it is open.
	Caps() Caps
	// Name returns the address that peers insert to reach this endpoint (fi_getname): opaque bytes,
	// at most MaxNameBytes. The slice is the caller's.
	Name() []byte
	// Post sends a batch in order and returns how many were taken. With n < len(sends) the error is
	// that of sends[n]: ErrAgain means that the queue is full (poll, then offer it again), any
	// other error concerns sends[n] alone, which the caller may skip. A taken send whose bytes are
	// at most Caps.InjectBytes is complete; any other yields exactly one Completion.
	Post(sends []Send) (n int, err error)
	// Poll writes up to len(out) completions and returns how many. It never blocks. An error
	// (ErrClosed, a broken device) is final.
	Poll(out []Completion) (n int, err error)
	// Recv posts buffers to be filled by arriving datagrams, and returns how many were taken; with
	// fewer than len(bufs) the error is ErrAgain (RxDepth reached) or final.
	Recv(bufs []Buf) (n int, err error)
	// Close releases the endpoint. Posted buffers do not complete any more.
	Close() error
}

// Domain is an open device with its packet buffers and its address vector. Endpoints share both, so
// a packet first sent through one endpoint can be sent again through another.
type Domain interface {
	// Info returns the Info that the domain was opened from, with actual values filled in. Its Attrs
	// may include counters of events since then.
	Info() Info
	// Arena returns the packet buffers.
	Arena() Arena
	// OpenEndpoint opens a queue pair. All its buffers come from the Arena.
	OpenEndpoint(cfg EndpointConfig) (Endpoint, error)
	// Insert makes a peer's endpoint name usable in Send.To. The same name gives the same Addr;
	// Inserts are counted, and Remove undoes one. A malformed name is ErrBadName.
	Insert(name []byte) (Addr, error)
	Remove(a Addr) error
	// RegisterRegion makes mem usable in Send.Region. Go memory is pinned until DeregisterRegion.
	// Without Caps.Gather it is ErrNotSupported.
	RegisterRegion(mem []byte) (Region, error)
	DeregisterRegion(r Region) error
	// Close closes what is still open, endpoints first, then releases the arena: no Bytes of the
	// Arena may be touched afterwards.
	Close() error
}

// Lander is implemented by an Endpoint that can place the payload of arriving datagrams directly at
// its destination, so that a large message is copied once: header-data split to memory named in
// advance.
type Lander interface {
	// Land names the landing: memory for the bytes behind the first headBytes of each datagram that
	// Poll receives from now on. The payloads land one behind the other, whatever they are. A
	// datagram of at most headBytes, or one that the rest of the landing cannot hold, goes to its
	// buffer whole, and so may any other, as its Completion tells. A nil mem ends the landing. mem
	// is written only during calls of Poll, and at most as many bytes as have arrived since Land;
	// written bytes that no completion has named are undefined. It returns false, without effect,
	// while datagrams of an earlier landing wait to be polled, as after a Poll that has filled out.
	// A Poll that reports such datagrams receives no new ones. Without Caps.Landing it does nothing
	// and returns false.
	Land(mem []byte, headBytes int) bool
}

// Overrunner is implemented by an Endpoint that counts datagrams dropped because its receive buffer
// was full.
type Overrunner interface {
	// Overruns returns the number of such drops. Datagrams dropped together, as a coalesced run,
	// may count once. It may cost a system call.
	Overruns() uint64
}

// Sourcer is implemented by an Endpoint that knows the source address of datagrams, also of senders
// that are not inserted: so an answer to an unknown sender goes to its source, not to an address
// that it claims.
type Sourcer interface {
	// AppendSource appends to dst the name of the endpoint that has sent the datagram of c, one of
	// the completions of the latest Poll, as the network tells it: what Insert takes, at most
	// MaxNameBytes. It appends nothing if the source is not known.
	AppendSource(dst []byte, c *Completion) []byte
}

// Addresser is implemented by a Domain whose endpoint names have a textual form, so that a peer can
// be reached by an address, without an exchange of names.
type Addresser interface {
	// ParseAddress parses the address of a module, "192.0.2.1:4000": the names of its two
	// endpoints, the first of which has that port and the second the next one, or that after a
	// comma, "192.0.2.1:4000,4711". Errors wrap ErrBadName.
	ParseAddress(text string) (first, second []byte, err error)
	// FormatName is the reverse for one name, "192.0.2.1:4000"; hexadecimal of one that is malformed.
	FormatName(name []byte) string
	// Host returns the part of an endpoint's name that identifies its host, shared by all endpoints
	// of that host. It aliases name.
	Host(name []byte) []byte
}

// Waiter is implemented by a Domain whose thread can sleep until something happens on any of its
// endpoints.
type Waiter interface {
	// Wait returns when a completion may be there to poll on any endpoint of the domain, on Wake, on
	// a signal, or after timeout (negative: no limit). It may return early; it never misses a
	// completion that arrived before the call.
	Wait(timeout time.Duration) error
	// Wake ends a Wait in progress, or the next one. Any goroutine may call it, also while and after
	// the Domain is closed.
	Wake()
}

// Tender is implemented by a Domain whose Poll checks for rare events (new peers, vanished peers)
// only once in a number of polls.
type Tender interface {
	// Tend checks for such events now. A caller that polls rarely calls it with every Poll. It may
	// cost a system call.
	Tend()
}

// Sleeper is implemented by a Waiter that also has its Wait in two halves, so that one thread can
// sleep while another uses the Domain, without a wake-up for each use.
type Sleeper interface {
	Waiter
	// Arm readies the Domain for a Sleep, and says whether there is nothing to poll yet; false: poll
	// first. It belongs to the goroutine that uses the Domain.
	Arm() bool
	// Sleep returns when a completion may have arrived since Arm, on Wake, on a signal, or after
	// timeout (negative: no limit). One goroutine at a time may call it, while others use the
	// Domain, but not while it is closed.
	Sleep(timeout time.Duration) error
}

// Hastener is a Sleeper whose Sleep can be shortened while it is in progress.
type Hastener interface {
	// Hasten makes the current Sleep, or else the next one, return after timeout at the latest. Any
	// goroutine may call it, but not while the Domain is closed.
	Hasten(timeout time.Duration)
}

// Readier is implemented by a Domain on which a foreign event loop can sleep: epoll, in C or Go,
// with the descriptors of several domains and others.
//
//	poll all there is -> ArmReady -> 0?  yes: poll
//	      ^                          no: sleep until a descriptor is readable, or so long at most
//	      +----------- DisarmReady <-----+
//
// All calls belong to the goroutine that uses the Domain. While the Domain is armed no other method
// may be called.
type Readier interface {
	Waiter
	// ReadyFd returns a descriptor that becomes readable, and stays so until DisarmReady, when a
	// completion may have arrived since ArmReady, and on Wake. While the Domain is not armed its
	// state is meaningless. The Domain owns the descriptor, reads it and closes it; it does not
	// change until then.
	ReadyFd() (fd int, err error)
	// ArmReady prepares the descriptor, and returns the longest time that the caller may sleep;
	// negative: no limit; 0: poll first.
	ArmReady() (most time.Duration)
	// DisarmReady ends an ArmReady. It must be called after each ArmReady; otherwise it does
	// nothing.
	DisarmReady()
}

// MaxNameBytes bounds an endpoint's name (libfabric's FI_NAME_MAX).
const MaxNameBytes = 64

// DomainConfig sizes a Domain.
type DomainConfig struct {
	// Buffers is the number of packet buffers in the arena: all sends in flight and all posted
	// receives of all endpoints together. 0 means 4096.
	Buffers int
	// BufferBytes is the room in each buffer for a datagram without provider prefix. 0 means the
	// Info's MTUBytes.
	BufferBytes int
	// RingBytes is the size of the ring to each peer, for providers with rings: a power of two in
	// the provider's range, which an error states. 0 is the provider's choice. Other providers
	// ignore it.
	RingBytes int
}

// EndpointConfig sizes an Endpoint. Zero fields mean the provider's default.
type EndpointConfig struct {
	TxDepth int // sends waiting for completion
	RxDepth int // posted receives
	// RecvBufferBytes asks for a socket receive buffer of this size where the provider has one.
	// 0 asks for 4 MiB; negative leaves the system's default. What was granted is in Caps.
	RecvBufferBytes int
	// Source asks for Completion.From where the provider can tell it, at a cost per packet.
	Source bool
	// PathSize makes Post refuse datagrams above the system's path MTU, from routes and ICMP
	// reports, where the provider can: for callers that do not probe the path themselves. Anyone
	// who can send ICMP can then cause refusals.
	PathSize bool
}

// Hints narrows what GetInfo returns; the zero value asks for everything.
type Hints struct {
	Provider string // registry name such as "ofi/udp", or a prefix ending in "/" such as "ofi/"
	Domain   string // a domain's (device's) name
	// Node is the local address to bind, in the provider's notation. Empty: the provider chooses.
	// Over udp it is an address ("192.0.2.1", "fe80::1%eth0"), a device ("eth0") or "localhost",
	// and with fixed ports, to be dialled, "192.0.2.1:4000", "[::1]:4000", "eth0:4000", or
	// "192.0.2.1:4000,4711" if the port of the second channel is not the next one. ":4000" and
	// "0.0.0.0:4000" stand for the first of this host's addresses, and not for all of them: those
	// that other hosts reach come first.
	Node string
}

// Info is one way to reach a network (fi_info): give it to Open.
type Info struct {
	Provider string // "ofi/udp"
	// Wire is the name that both ends must share, "udp" for every variant of udp. Empty means the
	// same as Provider.
	Wire    string
	Version string // the provider's or its library's version, for people
	Fabric  string // network name ("127.0.0.0/8")
	Domain  string // device name ("lo")
	// Node is the Hints.Node that this Info answered to; Src is the source address that endpoints
	// will use, printable, when it is known.
	Node, Src string
	// AddrFormat names the form of the endpoint names ("FI_SOCKADDR_IN").
	AddrFormat string

	MTUBytes      int // largest datagram payload, without prefix
	InjectBytes   int
	TxPrefixBytes int
	RxPrefixBytes int
	TxDepth       int
	RxDepth       int
	IOVLimit      int

	LocalMR  bool // buffers must be registered (FI_MR_LOCAL)
	Source   bool // can tell a datagram's source (FI_SOURCE)
	CanWait  bool // its Domain is a Waiter
	Loopback bool // reaches endpoints on this host and in this process
	// Reliable and Ordered describe delivery. FI_EP_DGRAM providers have neither.
	Reliable, Ordered bool

	// Attrs holds further attributes to show to people ("threading", "progress", "mode", "caps"), in
	// the order in which they should be shown.
	Attrs []Attr
}

// Attr is a named attribute for display.
type Attr struct{ Name, Value string }
