// Package udp is the provider "udp" of package fabric, which uses the kernel's UDP sockets. The udp
// provider is written in Go without cgo. The udp provider uses the kernel's segmentation offload
// and coalescing of datagrams (UDP_SEGMENT, UDP_GRO).
//
//	Post                                             Poll
//	====                                             ====
//	consecutive sends to one peer, of one size       one message = a run of datagrams (UDP_GRO)
//	  = one message with UDP_SEGMENT                   scattered into the posted buffers, one
//	all messages of the batch = one sendmmsg           datagram each, several by one recvmmsg
//
// Each Endpoint has a socket that Go's network poller does not watch. No system call on the socket
// blocks, and therefore the provider makes the system calls without informing Go's scheduler. A
// send is complete when the kernel has copied its bytes, and no send yields a Completion.
//
// The provider passes the addresses of the arena and of the message headers to the kernel as
// integers. The arena is mapped outside the Go heap. The message headers are in heap memory without
// pointers. The addresses of the message headers stay valid, because the endpoint keeps a reference
// to the headers, and because Go's garbage collector never moves heap memory. The domain keeps a
// reference to a registered region until DeregisterRegion, so that the garbage collector does not
// free the region.
//
// The provider sets the socket option IP_MTU_DISCOVER to IP_PMTUDISC_PROBE, so that the kernel
// neither fragments datagrams nor refuses datagrams because of ICMP reports from routers. A send of
// a datagram larger than the MTU of the network device fails with EMSGSIZE. A datagram that exceeds
// the path MTU is lost. With IP_PMTUDISC_DO instead of IP_PMTUDISC_PROBE, the kernel would believe
// a forged ICMP report, and would for minutes refuse datagrams that the path can carry. The user of
// the provider must probe the path MTU, as package btl does (RFC 8899).
//
// The provider does not request ICMP errors (IP_RECVERR), because the kernel would report the ICMP
// error of a datagram as the error of a later, unrelated call. The provider reports no error if the
// queue of the network device drops a datagram. The attributes of the Domain's Info show how many
// datagrams the kernel dropped because a receive buffer was full.
//
// The provider detects missing features of the kernel by probes and by errors, and works without
// them. A provider name such as "udp;nogso;nogro;nommsg" turns off single features, for tests and
// for troubleshooting. A program can turn off the same features with the argument of type Options
// of the function New.
//
//	options.go   provider names and their options
//	provider.go  GetInfo and Open
//	domain.go    arena, peers (peers.go), regions (region.go), sleeping (wait.go)
//	endpoint.go  the socket (socket.go), sending (send.go), receiving (recv.go)
//	address.go   addresses (see package fabric/internal/inet)
//	abi.go       the kernel's structures
package udp
