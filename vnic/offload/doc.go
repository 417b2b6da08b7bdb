// Package offload segments and joins TCP and UDP frames in user space, as network cards do for
// the kernel. Package offload splits large frames into frames of the MTU, and joins received
// frames into large frames.
//
//	device --> large frame + Header --> Splitter --> frames of the MTU, checksums complete
//	frames that arrived --> Joiner --> large frame + Header --> device
//
// Header is the kernel's virtio_net_hdr. Package offload joins frames only if the kernel can
// restore the original frames exactly from the large frame. The headers of joined frames may differ
// only in lengths, sequence numbers and checksums. The checksums of joined frames must be correct.
//
// Package offload reads no clock and starts no goroutine. Only one goroutine at a time may use a
// Splitter or a Joiner. Splitter and Joiner allocate no memory.
package offload
