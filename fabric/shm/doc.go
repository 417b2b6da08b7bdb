// Package shm carries datagrams between processes of one host through shared memory. The provider
// is named "shm". The provider is reliable and ordered, needs no privileges, and runs only on
// Linux.
//
//	Post                                                        Poll
//	buffer, region --copy--> ring (memfd of the sender) --copy--> buffer posted with Recv, landing
//	     |                     ^            |
//	     +-- waits here while  |            +-- head, flags: written by the receiver
//	         the ring is full -+
//
// Each pair of a sending and a receiving endpoint has a ring of its own, which is made when the
// first datagram is sent. No other process can write to the ring. The sender makes the memory,
// seals the memory against shrinking, and passes the memory to the receiver through a Unix socket.
// The same socket wakes a sleeping peer, and the end-of-file of the socket shows that a peer is
// gone, whatever the reason. The memory belongs to no file, and the kernel frees the memory after
// both processes have ended. The only name in the file system is the socket of each domain, in
// /dev/shm. If the owner cannot remove the socket, a peer removes the socket, or a domain that
// opens at least a minute later.
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
// A record is one datagram with its size. A word of zero after the last record marks the end. A
// sender writes the records of a batch and the new end, and last the first record's word over the
// old end. The store of the first word makes the batch visible, and a single small datagram costs
// the receiver one cache line. A record does not wrap. Where a record does not fit before the end
// of the memory, a word says skip. Payloads are copied twice, both times with package bulk. One
// copy by the kernel (process_vm_readv) was measured to take longer, see docs/performance.md.
//
// The receiver and the sender sleep on the sleep words as futexes for at most a fifth of a
// millisecond. The receiver and the sender sleep in this way only while wake-ups usually come
// within the same time. Longer sleeps are on the sockets (wait_nap.go).
//
// # What is believed
//
// No content of shared memory is trusted. A record's size is read once and checked against the
// ring. Payloads are copied to private memory before they are examined. A ring with invalid
// contents is closed, without effect on other rings. A peer cannot shrink the mapped memory,
// because the receiver checks that the memory is sealed. A peer belongs to the same user. The
// directory of the sockets belongs to that user alone, and the kernel tells each process the
// other's user.
//
// # Limits
//
// A ring has 4 MiB, or the size in fabric.DomainConfig, while there are few rings, and less when
// there are many rings (see ringBudget). The rings of an endpoint to 256 peers have 268 MiB
// together. All 2048 rings that a domain may have take 716 MiB. A btl module has two endpoints, and
// therefore two rings in each direction for a peer with which the module communicates. Parts of a
// ring that never held a datagram take no memory, and a pair that never communicates has no ring.
// Info reports the memory under "memory".
//
// A domain accepts a bounded number of rings, and fewer from one process (see linksMax). If the
// rings of all peers have 1 GiB together, or the rings of one process half of that, the domain
// accepts only rings of the smallest size. A refused peer tries the smallest size next. If the peer
// refuses a ring, the peer closes the socket, which tells the sender of the refusal. Datagrams that
// are already in the refused ring are lost, although their sends completed, and the next sends to
// the peer that refused the ring end with ECONNREFUSED.
//
// A datagram of at most injectBytes is complete with Post. Without room in the ring, a datagram of
// at most injectBytes is kept in the queue. If the datagram is lost with its peer, the next Post to
// that peer returns the error. The waiting sends to one peer take at most as many places in the
// queue as remain for other peers.
//
// Half of the process's descriptors stay free. The limit of descriptors is per domain, and several
// domains may together use more descriptors. If the sockets of a live domain in /dev/shm are
// removed, connected peers are not affected, but no new peer can reach the domain. Peers must see
// the same /dev/shm. Insert refuses a name from another /dev/shm with an error that says so.
//
// A domain and its endpoints belong to one goroutine at a time. Wake may be called from any
// goroutine.
package shm
