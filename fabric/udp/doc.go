// Package udp is a provider of package fabric on the kernel's UDP sockets, named "udp". The udp
// provider is written in Go without a library and without cgo. The provider is as fast as the
// kernel's segmentation and coalescing of datagrams allow.
//
//	Post                                             Poll
//	consecutive sends to one peer, of one size       one message = a run of datagrams (UDP_GRO)
//	  = one message with UDP_SEGMENT                   scattered into the posted buffers, one
//	all messages of the batch = one sendmmsg           datagram each; several by one recvmmsg
//
// Each Endpoint is a socket outside of Go's network poller. No system call blocks on the socket,
// and therefore the provider uses raw system calls. A send is complete when the kernel has copied
// its bytes, and no send makes a Completion.
//
// The kernel gets addresses of the arena and of the message headers as numbers. The arena is mapped
// outside the Go heap. The headers are in heap blocks without pointers that the endpoint
// references, and Go's collector moves nothing on the heap. A registered region is referenced until
// DeregisterRegion, and is therefore neither freed nor moved. The region's memory is on the heap,
// because the region was passed through an interface.
//
// No datagram is fragmented, and none is refused because of reports from routers. The provider sets
// the policy IP_PMTUDISC_PROBE of Linux. If a datagram is larger than the device takes, its send
// fails with EMSGSIZE. If a datagram exceeds the path MTU, the datagram is lost, with or without a
// report. The policy IP_PMTUDISC_DO would make the kernel believe router reports, which anyone may
// forge. After a forged report the kernel would refuse datagrams for minutes that the path still
// carries. The sender must probe the path itself, as package btl does (RFC 8899).
//
// The provider does not request ICMP errors (IP_RECVERR), because datagrams may be lost anyway, and
// a pending error would hit an unrelated call. A datagram that the device's queue drops is
// therefore lost without any error. Datagrams that found a receive buffer full are counted. The
// attributes of the Domain's Info show the number of datagrams that found a receive buffer full,
// and other counts.
//
// An endpoint may have a second socket, connected to the peer with most of the sends, which is
// faster (see direct). The second socket shares the port with the first socket, and no other socket
// can share the port.
//
// The provider finds features that the kernel lacks by probes and by their first error, and then
// does without the features. A name such as "udp;nogso;nogro;nommsg;noconnect" turns single
// features off, for tests and for cautious users. Options does the same for a Provider made by New.
//
//	options.go   provider names and their options
//	provider.go  GetInfo and Open
//	domain.go    domain: arena, peers (peers.go), regions (region.go), sleeping (wait.go)
//	endpoint.go  endpoint: sockets (socket.go, direct.go), sending (send.go), receiving (recv.go,
//	             land.go)
//	address.go   addresses; package fabric/internal/inet has what provider net shares
//	abi.go       the kernel's structures
package udp
