package gobtl

import (
	"syscall"
	"time"
)

// useOfCPU returns the use of CPUs by this process until now.
func useOfCPU() cpuUse {
	use := cpuUse{at: time.Now()}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		use.time = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		use.taken = int64(r.Nivcsw) //nolint:unconvert // an int32 on 32-bit systems
	}
	return use
}
