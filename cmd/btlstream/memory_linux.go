package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ringMemory allocates the memory of a ring. If the machine does not have the memory, or a limit
// forbids it, ringMemory returns an error instead of ending the program. If huge is set, the kernel
// provides as many huge pages as it can.
func ringMemory(bytes int, huge bool) ([]byte, error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	mem, err := unix.Mmap(-1, 0, bytes, prot, flags) // mapped until the process ends
	if err == nil && huge {
		if err = unix.Madvise(mem, unix.MADV_HUGEPAGE); err != nil {
			err = errors.Join(fmt.Errorf("--huge-pages: %w", err), unix.Munmap(mem))
		}
	}
	return mem, err
}
