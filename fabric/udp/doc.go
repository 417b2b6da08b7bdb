// Package udp is a provider of package fabric on the kernel's UDP sockets, named "udp". The
// provider is written in Go without cgo. The udp provider uses the kernel's segmentation and
// coalescing of datagrams.
//
//	Post                                             Poll
//	consecutive sends to one peer, of one size       one message = a run of datagrams (UDP_GRO)
//	  = one message with UDP_SEGMENT                   scattered into the posted buffers, one
//	all messages of the batch = one sendmmsg           datagram each; several by one recvmmsg
//
// Each Endpoint is a socket outside of Go's network poller. No system call on the socket blocks,
// and therefore the provider uses raw system calls. A send is complete when the kernel has copied
// its bytes, and no send makes a Completion.
//
// The provider passes the addresses of the arena and of the message headers to the kernel as
// numbers. The arena is mapped outside the Go heap. The message headers are in heap memory without
// pointers. The endpoint keeps a reference to the memory of the message headers, and Go's garbage
// collector never moves this memory. The domain keeps a reference to a registered region until
// DeregisterRegion, so that the region is neither freed nor moved.
//
// No datagram is fragmented, and no datagram is refused because of ICMP reports from
// routers. To prevent fragmentation and refusals, the provider sets the socket option
// IP_PMTUDISC_PROBE. A send of a datagram larger than the MTU of the network device fails
// with EMSGSIZE. A datagram that exceeds the path MTU is lost. With the option IP_PMTUDISC_DO, a
// forged ICMP report would make the kernel refuse datagrams that the path can carry, for minutes.
// The sender must probe the path MTU, as package btl does (RFC 8899).
//
// The provider does not request ICMP errors (IP_RECVERR), because an ICMP error would be returned
// by a call that has nothing to do with the failed datagram. A datagram that the queue of the
// network device drops is lost without any error. The attributes of the Domain's Info show how many
// datagrams were dropped because a receive buffer was full.
//
// An endpoint may have a second socket, which is connected to the peer to which most sends go,
// because a connected socket is faster (see direct). The second socket shares the port with the
// first socket, and no socket of another program can share this port.
//
// The provider detects missing features of the kernel by probes and by errors, and works without
// these features. A provider name such as "udp;nogso;nogro;nommsg;noconnect" turns off single
// features, for tests and for troubleshooting. For a Provider that New returns, the argument of
// type Options turns off the same features.
//
//	options.go   provider names and their options
//	provider.go  GetInfo and Open
//	domain.go    arena, peers (peers.go), regions (region.go), sleeping (wait.go)
//	endpoint.go  sockets (socket.go, direct.go), sending (send.go), receiving (recv.go,
//	             land.go)
//	address.go   addresses (see package fabric/internal/inet)
//	abi.go       the kernel's structures
package udp
