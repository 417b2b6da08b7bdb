// Package ofi offers libfabric's endpoints as fabric providers. The unconnected datagram endpoints
// (FI_EP_DGRAM) of the installed libfabric have provider names such as "ofi/udp", "ofi/sockets",
// "ofi/verbs", "ofi/efa", "ofi/usnic" and "ofi/psm3". Reliable endpoints (FI_EP_RDM) have provider
// names such as "ofi/shm", "ofi/tcp" and "ofi/udp;ofi_rxd". Importing the package registers the
// provider family "ofi".
//
// If a libfabric provider has both datagram endpoints and reliable endpoints, a name that ends in
// "+rdm", such as "ofi/efa+rdm", selects the reliable endpoints. The name "ofi/udp+offload" means
// "ofi/udp" with segmentation offload.
//
// # Layout
//
//	library.go       loading of libfabric at its first use
//	ofi.go           fi_getinfo, choice and order of the results
//	domain.go        the Domain with its arena and endpoints
//	endpoint.go      the Endpoint with post, poll and receive
//	wait.go          sleeping on all receive queues
//	socket_linux.go  the udp provider's socket
//	offload.go       segmentation offload on it
//	peers.go         names to addresses
//	regions.go       memory to gather from
//	variant.go       what a registry name says
//	node.go          names of hosts to addresses
//	layout.go        sizes, prefixes, depths
//	quirks.go        what providers do besides what they should, by version
//	names.go         what a peer's name may be
//	address.go       socket addresses as text, and their hosts
//	errors.go        codes of the shim to *fabric.Error
//	ofi_stub.go      builds without cgo or Linux
//	shim.h           the C half as Go sees it
//
// The C part of the package, called the shim, owns all libfabric objects. In the following list of
// C files, each file calls only functions that are in files below it.
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
//	absent.c                          all of it but signals.c, in a build without headers
//
// The diagram shows the order in which the objects of a domain are closed, from left to right.
//
//	endpoint (fid_ep) --> receive queue, send queue (fid_cq)     each endpoint
//	  --> address vector (fid_av) --> regions, arena's fid_mr
//	  --> fid_domain --> fid_fabric --> arena
//
// The diagram shows the layout of one slot of the arena. The size of a slot is a multiple of 64
// bytes.
//
//	| headroom, 0, 64 or more       | size, the caller's bytes, aligned to 64 | slack, 1 or more |
//	|===============================|=========================================|==================|
//	|   unused   | provider prefix  |                                         |                  |
//
// # What libfabric leaves to its user
//
// The package uses version 1.9 of libfabric's API. The package can be built with the headers of
// libfabric 1.17 or later, and can run with libfabric 1.17 or later.
//
// The package loads libfabric.so.1 when a program first requests a provider of the family ofi. A
// program that requests no provider of the family ofi runs without libfabric. If libfabric is not
// installed, or if libfabric's headers were missing when the program was built, GetInfo for the
// family ofi returns fabric.ErrUnavailable. On Debian 12, loading libfabric takes about 200 ms,
// because the constructors of the shared libraries that libfabric loads sleep.
//
// Loading libfabric, or opening or closing a libfabric object, can change the process's signal
// handlers, which the package then restores. Child processes do not inherit the descriptors that
// libfabric opens while it is loaded, or while it opens or closes an object. Child processes do
// inherit the sockets of connections that a libfabric provider opens during a poll.
//
// A batch of datagrams costs one call from Go into C. A datagram of at most Caps.InjectBytes is
// sent with fi_inject, which yields no completion. A datagram of more than Caps.InjectBytes is sent
// with fi_send. A datagram that contains bytes of a registered region is copied to a bounce buffer
// before fi_inject (up to Caps.InjectBytes), or is sent with fi_sendv (above Caps.InjectBytes).
//
// The providers over TCP and the layer rxd (libfabric's reliability layer) never complete a send if
// the peer has stopped accepting data or has ended. For the providers over TCP and the layer rxd,
// the shim (the C part of package ofi) passes a copy of each send to libfabric (copies.c). Every
// send that the shim has copied is complete when Post returns, and a peer that accepts no data
// delays only the sends to this peer. For each peer, the shim has at most 256 copies of sends in
// flight at the provider, and at most 4096 copies in a queue of its own.
//
// An Addr of package ofi consists of an index and a generation number. An Addr of package ofi is
// not the fi_addr_t of libfabric, because with some providers a fi_addr_t is a pointer. A call with
// an outdated or invalid Addr returns an error. Before removing a peer, the caller must wait until
// all sends to the peer have completed. Before removing a region, the caller must wait until all
// sends from the region have completed.
//
// If the endpoint names of a provider are socket addresses, its Domain implements fabric.Addresser.
// Endpoints count as endpoints of the same host if they have the same IPv4 address, or IPv6
// addresses with the same first 64 bits.
//
// The udp provider of libfabric receives one datagram per system call, and leaves the socket's
// receive buffer at its default size. Package ofi finds the socket of the udp provider and enlarges
// the socket's receive buffer. Caps.RecvCapacity is computed from the size of the socket's receive
// buffer. A thread that sleeps in Wait polls the socket of the udp provider directly (ppoll).
// Package ofi removes the udp provider's socket from the epoll instance of libfabric's wait
// descriptor, because an epoll instance that watches the socket costs time for every arriving
// datagram.
//
// With the sockets provider of libfabric, a TCP connection hangs for ever if its receive window
// closes within a message header. To keep the TCP receive window open, an endpoint of libfabric's
// sockets provider injects no datagrams, and has at most 31 datagrams of up to 1 KiB in flight.
//
// Each receive is posted with one additional byte after its buffer, and a datagram that reaches the
// additional byte is larger than its buffer. The additional byte is needed because some providers
// truncate a datagram that is larger than its buffer, but report no error.
//
// # Segmentation offload
//
// With "ofi/udp+offload" the kernel splits and coalesces datagrams on libfabric's own socket.
// Datagrams of equal size that are posted together for one peer go to the kernel as one message
// (UDP_SEGMENT). In a message with UDP_SEGMENT, all datagrams except the last have the same size,
// and the last can be shorter. Package ofi splits a received message of coalesced datagrams
// (UDP_GRO) at the datagram size that the kernel reports in a control message. Package ofi reads
// the socket without libfabric, because libfabric does not request the control message with the
// size of coalesced datagrams. One call of recvmsg writes up to 64 KiB directly to the datagrams'
// buffers and the direct-receive memory, without a copy in user space. Segmentation offload does
// not change the packets on the network.
//
// OpenEndpoint tests the offload with datagrams that the endpoint sends to itself. Datagrams that
// arrive from peers during the offload test are dropped. If the offload test of an endpoint fails,
// the endpoint works without offload. An endpoint turns off the offload of sends when the kernel
// refuses a message but accepts its datagrams one by one. An endpoint turns off the offload of
// receives when a control message is truncated, and then drops all datagrams in the socket's
// receive buffer. Info.Attrs of the Domain states separately for sends and for receives whether
// offload is on, or why it is off.
//
// # Reliable endpoints
//
// Info.Reliable and Info.Ordered are true for reliable endpoints. A datagram of a reliable endpoint
// has at most 16 KiB. Datagrams of reliable endpoints make progress only while both the sender and
// the receiver call Poll. With a reliable endpoint, a Post to a peer returns ErrAgain until the
// peer has accepted the connection, which the peer does in a call of Poll. A large send through a
// reliable endpoint completes when the peer has received the data. The receive buffers of reliable
// endpoints are at least as large as the MTU, because the providers stop working after a message
// that does not fit in its buffer. With libfabric's shm provider, a datagram has at most 4 KiB.
// With libfabric 2.0 and later, a domain of the shm provider accepts at most 256 peers.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN). Only Waiter.Wake
// is safe for concurrent use. Several goroutines may concurrently use different domains.
package ofi
