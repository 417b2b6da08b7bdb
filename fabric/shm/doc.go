// Package shm is the provider "shm", which carries datagrams between processes of one host through
// shared memory. The shm provider is reliable and ordered, needs no privileges, and runs only on
// Linux.
//
//	Post                                                        Poll
//	buffer, region --copy--> ring (memfd of the sender) --copy--> buffer posted with Recv, landing
//	     |                     ^            |
//	     +-- waits here while  |            +-- head, flags, written by the receiver
//	         the ring is full -+
//
// Each pair of a sending and a receiving endpoint has its own ring buffer (ring), which the sender
// creates for its first datagram to the receiver. The sender creates the memory of the ring
// (memfd), seals the memory against shrinking, and passes the memory to the receiver through a Unix
// socket. A packet on the Unix socket wakes a sleeping peer, and end-of-file on the socket shows
// that the peer has ended. The memory of a ring has no name in a file system, and the kernel frees
// the memory when both the sending and the receiving process have ended. The only file of a domain
// is its Unix socket in /dev/shm. If a process ends without removing its Unix socket, the socket is
// removed by a connected peer, or by a domain that is opened at least a minute later.
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
// A record in the ring consists of an 8-byte word, which contains the size of a datagram, and the
// datagram. A zero word after the last record marks the end of the records in the ring. For a batch
// of datagrams, the sender first writes all records except the size word of the first record, and
// then a zero word after the last record. Finally, the sender makes the whole batch visible with
// one store, which replaces the zero word at the end of the earlier records with the size word of
// the batch's first record. Because a datagram follows its size word directly, the receiver reads
// only one cache line for a single small datagram. A record does not wrap around at the end of the
// ring's memory. If a record does not fit before the end of the ring's memory, a word with the flag
// "skip" tells the receiver to continue at the beginning of the memory. Each payload is copied
// twice with package internal/bulk, by the sender into the ring and by the receiver out of the
// ring.
//
// If the previous Wait of a domain took less than 200 us, Wait first sleeps for at most 200 us in a
// futex call on the sleep flags of the rings. If the futex sleep ends without a wake-up, Wait
// sleeps until there is an event on the domain's Unix sockets (wait_nap.go).
//
// # What is trusted
//
// No content of shared memory is trusted. The receiver reads the size of a record once, and checks
// it against the size of the ring. The receiver copies payloads to private memory before it
// examines them. If a ring has invalid contents, the receiver closes only this ring. A peer cannot
// shrink the mapped memory, because the receiver checks that the memory is sealed. All peers must
// belong to the same user. The directory that contains a user's Unix sockets is accessible only to
// this user. The kernel tells each process the user id of the process at the other end of a Unix
// socket.
//
// # Limits
//
// A ring has 4 MiB, or less if the file size limit of the process (RLIMIT_FSIZE) is lower, or if
// the domain has many rings (see ringBudget). The rings from one endpoint to 256 peers have 268 MiB
// together. If a domain has the largest number of rings (2048), its rings take 716 MiB together. A
// btl module has two endpoints, and therefore two rings in each direction for each active peer. A
// ring uses physical memory only as far as datagrams have filled the ring, in steps of 64 KiB
// (touchBytes), and a pair of endpoints that never communicates has no ring. The attribute "memory"
// in the fabric.Info of a domain states how much memory the domain's rings can use.
//
// A domain accepts a limited number of rings in total (linksMax), and a limited number of rings
// from each process (linksPerProcess). A domain that has accepted more than 1 GiB of rings accepts
// only new rings of the smallest size. A domain that has accepted more than 512 MiB of rings from
// one process accepts only new rings of the smallest size from this process. After the refusal of a
// ring, the sender offers a ring of the smallest size to the same receiver. A receiver refuses a
// ring by closing the Unix socket. Datagrams in a refused ring are lost, although their sends have
// completed, and the next sends to the refusing peer fail with ECONNREFUSED.
//
// The send of a datagram of at most injectBytes yields no Completion. If the ring has no room for a
// datagram of at most injectBytes, the sender copies the datagram to its queue of waiting sends. If
// a datagram in the queue of waiting sends is lost because the peer has ended, the next Post to the
// same peer returns an error. The first waiting send to a peer can take any free slot of the queue
// of waiting sends. A further send to the same peer can wait only if the queue has more unreserved
// free slots (see readersShare) than waiting sends to this peer.
//
// The incoming links of a domain use at most half of the file descriptors that the process is
// allowed to have. Each domain counts only its own incoming links, so that several domains of a
// process together can use more than half of the process's descriptors. If the Unix socket of a
// running domain in /dev/shm is removed, connected peers are not affected, but no other process can
// connect to the domain. Processes can communicate only if they have the same /dev/shm. For an
// endpoint of a process with a different /dev/shm, Insert returns an error that states the reason.
//
// Only one goroutine at a time may use a domain and its endpoints. Wake is safe for concurrent use.
package shm
