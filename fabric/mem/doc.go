// Package mem is a datagram network inside one process: the provider "mem/local". It loses nothing
// but what overflows a receiver's queue, keeps the order of each sender, and needs no socket, so
// tests and benchmarks of the layers above measure and exercise those layers alone. It is also the
// smallest complete provider: read it before writing another one.
//
//	Post                                              Poll
//	buffer --copy--> [filter] --> inbox of receiver --copy--> buffer posted with Recv
//	                    |           (bounded; tail drop)
//	                    +--> held until Release
//
// A Network is one set of endpoints that reach each other. New makes a private one for a test; the
// package registers a default one, so that fabric.GetInfo finds "mem/local". Names are given in the
// order in which endpoints open, so a single-threaded test sees the same names in every run.
//
// It is strict where hardware is silent: posting a buffer for two uses at once, sending to a
// removed peer or with another domain's Addr are errors here, so that a test of the caller finds
// them.
//
// The Network's own methods may be called from any goroutine. A Domain and its Endpoints belong to
// one goroutine at a time, as fabric asks; different Domains of one Network may run concurrently,
// because every inbox has its lock (this package stands for the wire, the one place where domains
// meet).
package mem
