// Package net is the provider "net" of package fabric on the UDP sockets of Go's package net, for
// macOS, the BSDs and Windows. On Linux the provider "udp" should be used, because it is several
// times as fast as the provider "net".
//
//	Post                                   a goroutine for each endpoint         Poll
//	one WriteToUDPAddrPort for each        waits for a posted buffer, then for   takes what the
//	datagram, it waits while the           a datagram, and reads it into that    reader has put
//	socket's buffer is full                buffer                                into the queue
//
// The endpoint names, addresses and datagrams are those of the provider "udp" (Info.Wire is "udp"),
// and endpoints of the two providers can communicate. A send is complete when the operating system
// has copied its bytes, and no send makes a Completion.
//
// On Linux, macOS, FreeBSD and Windows, datagrams are never fragmented. On other systems, a
// datagram that exceeds the path MTU arrives in fragments.
//
// A Domain and its endpoints belong to one goroutine at a time, as package fabric requires. A
// reader goroutine and the Domain's goroutine share the queue of the endpoint, under a lock, and
// the memory of the posted buffers, but nothing else. After some polls without a completion, Poll
// parks the calling goroutine for some microseconds, so that the reader goroutines get processor
// time.
//
//	provider.go   GetInfo and Open
//	domain.go     arena, addresses, sleeping
//	peers.go      the address vector
//	endpoint.go   sending and polling
//	wait.go       the reader of an endpoint, and its queue
//	socket*.go    options of sockets, by system
package net
