//go:build linux

package agent

import (
	"math"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// The kernel keeps the datagrams to a neighbour that does not answer ARP for up to three seconds,
// and counts them towards the send buffer of the sender's socket. Packets to hosts without power
// would thus fill the send buffer, and stop the packets to all other hosts. All silent hosts
// (vnic.PathSearch.Silent) together therefore get only a part of the send buffer.

const (
	// Packets to silent hosts may fill one part in quietSendPart of the send buffer.
	quietSendPart = 4
	// rareProbes is the number of size probes and answers in a second that silent hosts get while
	// their part of the send buffer is full.
	rareProbes = 20
)

// kernelBytes returns an upper bound of the bytes of the send buffer that a packet takes.
func kernelBytes(packetBytes int) int { return 2*packetBytes + 1024 }

// quietRoom limits the packets of one sender to silent hosts. The sender's lock guards a quietRoom.
type quietRoom struct {
	agent   *Agent
	backlog fabric.Backlogger // nil if the fabric has none
	room    int               // bytes of the send buffer that packets to silent hosts may still use
	known   bool              // the field room is valid
}

// admits reports whether packets may be sent to a host. The argument bytes is the number of bytes
// of the send buffer that the packets take.
func (q *quietRoom) admits(lid uint32, bytes int) bool {
	if !q.agent.isSilent(lid) {
		return true
	}
	if !q.known {
		q.known, q.room = true, math.MaxInt
		if q.backlog != nil {
			if used, size := q.backlog.Backlog(); size > 0 {
				q.room = size/quietSendPart - used
			}
		}
	}
	q.room -= bytes
	return q.room >= 0
}

// isSilent reports whether a host answers no probes. Any thread may call isSilent.
func (a *Agent) isSilent(lid uint32) bool {
	silent := a.silent.Load()
	return silent != nil && (*silent)[lid]
}

// tellSilent tells the senders which hosts are silent.
func (a *Agent) tellSilent() {
	a.silenceChanged = false
	var silent map[uint32]bool
	for lid, s := range a.paths {
		if s.Silent() {
			if silent == nil {
				silent = make(map[uint32]bool)
			}
			silent[lid] = true
		}
	}
	if silent == nil {
		a.silent.Store(nil)
		return
	}
	a.silent.Store(&silent)
}

// rate counts events, to bound their number in a second.
type rate struct {
	since mono.Time // start of the present second
	n     int
}

// The method take counts an event, and reports whether the present second has at most the given
// number of events.
func (r *rate) take(now mono.Time, most int) bool {
	if now.Sub(r.since) >= time.Second {
		r.since, r.n = now, 0
	}
	r.n++
	return r.n <= most
}
