//go:build linux

package agent

import (
	"time"

	"gobtl/internal/mono"
)

// hostRate counts the packets of one kind in the present second: those of each host, and those of
// all hosts.
type hostRate struct {
	since mono.Time // start of the present second
	n     int
	of    map[uint32]int // by LID
}

// take counts a packet of the host with the given LID and returns true, unless the present second
// has the maximum of all hosts, or the maximum of one host, already.
func (r *hostRate) take(now mono.Time, lid uint32, mostOfAll, mostOfOne int) bool {
	if r.of == nil || now.Sub(r.since) >= time.Second {
		r.since, r.n, r.of = now, 0, make(map[uint32]int)
	}
	if r.n >= mostOfAll || r.of[lid] >= mostOfOne {
		return false
	}
	r.n++
	r.of[lid]++
	return true
}
