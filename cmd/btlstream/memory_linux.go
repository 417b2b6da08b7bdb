package main

import "golang.org/x/sys/unix"

// ringMemory allocates the memory of a ring. The kernel refuses what the machine does not have, or
// a limit forbids; Go's allocator would end the program instead.
func ringMemory(bytes int) ([]byte, error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	return unix.Mmap(-1, 0, bytes, prot, flags) // until the process ends
}
