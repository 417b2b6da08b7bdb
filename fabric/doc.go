// Package fabric is the interface between the transport protocol and the network. The endpoints of
// package fabric are unconnected datagram endpoints, and each call of an endpoint processes a batch
// of datagrams. Package fabric uses the terms of libfabric.
//
//	Info      name, domain, MTU and queue depths that a provider offers (fi_info)
//	Domain    an open device with packet buffers and address vector (fi_domain, fi_av)
//	Endpoint  a queue pair with its completion queues (fi_endpoint, fi_cq)
//	Arena     the packet buffers in one block of memory, with a Buf as the index of a buffer
//	Region    memory of the caller, registered so that a send can gather from it
//
// The types Send, Completion and Buf contain no Go pointers. A provider can therefore pass slices
// of Sends, Completions and Bufs to C unchanged, and the garbage collector does not scan these
// slices.
//
// A provider registers itself under a name (Register) in the init function of its package, like a
// database driver. A program selects fabric providers by importing their packages. GetInfo asks all
// registered providers for the networks that they can reach. Choose selects one of the networks
// that GetInfo has found, if the user has not named a provider.
//
// One goroutine at a time may use a Domain and its Endpoints. Only Waiter.Wake, Hastener.Hasten and
// Arena.Drop are safe for concurrent use, and Sleeper.Sleep may run on a second goroutine.
package fabric
