// Package shm carries datagrams between processes of one host through shared memory: the provider
// "shm". It is reliable and ordered, needs no privileges, and is Linux only.
//
//	Post                                                        Poll
//	buffer, region --copy--> ring (memfd of the sender) --copy--> buffer posted with Recv, landing
//	     |                     ^            |
//	     +-- waits here while  |            +-- head, flags: written by the receiver
//	         the ring is full -+
//
// Each pair of a sending and a receiving endpoint has a ring of its own, made when the first
// datagram is sent; nobody else can write to it. The sender makes its memory, seals it against
// shrinking, and hands it over through a Unix socket; the same socket wakes a sleeping peer, and
// its end-of-file shows that a peer is gone, whatever the reason. The memory belongs to no file:
// the kernel frees it with the last of the two processes. The only name in the file system is the
// socket of each domain, in /dev/shm, which a peer removes if its owner could not, or a domain that
// opens a minute later or more.
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
// Behind the last record stands a word of zero, the end. A sender writes the records of a batch,
// the new end, and last of all the first record's word, over the old end: one store makes the
// batch visible, and a lone small datagram costs the receiver one cache line. A record does not
// wrap: where it does not fit before the end of the memory, a word says skip. Payloads are copied
// twice, both times with package bulk: one copy by the kernel (process_vm_readv) was measured to
// take longer, see docs/performance.md.
//
// A side sleeps on these words as futexes, for a fifth of a millisecond at most, and only while
// wake-ups usually come that soon; else it sleeps on the sockets (wait_nap.go).
//
// # What is believed
//
// No content of shared memory is trusted. A record's size is read once and checked against the
// ring; payloads are copied to private memory before they are examined. A ring with invalid
// contents is closed, without effect on others. The memory cannot be taken away while it is mapped
// (it is sealed, and checked to be). A peer is of the same user: the directory of the sockets
// belongs to that user alone, and the kernel tells each side the other's.
//
// # Limits
//
// Rings have 4 MiB, or what fabric.DomainConfig says, while there are few, less when there are
// many: see ringBudget.
// Those of an endpoint to 256 peers have 268 MiB together, all 2048 that a domain may have 716 MiB
// (a btl module has two endpoints, and so two rings each way for a peer that it talks to); parts of
// a ring that never held a datagram take no memory, nor does a pair that never communicates. Info
// reports this under "memory". A domain accepts a bounded number of rings, and fewer from one
// process: see linksMax. Once its peers' rings have 1 GiB together, or those of one process half of
// that, it accepts only rings of the smallest size, which a refused peer tries next. The end of the
// socket tells a sender that its ring was refused; datagrams already put in are lost, though their
// sends completed, and its next sends end with ECONNREFUSED. A datagram of at most injectBytes is
// complete with Post; without room in the ring it is kept in the queue. If it is lost with its
// peer, the next Post to that peer returns the error. One peer's waiting sends take at most as many
// places as they leave to others. The bound that leaves half of the process's descriptors free is
// per domain: several domains may use more together. If the sockets in /dev/shm of a live domain
// are removed, connected peers are not affected; no new peer can reach it. Peers must see the same
// /dev/shm: Insert refuses a name from elsewhere with an error that says so.
//
// A domain and its endpoints belong to one goroutine at a time; Wake may be called from any.
package shm
