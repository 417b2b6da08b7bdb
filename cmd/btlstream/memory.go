package main

import (
	"fmt"

	"gobtl/stream"
)

// memoryLimit is the largest amount of memory that this process can have by one rule.
type memoryLimit struct {
	bytes uint64
	rule  string // such as "ulimit -v"
}

// checkMemory returns an error if this process cannot have the memory for its rings. Without this
// check, the kernel would grant the memory first, and would kill the process when it writes to the
// memory.
func (s *session) checkMemory() error {
	if s.c.Ring != "" { // stream.CreateRing allocates the whole file.
		return nil
	}
	return exceeds(s.c.geometry(), s.c.Streams, memoryLimits("/"))
}

// exceeds returns an error if the rings need more memory than the smallest of the limits.
func exceeds(g stream.Geometry, rings int, limits []memoryLimit) error {
	need := uint64(g.Bytes()) * uint64(rings)
	var least *memoryLimit
	for i := range limits {
		if l := &limits[i]; l.bytes < need && (least == nil || l.bytes < least.bytes) {
			least = l
		}
	}
	if least == nil {
		return nil
	}
	what := "the ring needs"
	if rings > 1 {
		what = fmt.Sprintf("the %d rings need", rings)
	}
	return fmt.Errorf("-m %d -b %d -c %d: %s %d MiB of memory, and the limit is %d MiB (%s)",
		g.MessageBytes, g.Regions, g.RegionMessages, what, (need+mebibyte-1)/mebibyte,
		least.bytes/mebibyte, least.rule)
}

const mebibyte = 1 << 20
