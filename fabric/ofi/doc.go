// Package ofi offers libfabric's endpoints as fabric providers. Unconnected datagram endpoints
// (FI_EP_DGRAM) are "ofi/udp", "ofi/sockets", "ofi/verbs", "ofi/efa", "ofi/usnic", "ofi/psm3" and
// all others of the installed library. Reliable endpoints (FI_EP_RDM) are, for example, "ofi/shm",
// "ofi/tcp" and "ofi/udp;ofi_rxd". Importing the package registers the family "ofi".
//
// The name alone decides whether an endpoint is reliable. Where a provider has both kinds of
// endpoints, the name of the reliable ones ends in "+rdm", as in "ofi/efa+rdm". The name
// "ofi/udp+offload" means "ofi/udp" with segmentation offload.
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
// The C half, called the shim, owns all libfabric objects. The C files form layers, and each file
// calls only files of lower layers:
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
// The package uses version 1.9 of the API. The package builds with the headers of libfabric 1.17
// and later, and runs with the libraries of 1.17 and later, whatever headers were used. The file
// docs/reference/libfabric.md describes the differences.
//
// The package loads libfabric.so.1 when a provider of the family is first requested. A program that
// requests no provider of the family ofi runs without libfabric. A request without an installed
// library fails with fabric.ErrUnavailable. Loading the library takes some 200 ms on Debian 12,
// because constructors of dependent libraries sleep.
//
// A call that loads, opens or closes something leaves the process's signal handlers unchanged.
// Programs that the process starts do not inherit the descriptors that a call of libfabric opens.
// The programs do inherit the connections that a provider makes later, while the provider is
// polled.
//
// A batch costs one call into C, because the shim loops over the provider's calls. A datagram of at
// most Caps.InjectBytes is injected (fi_inject, no completion), and a larger datagram is sent. An
// injected datagram with a gathered region is first copied to a bounce buffer. A larger gathered
// datagram uses fi_sendv.
//
// Providers over TCP and rxd keep sends that a peer does not accept, even after the peer has ended.
// The shim passes copies of the sends to providers over TCP and rxd (copies.c). Every send is then
// complete when Post returns, and a peer that accepts nothing delays no other peer. For each peer
// the provider has at most 256 copies, and 4096 more wait in the shim.
//
// An Addr is an index and a generation. The type fi_addr_t of libfabric is not used as an Addr,
// because the value is a pointer on some providers. A stale or invented Addr is an error. A stale
// or invented Addr never causes a crash, and never refers to a later peer. The caller must not
// remove a peer or a region before the sends to the peer or from the region have completed.
//
// The udp provider reads its socket only when its receive queue is read, one datagram per call, and
// leaves the socket's receive buffer unchanged. The package finds the socket and enlarges the
// receive buffer. Caps.RecvCapacity is computed from the size of the receive buffer. The package
// sleeps on the socket itself, and removes the socket from the epoll instance of libfabric's wait
// descriptor. An epoll instance that watches the socket would cost time for every arrival.
//
// The sockets provider hangs for good if the receive window of its TCP connection closes at an
// unfortunate byte. An endpoint of the sockets provider therefore has at most 31 KiB in flight,
// which is 31 datagrams of up to 1 KiB, and injects no datagram.
//
// Receives are posted with a byte of slack after the buffer. The slack reveals a datagram that is
// too large on providers that truncate without an error.
//
// # Segmentation offload
//
// With "ofi/udp+offload" the kernel cuts and coalesces datagrams on libfabric's own socket.
// Datagrams of one length to one peer that are posted together go to the kernel as one message
// (UDP_SEGMENT). The last datagram may be shorter. One fi_sendmsg sends the message from all its
// parts. A coalesced message that arrives (UDP_GRO) is cut at the size that the kernel reports in a
// control message. libfabric does not request the control message of UDP_GRO, and a receive of
// libfabric has at most four iovecs. The package therefore reads the socket without libfabric. One
// recvmsg puts up to 64 KiB into the datagrams' buffers and the landing, without another copy.
// Nothing changes on the wire, or for peers without offload.
//
// An endpoint tests the offload when the endpoint opens, with bursts to itself, and drops datagrams
// that other senders have sent before the test ends. If the test fails, the endpoint works without
// offload. Offload ends separately for each direction. Offload ends when the kernel refuses a run
// but accepts its datagrams one by one, or when the control message is truncated. After a truncated
// control message all waiting datagrams are dropped, as a network may do. The Info.Attrs of the
// Domain tell what is on, and why something is off.
//
// # Reliable endpoints
//
// Info.Reliable and Info.Ordered identify reliable endpoints. A datagram of a reliable endpoint is
// a message of at most 16 KiB. Sender and receiver must poll. A first send returns ErrAgain until
// the peer has polled for the connection, and a large send completes when the peer has received it.
// Buffers are never smaller than the MTU, because providers fail after a message that does not fit
// its buffer. With the shm provider a datagram has at most 4 KiB, and with the shm provider of
// libfabric 2.0 and later a domain accepts at most 256 peers.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN). Only Waiter.Wake
// may be called from any goroutine. Different domains are independent, and need no lock.
package ofi
