// Package offload does in user space what network cards do for the kernel: it cuts large frames of
// TCP and UDP into those of the wire, and joins those that arrived into large ones.
//
//	device --> large frame + Header --> Splitter --> frames of the MTU, checksums complete
//	frames that arrived --> Joiner --> large frame + Header --> device
//
// Header is the kernel's virtio_net_hdr. Frames are joined only if the originals can be restored
// exactly: their headers may differ only in lengths, sequence numbers and checksums, and the
// checksums must be correct.
//
// The package has no clock and no goroutine. A Splitter and a Joiner belong to the goroutine that
// uses them, and allocate nothing.
package offload
