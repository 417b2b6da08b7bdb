// Package ofi offers libfabric's unconnected datagram endpoints (FI_EP_DGRAM) as fabric providers:
// "ofi/udp", "ofi/sockets", "ofi/verbs", "ofi/efa", "ofi/usnic", "ofi/psm3" and whatever else the
// installed library has; and its reliable ones (FI_EP_RDM), such as "ofi/shm", "ofi/tcp" and
// "ofi/udp;ofi_rxd". Importing it registers the family "ofi".
//
// The name alone decides which of the two an endpoint is: where a provider has both, its reliable
// endpoints have "+rdm" behind its name, as in "ofi/efa+rdm". "ofi/udp+offload" is "ofi/udp" with
// segmentation offload.
//
// # Layout
//
//	library.go       libfabric: loaded at its first use, kept from the process's affairs
//	ofi.go           provider: fi_getinfo, choice and order of the results
//	domain.go        Domain: arena, endpoints
//	endpoint.go      Endpoint: post, poll, receive
//	wait.go          Waiter: sleeping on all receive queues
//	socket_linux.go  the udp provider's socket
//	offload.go       segmentation offload on it
//	peers.go         names to addresses
//	regions.go       memory to gather from
//	variant.go       what a registry name says
//	node.go          names of hosts to addresses
//	layout.go        sizes, prefixes, depths
//	quirks.go        what providers do besides what they should, by version
//	names.go         what a peer's name may be
//	errors.go        codes of the shim to *fabric.Error
//	ofi_stub.go      builds without cgo or Linux
//	shim.h           the C half as Go sees it
//
// The C half owns all libfabric objects. Its files stand on floors, and call downwards only:
//
//	domain.c                          opens and closes a domain, and what has to outlive it
//	  endpoint.c                      opens and closes an endpoint
//	    batch.c                       the calls per batch, and before a sleep
//	      offload.c, offload_recv.c   runs of datagrams by one send, by one receive
//	        data.c                    datagrams by libfabric's own calls, completions
//	          peers.c                 addresses and regions
//	            copies.c              sends of which the provider is given a copy
//	              info.c              fi_getinfo and what it says
//	                load.c            libfabric itself
//	                  signals.c       the process's signal handlers, kept
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
// The API asked for is 1.9; the package builds with the headers of 1.17 and later, and runs with
// the libraries of 1.17 and later, whichever it was built with. docs/reference/libfabric.md tells
// what differs.
//
// libfabric.so.1 is loaded when a provider of the family is first asked for. A program that asks
// for none starts without it, also where it is not installed; one that asks there is told
// fabric.ErrUnavailable. Loading it takes some 200 ms on Debian 12, because constructors of the
// libraries that it needs sleep.
//
// A call that loads, opens or closes leaves the process's signal handlers as they were, and what it
// opens is not inherited by programs that the process starts. The connections that a provider makes
// later, while it is polled, are.
//
// A batch costs one call into C: the shim loops over the provider. A datagram of at most
// Caps.InjectBytes is injected (fi_inject, no completion), a larger one sent. A gathered one that
// is injected is put together in a bounce buffer first; larger ones use fi_sendv.
//
// Providers over TCP and rxd keep what a peer does not take, for ever if it has ended. They are
// given copies (copies.c): every send is complete when Post returns, and what one peer does not
// take holds up nobody else. 256 copies to a peer are the provider's, 4096 more wait in the shim.
//
// An Addr is an index and a generation, not libfabric's fi_addr_t, which on some providers is a
// pointer: a stale or invented one is an error, never a crash, and never the peer that came after.
// Removing a peer or a region while sends that use it have no completion yet is up to the caller.
//
// The udp provider reads its socket only when its receive queue is read, one datagram by one call,
// and leaves the socket's receive buffer as it is. The package finds the socket and enlarges that,
// and Caps.RecvCapacity counts what it holds. It sleeps on the socket itself, and takes it out of
// the epoll instance that is libfabric's wait descriptor: that would be run for every arrival.
//
// The sockets provider hangs for good if the receive window of its TCP connection closes at the
// wrong byte, so an endpoint of it has 31 KiB under way at most: 31 datagrams of up to 1 KiB, none
// of them injected.
//
// Receives are posted with a byte of slack behind the buffer, so that a datagram which is too large
// shows itself on providers that cut without a word.
//
// # Segmentation offload
//
// With "ofi/udp+offload" the kernel cuts and coalesces on libfabric's own socket. Datagrams of one
// length to one peer that are posted together go to the kernel as one (UDP_SEGMENT); the last one
// may be shorter. That is one fi_sendmsg from wherever their parts are. What arrives coalesced
// (UDP_GRO) is cut at the size that the kernel names in a control message. libfabric does not ask
// for that, and its receives have at most four places, so here the socket is read without it: one
// recvmsg puts up to 64 KiB into their buffers and the landing, without another copy. On the wire
// and towards peers without offload nothing changes.
//
// An endpoint tries it with bursts to itself when it opens, and drops what others have sent to it
// before; where that fails it is one without. It ends, one direction at a time, when the kernel
// refuses what it takes datagram by datagram, and when the control message is cut off; then
// everything that waits is dropped, as a network may. Info.Attrs of the Domain tells what is on,
// and why something is off.
//
// # Reliable endpoints
//
// Info.Reliable and Info.Ordered say so. A datagram is a message there, of at most 16 KiB. Both
// sides have to poll: a first send is ErrAgain until the peer has worked on the connection, and a
// large one completes when the peer has taken it. Buffers are never smaller than the MTU, because
// providers do not survive a message that does not fit. With the shm provider a datagram has 4 KiB
// at most, and with that of libfabric 2.0 and later a domain takes 256 peers.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN), of which only
// Waiter.Wake is excepted; different domains are independent, and need no lock.
package ofi
