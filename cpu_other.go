//go:build !linux

package gobtl

import "time"

// useOfCPU returns only the present time, so each long delay is attributed to a handler, and not to
// a lack of CPU time.
func useOfCPU() cpuUse { return cpuUse{at: time.Now()} }
