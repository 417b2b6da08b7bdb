// Package udp is a provider of package fabric on the kernel's UDP sockets, in Go alone: the
// provider "udp". It needs no library and no cgo, and is as fast as the kernel's segmentation and
// coalescing of datagrams allow.
//
//	Post                                             Poll
//	consecutive sends to one peer, of one size       one message = a run of datagrams (UDP_GRO)
//	  = one message with UDP_SEGMENT                   scattered into the posted buffers, one
//	all messages of the batch = one sendmmsg           datagram each; several by one recvmmsg
//
// Each Endpoint is a socket that Go's network poller does not know. It is never blocked on, so its
// system calls are raw ones. All sends are complete when the kernel has copied them: none makes a
// Completion.
//
// The kernel gets addresses of the arena and of the message headers as numbers. That is safe
// because the arena is mapped outside the Go heap, headers live in heap blocks without pointers
// that the endpoint holds, and Go's collector moves nothing on the heap; a registered region is
// held, hence neither freed nor moved, until DeregisterRegion, and its memory is on the heap
// because it passed through an interface.
//
// No datagram is fragmented, and none is refused because of what routers have reported: of Linux's
// policies IP_PMTUDISC_PROBE is set. One that is larger than the device takes is an error of its
// send (EMSGSIZE); one that exceeds the path MTU is lost, with or without a report. The
// alternative, IP_PMTUDISC_DO, would make the kernel believe such reports, which anyone may forge,
// and refuse for minutes what the path still carries; the sender must probe the path itself, as
// package btl does (RFC 8899). ICMP errors are not asked for (IP_RECVERR): datagrams may be lost
// anyway, and a pending error would hit an unrelated call. A datagram that the device's queue drops
// is therefore lost in silence. Those that found a receive buffer full are counted: the attributes
// of the Domain's Info tell that, and other events.
//
// An endpoint has a second socket, connected to the peer with most of the sends, which is faster
// (see direct). It shares the port with the first one; no other socket can.
//
// Features that the kernel lacks are found by probes and by their first error, and are then not
// used. Names such as "udp;nogso;nogro;nommsg;noconnect" switch single features off, for tests and
// for the cautious; Options does the same for a Provider of one's own.
//
//	options.go   provider names and their options
//	provider.go  GetInfo and Open
//	local.go     the host's addresses, Hints.Node
//	domain.go    domain: arena, peers (peers.go), regions (region.go), sleeping (wait.go)
//	endpoint.go  endpoint: sockets (socket.go, direct.go), sending (send.go), receiving (recv.go,
//	             land.go)
//	names.go     endpoint names
//	abi.go       the kernel's structures
package udp
