// Package mem is a datagram network inside one process, with the provider name "mem/local". Without
// a Filter, the network of package mem drops a datagram only if the receiver's queue is full or the
// receiver is closed, and delivers the datagrams from each sender in order. The network of package
// mem uses no sockets, so that tests and benchmarks of the layers above package fabric run almost
// no code of the operating system. Package mem can serve as an example of a small but complete
// provider.
//
//	Post                                              Poll
//	buffer --copy--> [filter] --> inbox of receiver --copy--> buffer posted with Recv
//	                    |           (bounded; tail drop)
//	                    +--> held until Release
//
// A Network is a set of endpoints that can send datagrams to each other. New makes a private
// network for a test. Package mem registers a default network, which fabric.GetInfo finds as
// "mem/local". Endpoint names are assigned in the order in which endpoints open, so that a
// single-threaded test gets the same names in every run.
//
// Package mem reports some mistakes of its caller that network hardware would not necessarily
// detect. For example, package mem refuses a receive into a buffer that is in use, a send from a
// buffer that is posted for a receive, a send to a removed peer, and an Addr of a different domain.
//
// The methods of Network are safe for concurrent use. A Domain and its Endpoints belong to one
// goroutine at a time, as package fabric requires. Different goroutines may use different Domains
// of one Network concurrently, because every receive queue has its own lock.
package mem
