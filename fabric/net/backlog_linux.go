package net

import (
	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

var _ fabric.Backlogger = (*endpoint)(nil)

// Backlog implements fabric.Backlogger. An endpoint of the provider "net" implements
// fabric.Backlogger only on Linux.
func (e *endpoint) Backlog() (usedBytes, sizeBytes int) {
	if e.closed {
		return 0, 0
	}
	var failed error
	err := e.out.raw.Control(func(fd uintptr) {
		if usedBytes, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); failed == nil {
			sizeBytes, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		}
	})
	if err != nil || failed != nil {
		return 0, 0
	}
	return usedBytes, sizeBytes
}
