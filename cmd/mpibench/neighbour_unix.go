//go:build unix

package main

import "golang.org/x/sys/unix"

// ownSession gives the process a session of its own.
func ownSession() error {
	_, err := unix.Setsid()
	return err
}

// beNice gives the process, on Linux the calling thread, the least share of the CPU.
func beNice() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
