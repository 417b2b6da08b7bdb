// Package impair makes a good network bad. The package wraps the Domain of any provider, and loses,
// duplicates, reorders, delays, corrupts and truncates the datagrams that arrive. The caller
// chooses the rates and a seed. Faults are made only on the receiving side, and each end of a
// connection impairs the datagrams that arrive there.
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
// The inner endpoint receives into hidden buffers that the caller never sees. Reserve adds the
// hidden buffers, and the caller's arena does not show them. Held datagrams therefore take none of
// the caller's buffers, and a duplicate needs no free buffer. The price is one copy per datagram.
//
// The same seed and the same sequence of arrivals give the same faults. Each endpoint has a PCG
// generator, numbered in the order in which the endpoints of the domain are opened.
//
// A Domain belongs to one goroutine at a time, as package fabric requires. Counts and Wake may be
// called from any goroutine.
package impair
