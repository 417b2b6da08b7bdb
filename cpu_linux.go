package gobtl

import (
	"syscall"
	"time"
)

// useOfCPU returns the CPU usage of this process from its start to the present time.
func useOfCPU() cpuUse {
	use := cpuUse{at: time.Now()}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		use.time = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		use.taken = int64(r.Nivcsw) //nolint:unconvert // an int32 on 32-bit systems
	}
	return use
}
