// Package ofi offers libfabric's endpoints as fabric providers. The providers of unconnected
// datagram endpoints (FI_EP_DGRAM) are "ofi/udp", "ofi/sockets", "ofi/verbs", "ofi/efa",
// "ofi/usnic", "ofi/psm3" and all others of the installed library. The providers of reliable
// endpoints (FI_EP_RDM) are, for example, "ofi/shm", "ofi/tcp" and "ofi/udp;ofi_rxd". Importing
// the package registers the family "ofi".
//
// The provider's name alone decides whether an endpoint is reliable. If a libfabric provider has
// both datagram endpoints and reliable endpoints, the reliable endpoints are selected by a name
// that ends in "+rdm", as in "ofi/efa+rdm". The name "ofi/udp+offload" means "ofi/udp" with
// segmentation offload.
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
//	errors.go        codes of the shim to *fabric.Error
//	ofi_stub.go      builds without cgo or Linux
//	shim.h           the C half as Go sees it
//
// The C part of the package, called the shim, owns all libfabric objects. In the list below, each C
// file calls only functions of files that stand below it.
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
// The objects of a domain are closed in the following order, from left to right.
//
//	endpoint (fid_ep) -> receive queue, send queue (fid_cq)     each endpoint
//	  -> address vector (fid_av) -> regions, arena's fid_mr -> fid_domain -> fid_fabric -> arena
//
// The diagram shows one slot of the arena, whose stride is a multiple of 64.
//
//	| headroom: 0 or 64 ..          | size: the caller's bytes, aligned to 64 | slack: 1 or more |
//	|   unused   | provider prefix  |                                         |                  |
//
// # What libfabric leaves to its user
//
// The package uses version 1.9 of the API. The package can be built with the headers of libfabric
// 1.17 or any later version, and can run with the library of any of these versions.
//
// The package loads libfabric.so.1 when a program first requests a provider of the family ofi. A
// program that requests no provider of the family ofi runs without libfabric. If libfabric is not
// installed, or if its headers were missing when the program was built, a request for its
// providers fails with fabric.ErrUnavailable. On Debian 12, loading libfabric takes some 200 ms,
// because constructors of other libraries sleep.
//
// The process's signal handlers are restored after each call that loads libfabric, or opens or
// closes a libfabric object. Descriptors that libfabric opens during a call that loads, opens or
// closes something are not inherited by programs that the process starts. Connections that a
// libfabric provider opens during a poll are inherited by programs that the process starts.
//
// A batch costs one call from Go into C. A datagram of at most Caps.InjectBytes is sent with
// fi_inject, which makes no completion, and a larger datagram is sent with fi_send. If a datagram
// with bytes of a region has at most InjectBytes, it is first copied to a bounce buffer. If a
// datagram with bytes of a region is larger, it is sent with fi_sendv.
//
// Providers over TCP and the layer rxd never complete sends that a peer does not accept, even if
// the peer has ended. Therefore the shim (the C part of the package) passes copies of the sends to
// providers over TCP and to the layer rxd (copies.c). With the copies, every send is complete when
// Post returns, and a peer that accepts nothing delays no other peer. For each peer, the provider
// holds at most 256 copies of sends, and the shim holds at most 4096 further copies.
//
// An Addr of this package consists of an index and a generation. The type fi_addr_t of libfabric is
// not used as an Addr, because with some providers its value is a pointer. The use of an outdated
// or invalid Addr returns an error, and never causes a crash or sends to another peer. Before
// removing a peer or a region, the caller must wait for the completion of the sends to the peer or
// from the region.
//
// The udp provider of libfabric receives one datagram per system call, and leaves the
// socket's receive buffer at its default size. Package ofi finds the socket of the udp
// provider and enlarges the socket's receive buffer. Caps.RecvCapacity is computed from the
// size of the receive buffer. To sleep, package ofi waits directly for the socket of the udp
// provider, and removes the socket from the epoll instance of libfabric's wait descriptor. An epoll
// instance that watches the socket would cost time for every arriving datagram.
//
// With the sockets provider, a TCP connection hangs for ever if its receive window closes within a
// message header. To keep the receive window open, an endpoint of the sockets provider injects no
// datagrams, and has at most 31 KiB in flight, which is 31 datagrams of up to 1 KiB.
//
// Each receive is posted with one additional byte after its buffer. With providers that truncate a
// datagram without an error, this additional byte is written if the datagram is too large.
//
// # Segmentation offload
//
// With "ofi/udp+offload" the kernel splits and coalesces datagrams on libfabric's own socket.
// Datagrams of equal size to one peer that are posted together go to the kernel as one message
// (UDP_SEGMENT). The last datagram of a message with UDP_SEGMENT may be shorter. A received
// message of coalesced datagrams (UDP_GRO) is split at the size that the kernel reports in a
// control message. Package ofi reads the socket without libfabric, because libfabric does not
// request the control message with the size of coalesced datagrams. One recvmsg writes up to 64 KiB
// to the datagrams' buffers and the direct-receive memory, so that no further copy is needed. The
// packets on the network are the same with and without segmentation offload.
//
// When an endpoint is opened, it tests the offload with datagrams to itself. Datagrams that arrive
// from other senders during the test are dropped. If the offload test of an endpoint fails, the
// endpoint works without offload. The offload of sends and the offload of receives can be turned
// off independently of each other. Offload is turned off when the kernel refuses a message but
// accepts its datagrams one by one, or when a control message is truncated. When a control message
// is truncated, all datagrams that wait in the socket are dropped. For sends and for receives, the
// Info.Attrs of the Domain tell whether offload is on, and if not, the reason.
//
// # Reliable endpoints
//
// Info.Reliable and Info.Ordered identify reliable endpoints. A datagram of a reliable endpoint
// is a message of at most 16 KiB. Messages of reliable endpoints make progress only while both the
// sender and the receiver call Poll. The first send to a peer returns ErrAgain until the peer has
// accepted the connection in a Poll, and a large send completes when the peer has received it.
// The buffers for reliable endpoints are at least as large as the MTU, because providers stop
// working after a message that does not fit in its buffer. With the shm provider a datagram has at
// most 4 KiB, and with libfabric 2.0 and later a shm domain accepts at most 256 peers.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN). Only Waiter.Wake
// may be called from any goroutine. Different domains may be used concurrently.
package ofi
