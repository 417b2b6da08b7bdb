// Package shm carries datagrams between processes of one host through shared memory. The name of
// the provider is "shm". The shm provider is reliable and ordered, needs no privileges, and runs
// only on Linux.
//
//	Post                                                        Poll
//	buffer, region --copy--> ring (memfd of the sender) --copy--> buffer posted with Recv, landing
//	     |                     ^            |
//	     +-- waits here while  |            +-- head, flags: written by the receiver
//	         the ring is full -+
//
// Each pair of a sending and a receiving endpoint has its own ring buffer, which is created for
// the first datagram. The sender creates the memory of the ring, seals the memory against
// shrinking, and passes the memory to the receiver through a Unix socket. The Unix socket is also
// used to wake a sleeping peer, and end-of-file on the socket shows that the peer is gone. The
// memory of a ring belongs to no file, and the kernel frees the memory after both processes have
// ended. A domain has one file, which is its socket in /dev/shm. If a process ends without removing
// its socket, the socket is removed by a peer, or by a domain that is opened at least a minute
// later.
//
// # What a ring looks like
//
//	0       magic, version, size of the data      written once by the sender
//	64      head: bytes taken out                 written by the receiver
//	128     receiver sleeps, and on what          written by the receiver, cleared by who wakes it
//	192     sender waits for room, and on what    written by the sender, cleared by who wakes it
//	4096    records, each from a multiple of 64 on:
//
//	        +------------------+---------------------+-------------+
//	        | word (8 bytes)   | payload             | to the next |
//	        | size+1, or skip  |                     | multiple    |
//	        +------------------+---------------------+-------------+
//
// A record in the ring is one datagram with its size. A word of zero behind the last record marks
// the end of the records in a ring. For a batch of datagrams, the sender first writes all records
// except the word of the first one, and the zero word behind them. At last, the sender writes the
// word of the first record in place of the previous zero word. This last write makes the whole
// batch visible, so that a single small datagram costs the receiver one cache line. A record does
// not wrap around at the end of the ring's memory. If a record does not fit before the end of the
// ring's memory, its word tells the receiver to continue at the beginning. Payloads are copied
// twice, both times with package bulk.
//
// The receiver and the sender sleep in futex calls on the sleep words of the ring, for at most 200
// us. Such futex sleeps are used only as long as most wake-ups come within 200 us. A longer sleep
// waits for the sockets (wait_nap.go).
//
// # What is believed
//
// No content of shared memory is trusted. The size of a record is read once and checked
// against the size of the ring. Payloads are copied to private memory before they are
// examined. A ring with invalid contents is closed, without effect on other rings. A peer
// cannot shrink the mapped memory, because the receiver checks that the memory is sealed.
// All peers must belong to the same user. No other user has access to the directory with a user's
// sockets, and the kernel tells each process which user the process at the other end of a socket
// belongs to.
//
// # Limits
//
// A ring has 4 MiB or the size that fabric.DomainConfig gives, and is smaller if there are many
// rings (see ringBudget). The rings of an endpoint to 256 peers have 268 MiB together. All 2048
// rings that a domain may have take 716 MiB. A btl module has two endpoints, and therefore two
// rings in each direction for each active peer. Parts of a ring that never held a datagram take no
// memory, and a pair of endpoints that never communicates has no ring. The Info reports the memory
// of the rings in the attribute "memory".
//
// A domain accepts a limited number of rings in total, and a smaller number from each process (see
// linksMax). If the rings of all peers have more than 1 GiB together, or the rings of one process
// more than half of that, the domain accepts only rings of the smallest size. A sender whose ring
// was refused next offers a ring of the smallest size. A receiver refuses a ring by closing the
// socket. Datagrams in a refused ring are lost, although their sends completed, and the next sends
// to that peer fail with ECONNREFUSED.
//
// A datagram of at most injectBytes makes no completion. If the ring has no room, a datagram of
// at most injectBytes is copied to the queue of waiting sends. If a datagram in the queue of
// waiting sends is lost because the peer is gone, the next Post to that peer returns an error. The
// waiting sends to one peer may use at most half of the free slots in the queue.
//
// The domain leaves half of the process's file descriptors unused. This limit on file descriptors
// applies to each domain separately, and several domains of a process together may use more than
// half. If the sockets of a running domain in /dev/shm are removed, connected peers are not
// affected, but no new peer can connect to the domain. Peers must see the same /dev/shm. Insert
// refuses the name of an endpoint with another /dev/shm, with an error that states this reason.
//
// A domain and its endpoints belong to one goroutine at a time. Any goroutine may call Wake.
package shm
