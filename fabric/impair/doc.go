// Package impair injects network faults. The package wraps the Domain of any provider, and drops,
// duplicates, reorders, delays, corrupts and truncates arriving datagrams. The caller chooses the
// probabilities of the faults and a seed. Faults are injected only at the receiver, so each end
// of a connection needs its own wrapped Domain.
//
//	network -> inner endpoint -> hidden buffer
//	              | lost? the buffer goes back to the inner endpoint
//	              v
//	           one copy, or two; each cut off? corrupted?
//	              v
//	           reordered? held until 1 to 16 later datagrams have passed, or 1 ms
//	              v
//	           delayed? in line until its time has come
//	              v
//	           ready --copy--> a buffer that the caller posted with Recv
//
// The wrapped endpoint receives into hidden buffers that the caller never sees. Reserve
// adds the hidden buffers to the configuration, and the arena that the caller gets does not
// show them. A delayed or duplicated datagram uses none of the caller's buffers. The cost
// is one copy per datagram.
//
// The same seed and the same sequence of arrivals give the same faults. Each endpoint has its own
// PCG generator, which depends on the order in which the endpoints of the domain are opened.
//
// A Domain belongs to one goroutine at a time, as package fabric requires. Counts and Wake may be
// called from any goroutine.
package impair
