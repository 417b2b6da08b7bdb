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
// The kernel gets addresses of the arena and of the message headers as numbers. The arena is
// mapped outside the Go heap. The message headers are in heap memory without pointers, which the
// endpoint references and Go's garbage collector never moves. A registered region is referenced
// until DeregisterRegion, and is therefore neither freed nor moved.
//
// No datagram is fragmented, and no datagram is refused because of ICMP reports from
// routers. To prevent fragmentation and refusals, the provider sets the socket option
// IP_PMTUDISC_PROBE. A send of a datagram larger than the MTU of the network device fails
// with EMSGSIZE. A datagram that exceeds the path MTU is lost. With the option
// IP_PMTUDISC_DO, a forged ICMP report would make the kernel refuse datagrams for minutes
// that the path can carry. The sender must probe the path MTU, as package btl does (RFC
// 8899).
//
// The provider does not request ICMP errors (IP_RECVERR), because an unrelated call would
// return such an error. A datagram that the queue of the network device drops is lost
// without any error. Datagrams that a full receive buffer has dropped are counted in the
// attributes of the Domain's Info.
//
// An endpoint may have a second socket, connected to the peer with most of the sends, which is
// faster (see direct). The second socket shares the port with the first socket, and no socket of
// another program can share this port.
//
// The provider detects missing features of the kernel by probes and by errors, and works without
// these features. A provider name such as "udp;nogso;nogro;nommsg;noconnect" turns off single
// features, for tests and for troubleshooting. For a Provider made by New, Options turns off the
// same features.
//
//	options.go   provider names and their options
//	provider.go  GetInfo and Open
//	domain.go    arena, peers (peers.go), regions (region.go), sleeping (wait.go)
//	endpoint.go  sockets (socket.go, direct.go), sending (send.go), receiving (recv.go,
//	             land.go)
//	address.go   addresses (see package fabric/internal/inet)
//	abi.go       the kernel's structures
package udp
