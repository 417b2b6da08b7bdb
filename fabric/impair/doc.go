// Package impair injects network faults. Package impair wraps the Domain of any provider, and
// drops, duplicates, reorders, delays, corrupts and truncates arriving datagrams. The caller
// chooses the probabilities of the faults and a seed. Package impair injects faults only at the
// receiver. For faults in both directions of a connection, each of the two sides must wrap its
// Domain.
//
//	network --> inner endpoint --> hidden buffer
//	              | lost? the buffer goes back to the inner endpoint
//	              v
//	           one copy, or two, each cut off? corrupted?
//	              v
//	           reordered? held until 1 to 16 later datagrams have passed, or 1 ms
//	              v
//	           delayed? in line until its time has come
//	              v
//	           ready --copy--> a buffer that the caller posted with Recv
//
// The inner endpoint (of the wrapped Domain) receives into hidden buffers, which are outside the
// arena that the caller gets. The function Reserve adds buffers, which are hidden from the caller,
// to the configuration of the wrapped Domain. A delayed or duplicated datagram waits in a hidden
// buffer of package impair, and not in a buffer of the caller. Poll copies each datagram once, from
// the hidden buffer to a buffer of the caller.
//
// The same seed and the same sequence of arrivals give the same faults. Each endpoint has its own
// random number generator (PCG). The seed of an endpoint's generator consists of Faults.Seed and
// the number of endpoints that the Domain opened before this endpoint.
//
// A Domain belongs to one goroutine at a time, as package fabric requires. Only the methods Counts
// and Wake of a Domain are safe for concurrent use.
package impair
