// Package tap is Linux's TAP device: an Ethernet interface whose other end is a program.
//
//	kernel's network  <-- Queue.Write --  [Header | frame]  -- Queue.Read -->  the program
//
// Frames carry the kernel's virtio_net_hdr where the device can, so that large frames of TCP and
// UDP pass in one call: package offload cuts and joins them. The supported features of the kernel
// are found by trying. Queues share no state, and each belongs to one goroutine at a time. All
// other functions may be called from any goroutine.
package tap
