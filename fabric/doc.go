// Package fabric is the vocabulary in which the transport speaks to its network: unconnected
// datagram endpoints, in libfabric's words, with calls that each carry a batch.
//
//	Info      what a provider offers: name, domain, MTU, queue depths (fi_info)
//	Domain    an open device: its arena of packet buffers, its address vector (fi_domain, fi_av)
//	Endpoint  a queue pair with its completion queues (fi_endpoint, fi_cq)
//	Arena     the packet buffers, outside the Go heap, registered once; a Buf is an index into it
//	Region    memory of the caller, registered so that a send can gather from it
//
// Values that cross the interface are plain numbers without Go pointers: they go to C as they are,
// the garbage collector never scans them, and nothing allocates per packet.
//
// A provider registers itself under a name (Register) from its package's init, as a database driver
// does; a program names the providers it wants by importing their packages. GetInfo asks all of
// them, and Choose picks one for a user who named none.
//
// One goroutine at a time may use a Domain and its Endpoints; only Waiter.Wake may be called from
// any goroutine.
package fabric
