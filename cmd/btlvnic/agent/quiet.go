//go:build linux

package agent

import (
	"math"

	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// The kernel keeps the datagrams to a neighbour that does not answer ARP for up to three seconds,
// and counts them towards the send buffer of the sender's socket. Packets to hosts without power
// would thus fill the send buffer, and stop the packets to all other hosts. All silent hosts
// (vnic.PathSearch.Silent) together therefore get only a part of the send buffer.

const (
	// Packets to silent hosts may fill one part in quietSendPart of the send buffer.
	quietSendPart = 4
	// rareProbes is the number of size probes in a second that silent hosts get while their part of
	// the send buffer is full. They get as many answers, of which one host gets at most rareShare.
	rareProbes = 20
	rareShare  = 2
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
			used, size := q.backlog.Backlog()
			if size > 0 {
				q.room = size/quietSendPart - used
			}
			if used == 0 { // a frame can be larger than the part
				q.room = max(q.room, bytes)
			}
		}
	}
	if bytes > q.room {
		return false
	}
	q.room -= bytes
	return true
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

// The method rare reports whether a silent host gets a size probe or an answer although the part of
// the silent hosts is full.
func (a *Agent) rare(now mono.Time, lid uint32, kind uint8) bool {
	if kind == vnic.SizeAsks {
		return a.rareAsks.take(now, lid, rareProbes, rareProbes)
	}
	return a.rareTells.take(now, lid, rareProbes, rareShare)
}
