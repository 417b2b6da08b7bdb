//go:build unix

package net

import "syscall"

func setOption(fd uintptr, o option) error {
	return syscall.SetsockoptInt(int(fd), o.level, o.name, o.value)
}

func recvBuffer(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
}

func portable(errno syscall.Errno) syscall.Errno { return errno }

func isCut(error) bool { return false }
