package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pinThread pins the calling thread to a CPU. The thread must be locked to its goroutine.
func pinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// processCPU returns the CPU time that the process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
