// Package mem is a datagram network inside one process, with the provider name "mem/local". The
// network drops only datagrams for which the receiver's queue has no room, and keeps the order of
// each sender. The network needs no socket, so that tests and benchmarks of higher layers exercise
// only those layers. Package mem is also an example of a small complete provider.
//
//	Post                                              Poll
//	buffer --copy--> [filter] --> inbox of receiver --copy--> buffer posted with Recv
//	                    |           (bounded; tail drop)
//	                    +--> held until Release
//
// A Network is a set of endpoints that reach each other. New makes a private network for a test.
// The package registers a default network, which fabric.GetInfo finds as "mem/local". Endpoint
// names are assigned in the order in which endpoints open, so that a single-threaded test gets
// the same names in every run.
//
// The provider reports misuse by its caller that network hardware may not detect. Examples of
// reported misuse are posting a buffer for two uses at once, sending to a removed peer, and using
// an Addr of another domain.
//
// The methods of Network may be called from any goroutine. A Domain and its Endpoints belong to one
// goroutine at a time, as package fabric requires. Different Domains of one Network may run
// concurrently, because every receive queue has its own lock.
package mem
