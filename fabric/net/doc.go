// Package net is a provider of package fabric on the UDP sockets of Go's package net: the provider
// "net", for macOS, the BSDs and Windows. It uses no feature of one system, so it is simple and
// works everywhere. On Linux the provider "udp" is several times as fast.
//
//	Post                                   a goroutine for each endpoint         Poll
//	one WriteToUDPAddrPort for each        waits for a posted buffer, then for   takes what the
//	datagram; it waits while the           a datagram, and reads it into that    reader has put
//	socket's buffer is full                buffer                                into the queue
//
// Endpoint names, addresses and datagrams are those of provider "udp": Info.Wire is "udp", and both
// talk to each other. All sends are complete when the system has copied them; none makes a
// Completion.
//
// Datagrams stay whole on Linux, macOS, FreeBSD and Windows. Elsewhere a datagram that exceeds the
// path MTU arrives in fragments.
//
// A Domain and its endpoints belong to one goroutine, as package fabric says. The readers share
// with it only the queue of their endpoint, under its lock, and the memory of the buffers that are
// posted. A program that polls and never sleeps leaves the readers a processor: once in a while a
// Poll that finds nothing parks for some microseconds.
//
//	provider.go   GetInfo and Open
//	domain.go     domain: arena, addresses, sleeping
//	peers.go      the address vector
//	endpoint.go   endpoint: sending and polling
//	wait.go       the reader of an endpoint, and its queue
//	socket*.go    options of sockets, by system
package net
