// Package mem is a datagram network inside one process, with the provider name "mem/local". The
// network loses only datagrams that overflow a receiver's queue, and keeps the order of each
// sender. The network needs no socket, and therefore tests and benchmarks of higher layers exercise
// those layers alone. Package mem is also the smallest complete provider, and a model for other
// providers.
//
//	Post                                              Poll
//	buffer --copy--> [filter] --> inbox of receiver --copy--> buffer posted with Recv
//	                    |           (bounded; tail drop)
//	                    +--> held until Release
//
// A Network is one set of endpoints that reach each other. New makes a private network for a test.
// The package registers a default network, which fabric.GetInfo finds as "mem/local". Names are
// given in the order in which endpoints open, and a single-threaded test sees the same names in
// every run.
//
// The provider reports misuse that hardware may not detect. Posting a buffer for two uses at once,
// sending to a removed peer, and using another domain's Addr are errors. A test of the caller
// therefore finds such misuse.
//
// The methods of Network may be called from any goroutine. A Domain and its Endpoints belong to one
// goroutine at a time, as package fabric requires. Different Domains of one Network may run
// concurrently, because every inbox has its own lock.
package mem
