// Package ofi offers libfabric's unconnected datagram endpoints (FI_EP_DGRAM) as fabric providers:
// "ofi/udp", "ofi/sockets", "ofi/verbs", "ofi/efa", "ofi/usnic", "ofi/psm3" and whatever else the
// installed library has. Importing it registers the family "ofi".
//
// # Layout
//
//	ofi.go           provider: fi_getinfo, choice and order of the results
//	domain.go        Domain: arena, peers, regions
//	endpoint.go      Endpoint: post, poll, receive
//	wait.go          Waiter: epoll over all receive queues
//	socket_linux.go  the udp provider's socket
//	layout.go        sizes, prefixes, depths
//	names.go         what a peer's name may be
//	errors.go        codes of the shim to *fabric.Error
//	ofi_stub.go      builds without cgo or Linux
//	shim.h           the C half as Go sees it
//	info.c, domain.c, endpoint.c, data.c   the C half: owns all libfabric objects
//
// A domain's objects, and the order in which they are closed:
//
//	endpoint (fid_ep) -> receive queue, send queue (fid_cq)     each endpoint
//	  -> address vector (fid_av) -> regions, arena's fid_mr -> fid_domain -> fid_fabric -> arena
//
// One slot of the arena, with stride a multiple of 64:
//
//	| headroom: 0 or 64 ..          | size: the caller's bytes, aligned to 64 | slack: 1 or more |
//	|   unused   | provider prefix  |                                         |                  |
//
// # What libfabric leaves to its user
//
// The API asked for is 1.9; the package builds with the headers of 1.17 and later, and a program
// built with the oldest of them runs with all later ones.
//
// A batch costs one call into C: the shim loops over the provider. A datagram of at most
// Caps.InjectBytes is injected (fi_inject, no completion), a larger one sent. A gathered one that
// is injected is put together in a bounce buffer first; larger ones use fi_sendv.
//
// An Addr is an index and a generation, not libfabric's fi_addr_t, which on some providers is a
// pointer: a stale or invented one is an error, never a crash, and never the peer that came after.
// Removing a peer or a region while sends that use it have no completion yet is up to the caller.
//
// The udp provider reads its socket only when its receive queue is read, one datagram by one call,
// and leaves the socket's receive buffer as it is. The package finds the socket and enlarges that,
// and Caps.RecvCapacity counts what it holds.
//
// Receives are posted with a byte of slack behind the buffer, so that a datagram which is too large
// shows itself on providers that cut without a word.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN), of which only
// Waiter.Wake is excepted; different domains are independent, and need no lock.
package ofi
