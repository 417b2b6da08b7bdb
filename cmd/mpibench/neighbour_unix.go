//go:build unix

package main

import "golang.org/x/sys/unix"

// ownSession moves the process to a session of its own.
func ownSession() error {
	_, err := unix.Setsid()
	return err
}

// beNice gives the calling thread the lowest CPU priority. On systems other than Linux beNice
// applies to the whole process.
func beNice() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
