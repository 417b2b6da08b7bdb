// Package fabric is the interface between the transport and its network. The endpoints are
// unconnected datagram endpoints, the terms are those of libfabric, and each call processes a batch
// of datagrams.
//
//	Info      name, domain, MTU and queue depths that a provider offers (fi_info)
//	Domain    an open device with packet buffers and address vector (fi_domain, fi_av)
//	Endpoint  a queue pair with its completion queues (fi_endpoint, fi_cq)
//	Arena     the packet buffers outside the Go heap, with a Buf as the index of a buffer
//	Region    memory of the caller, registered so that a send can gather from it
//
// Values that cross the interface are plain numbers without Go pointers. A provider can pass plain
// numbers to C unchanged, the garbage collector does not scan them, and a packet needs no
// allocation.
//
// A provider registers itself under a name (Register) in the init function of its package,
// like a database driver. A program selects fabric providers by importing their packages.
// GetInfo asks all registered providers for their networks, and Choose selects one of them
// for a user who named none.
//
// One goroutine at a time may use a Domain and its Endpoints. Only Waiter.Wake may be called from
// any goroutine.
package fabric
