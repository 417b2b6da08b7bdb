// Package ofi offers libfabric's endpoints as fabric providers. The providers of unconnected
// datagram endpoints (FI_EP_DGRAM) are "ofi/udp", "ofi/sockets", "ofi/verbs", "ofi/efa",
// "ofi/usnic", "ofi/psm3" and all others of the installed library. The providers of reliable
// endpoints (FI_EP_RDM) are, for example, "ofi/shm", "ofi/tcp" and "ofi/udp;ofi_rxd". Importing
// the package registers the family "ofi".
//
// The provider's name alone decides whether an endpoint is reliable. If a provider has both
// datagram and reliable endpoints, the name of the reliable ones ends in "+rdm", as in
// "ofi/efa+rdm". The name "ofi/udp+offload" means "ofi/udp" with segmentation offload.
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
// The C part of the package, called the shim, owns all libfabric objects. Each C file calls only
// files of lower layers in the list below.
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
// The objects of a domain are closed in the order shown below.
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
// The package uses version 1.9 of the API. The package can be built with the headers and run with
// the libraries of libfabric 1.17 and later, in any combination.
//
// The package loads libfabric.so.1 when a program first requests a provider of the family ofi. A
// program that requests no provider of the family ofi runs without libfabric. If libfabric is not
// installed, a request for its providers fails with fabric.ErrUnavailable. On Debian 12, loading
// libfabric takes some 200 ms, because constructors of other libraries sleep.
//
// The process's signal handlers are restored after each call that loads, opens or closes
// something in libfabric. Descriptors that libfabric opens while it loads, opens or closes
// something are not inherited by programs that the process starts. Connections that a provider
// opens later, while it is polled, are inherited by programs that the process starts.
//
// A batch costs one call from Go into C. A datagram of at most Caps.InjectBytes is sent with
// fi_inject, which makes no completion, and a larger datagram is sent with fi_send. A datagram
// with a region that fits into InjectBytes is first copied to a bounce buffer. A datagram with a
// region that exceeds InjectBytes is sent with fi_sendv.
//
// Providers over TCP and the layer rxd keep sends that a peer does not accept, even after the
// peer has ended. The shim passes copies of the sends to providers over TCP and to the layer rxd
// (copies.c). Because of the copies, every send is complete when Post returns, and a peer that
// accepts nothing delays no other peer. For each peer, the provider has at most 256 copies of
// sends, and the shim has at most 4096 further copies.
//
// An Addr is an index and a generation. The type fi_addr_t of libfabric is not used as an Addr,
// because its value is a pointer with some providers. An outdated or invalid Addr gives an error,
// and never causes a crash or refers to a later peer. Before removing a peer or a region, the
// caller must wait for the completion of the sends to the peer or from the region.
//
// The udp provider of libfabric receives one datagram per system call, and leaves the
// socket's receive buffer at its default size. Package ofi finds the socket of the udp
// provider and enlarges the socket's receive buffer. Caps.RecvCapacity is computed from the
// size of the receive buffer. To sleep, package ofi waits for the socket itself, and
// removes the socket from the epoll instance of libfabric's wait descriptor. An epoll
// instance that watches the socket would cost time for every arriving datagram.
//
// With the sockets provider, a TCP connection hangs for ever if its receive window closes
// within a message header. An endpoint of the sockets provider injects no datagram, and has
// at most 31 KiB in flight, which is 31 datagrams of up to 1 KiB.
//
// Each receive is posted with one additional byte after its buffer. The additional byte shows
// that a datagram is too large, with providers that truncate without an error.
//
// # Segmentation offload
//
// With "ofi/udp+offload" the kernel splits and coalesces datagrams on libfabric's own socket.
// Datagrams of equal size to one peer that are posted together go to the kernel as one message
// (UDP_SEGMENT). The last datagram of a message with UDP_SEGMENT may be shorter. A received
// message of coalesced datagrams (UDP_GRO) is split at the size that the kernel reports in a
// control message. Package ofi reads the socket without libfabric, because libfabric does not
// request this control message. One recvmsg distributes up to 64 KiB to the datagrams' buffers
// and the direct-receive memory, without another copy. Segmentation offload changes nothing on
// the wire.
//
// When an endpoint opens, it tests the offload with datagrams to itself, and drops datagrams that
// other senders have sent before the test ends. If the offload test of an endpoint fails, the
// endpoint works without offload. The offload of sends and the offload of receives can end
// independently. Segmentation offload ends when the kernel refuses a message but accepts its
// datagrams one by one, or when a control message is truncated. After a truncated control
// message, all waiting datagrams are dropped. The Info.Attrs of the Domain tell for each
// direction whether offload is on, and otherwise the reason.
//
// # Reliable endpoints
//
// Info.Reliable and Info.Ordered identify reliable endpoints. A datagram of a reliable endpoint
// is a message of at most 16 KiB. Sender and receiver must call Poll for progress. The first send
// to a peer returns ErrAgain until the peer has called Poll for the connection, and a large send
// completes when the peer has received it. Buffers are at least as large as the MTU, because
// providers fail after a message that does not fit in its buffer. With the shm provider a
// datagram has at most 4 KiB, and with libfabric 2.0 and later a shm domain accepts at most 256
// peers.
//
// # Concurrency
//
// A Domain and its Endpoints belong to one goroutine at a time (FI_THREAD_DOMAIN). Only Waiter.Wake
// may be called from any goroutine. Different domains may be used concurrently.
package ofi
