// Package offload does in user space what network cards do for the kernel: it cuts large frames of
// TCP and UDP into those of the wire, and joins those that arrived into large ones.
//
//	device --> large frame + Header --> Splitter --> frames of the MTU, checksums complete
//	frames that arrived --> Joiner --> large frame + Header --> device
//
// Header is the kernel's virtio_net_hdr. Only what can be restored exactly is joined: frames whose
// headers differ in nothing but lengths, numbers and checksums, with checksums that are right.
//
// There is no state between frames that belongs together, no clock and no goroutine; a Splitter and
// a Joiner belong to the goroutine that uses them, and allocate nothing.
package offload
