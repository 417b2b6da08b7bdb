// Package net is the provider "net" of package fabric, which uses the UDP sockets of Go's package
// net. Programs on macOS, the BSDs and Windows use the provider "net". On Linux, programs should
// use the provider "udp" instead, because it is several times as fast as the provider "net".
//
//	Post                                   a goroutine for each endpoint         Poll
//	one system call for each datagram,     waits for a posted buffer, then for   takes what the
//	ErrAgain (Windows: waits) while        a datagram, and reads it into that    reader has put
//	the socket's buffer is full            buffer                                into the queue
//
// The provider "net" has the same endpoint names, addresses and datagrams as the provider "udp"
// (Info.Wire is "udp"), so that endpoints of the two providers can communicate. A send is complete
// when the operating system has copied its bytes, and no send yields a Completion.
//
// On Linux, macOS, FreeBSD and Windows, the provider "net" disables IP fragmentation. On systems
// where the provider "net" cannot disable fragmentation, such as OpenBSD, a datagram that exceeds
// the path MTU is sent in IP fragments.
//
// A Domain and its endpoints belong to one goroutine at a time, as package fabric requires. An
// endpoint's reader goroutine and the goroutine that uses the Domain share only the queues of the
// endpoint (under a lock) and the memory of the posted buffers. After some polls without a
// completion, Poll parks the calling goroutine for some microseconds, so that the reader goroutines
// get processor time.
//
//	file          content
//	====          =======
//	provider.go   GetInfo and Open
//	domain.go     arena, addresses, sleeping
//	peers.go      the address vector
//	endpoint.go   sending and polling
//	wait.go       the reader of an endpoint, and its queue
//	socket*.go    options of sockets, by system
package net
