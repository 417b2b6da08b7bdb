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
// shrinking, and hands it over through a Unix socket; the same socket wakes a peer that sleeps, and
// tells by its end that a peer is gone, however it went. The memory belongs to no file: the kernel
// frees it with the last of the two processes. The only name in the file system is the socket of
// each domain, in /dev/shm, which a peer removes if its owner could not, or a domain that opens a
// minute later or more.
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
// Who sleeps does so on these words themselves, as futexes, for a fifth of a millisecond at most,
// and only while it is woken as soon as that; else on the sockets (wait_nap.go).
//
// # What is believed
//
// Nothing that stands in shared memory. A record's size is read once and checked against what the
// ring can hold; what was copied out is private, and only then looked at. A ring that says
// something impossible is closed, and with it no other. The memory cannot be taken away while it
// is mapped (it is sealed, and checked to be). A peer is of the same user: the directory of the
// sockets belongs to that user alone, and the kernel tells each side the other's.
//
// # Limits
//
// Rings have 4 MiB, or what fabric.DomainConfig says, while there are few, less when there are
// many: see ringBudget.
// Those of an endpoint to 256 peers have 268 MiB together, all 2048 that a domain may have 716 MiB
// (a btl module has two endpoints, and so two rings each way for a peer that it talks to); what
// never held a datagram takes no memory, nor does a pair that never talks. Info says so under
// "memory". A domain takes in so many rings, and from one process fewer: see linksMax; when those
// of its peers have 1 GiB together, or those of one process half of that, the smallest alone, which
// a peer that was refused tries. A sender learns that its ring was not taken in when the socket
// ends; what it had put in until then is lost, though it has completed, and its next sends end with
// ECONNREFUSED.
// A datagram of at most injectBytes is complete with Post; one for which there is no room is kept
// in the queue. If it is lost with its peer, the next Post to that peer tells. Of the sends that
// may wait, those to one peer are at most as many as there is room for others.
// The bound that leaves half of the process's descriptors to others is that of each domain: several
// count together. If somebody removes the sockets in /dev/shm under a domain that lives, those who
// know it go on; no new peer reaches it.
// Peers must see the same /dev/shm: a name from elsewhere is refused by Insert with a clear word.
//
// A domain and its endpoints belong to one goroutine at a time; Wake may be called from any.
package shm
