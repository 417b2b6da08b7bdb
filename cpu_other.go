//go:build !linux

package gobtl

import "time"

// On systems other than Linux, useOfCPU returns the present time without the CPU usage, so that
// lostCPU attributes no delay to a lack of CPU time.
func useOfCPU() cpuUse { return cpuUse{at: time.Now()} }
