package swarm

import (
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/test/sim/attacker"
)

// Result is the outcome of one run, or the sum of many outcomes.
type Result struct {
	Seed uint64
	Err  error // the first violation
	Hash uint64

	Runs      uint64
	Packets   uint64
	Steps     uint64        // events of the network
	Virtual   time.Duration // how long the run took there
	Drained   time.Duration // how long phase 2 took; of a sum the longest
	Share     float64       // Drained of its limit; of a sum the largest
	Messages  uint64
	Delivered uint64
	Failed    uint64 // sends that ended with an error
	Unjudged  uint64 // messages of tainted pairs
	// SureConnects counts undisturbed handshakes, which had to succeed. DeadJudged counts dead
	// peers that had to be detected in time.
	SureConnects, DeadJudged uint64
	Ends                     uint64
	Connected                uint64
	Restarts                 int
	Kept, Moved              uint64 // connection requests
	Wraps                    [numWraps]uint64
	Packs                    [numPackKinds]uint64
	Ops                      [numOpKinds]uint64
	Counts                   sim.Counts
	Incidents                [numIncidents]uint64
	Attacks                  [attacker.NumModes]uint64
	Acts                     map[string]uint64 // packets of attackers by what they are
	Stats                    Stats
}

// Stats holds the sums of the modules' counters.
type Stats [256]uint64

// Get returns one counter.
func (s *Stats) Get(c btl.Counter) uint64 { return s[c] }

// Add adds another run's result.
func (r *Result) Add(o *Result) {
	r.Runs += max(1, o.Runs)
	r.Packets += o.Packets
	r.Steps += o.Steps
	r.Virtual += o.Virtual
	r.Drained = max(r.Drained, o.Drained)
	r.Share = max(r.Share, o.Share)
	r.Messages += o.Messages
	r.Delivered += o.Delivered
	r.Failed += o.Failed
	r.Unjudged += o.Unjudged
	r.SureConnects += o.SureConnects
	r.DeadJudged += o.DeadJudged
	for act, n := range o.Acts {
		if r.Acts == nil {
			r.Acts = map[string]uint64{}
		}
		r.Acts[act] += n
	}
	r.Ends += o.Ends
	r.Connected += o.Connected
	r.Restarts += o.Restarts
	r.Kept += o.Kept
	r.Moved += o.Moved
	for i := range r.Wraps {
		r.Wraps[i] += o.Wraps[i]
	}
	for i := range r.Ops {
		r.Ops[i] += o.Ops[i]
	}
	for i := range r.Packs {
		r.Packs[i] += o.Packs[i]
	}
	for i := range r.Counts {
		r.Counts[i] += o.Counts[i]
	}
	for i := range r.Incidents {
		r.Incidents[i] += o.Incidents[i]
	}
	for i := range r.Attacks {
		r.Attacks[i] += o.Attacks[i]
	}
	for i := range r.Stats {
		r.Stats[i] += o.Stats[i]
	}
}

// Missing names the features that many runs together should have used and have not.
func (r *Result) Missing() []string {
	var missing []string
	lack := func(name string, n uint64) {
		if n == 0 {
			missing = append(missing, name)
		}
	}
	for k := range sim.NumKinds {
		switch k {
		case sim.KindFiltered, sim.KindProcessError: // for scripts; a violation
		default:
			lack(k.String(), r.Counts[k])
		}
	}
	for k := range numIncidents {
		lack("incident: "+k.String(), r.Incidents[k])
	}
	for m := range attacker.NumModes {
		lack("attack: "+m.String(), r.Attacks[m])
	}
	for i, n := range r.Wraps {
		lack("wrap of "+WrapNames[i], n)
	}
	for i, n := range r.Ops {
		lack(OpNames[i], n)
	}
	for i, n := range r.Packs {
		lack(PackNames[i], n)
	}
	for _, c := range []btl.Counter{
		btl.CntRetransmitTimeout, btl.CntRetransmitDupAck, btl.CntRetransmitNack, btl.CntRetransmitLost,
		btl.CntRetransmitProbe, btl.CntSpurious, btl.CntThrottled, btl.CntSendsPacked,
		btl.CntRecordsDropped, btl.CntLanded, btl.CntLandedPut, btl.CntPeersReliable, btl.CntAsked,
		btl.CntDropLost, btl.CntWithheld, btl.CntLoneAnswers, btl.CntRequestsDecided,
		btl.CntRequestsLapsed,
	} {
		lack(c.String(), r.Stats[c])
	}
	lack("restarts", uint64(r.Restarts))
	lack("kept connection requests", r.Kept)
	lack("moved connection requests", r.Moved)
	lack("bit flips that no checksum finds", r.Counts[sim.KindBitFlip]-r.Counts[sim.KindChecksum])
	lack("handshakes that had to succeed", r.SureConnects)
	lack("dead peers that had to be noticed in time", r.DeadJudged)
	for _, act := range attacker.Kinds() {
		lack("attack: "+act, r.Acts[act])
	}
	return missing
}
