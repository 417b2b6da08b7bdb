// Package tap opens TAP devices of Linux. A TAP device is an Ethernet interface of the kernel whose
// frames a program reads and writes.
//
//	kernel's network  <-- Queue.Write --  [Header | frame]  -- Queue.Read -->  the program
//
// If the device supports the kernel's virtio_net_hdr, each frame has a header of this type. With
// virtio_net_hdr, one system call transfers a large TCP or UDP frame. Package offload splits and
// joins large frames. Open finds the supported features of the kernel by trying them. The queues of
// a device share no state. Only one goroutine at a time may use a Queue. The functions and methods
// of package tap are safe for concurrent use, except the methods of Queue.
package tap
