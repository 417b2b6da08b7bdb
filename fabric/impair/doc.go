// Package impair makes a good network bad: it wraps the Domain of any provider and loses, repeats,
// reorders, delays, corrupts and cuts off the datagrams that arrive there, at rates and from a seed
// that the caller chooses. It works on the receiving side only: each end of a connection impairs
// what comes to it.
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
// The inner endpoint receives into buffers that the caller never sees (Reserve asks for them, the
// arena that the caller gets is shrunk by them). So what is held back takes none of the caller's
// buffers, and a repeated datagram needs no free one. The price is one copy per datagram.
//
// The same seed and the same sequence of arrivals give the same faults. The generator is a PCG for
// each endpoint, numbered in the order in which the endpoints of the domain are opened.
//
// A Domain belongs to one goroutine at a time, as fabric asks; Counts and Wake may be called from
// any.
package impair
