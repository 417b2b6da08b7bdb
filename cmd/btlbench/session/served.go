package session

import (
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// Served has the measurements of a server for the rounds of one kind of a client, including the
// warm-up.
type Served struct {
	Test, Layer       string
	SizeBytes, Window int
	Rounds            int
	Result            RoundResult // sums
}

// servedMax is the largest number of kinds of rounds that a server stores for a client.
const servedMax = 1024

// servedList has the measurements for a client, in the order in which the kinds of rounds came.
type servedList []*Served

// add adds a round. If there are more than servedMax kinds, further kinds are not stored.
func (l *servedList) add(spec *plan.Spec, result *RoundResult) {
	for _, s := range *l {
		if s.Test == spec.Test && s.Layer == spec.Layer && s.SizeBytes == spec.SizeBytes &&
			s.Window == spec.Window {
			s.Rounds++
			s.Result.later(result)
			return
		}
	}
	if len(*l) < servedMax {
		s := &Served{
			Test: spec.Test, Layer: spec.Layer, SizeBytes: spec.SizeBytes, Window: spec.Window, Rounds: 1,
		}
		s.Result.later(result)
		*l = append(*l, s)
	}
}

// The method later adds the measurements of the same side in a later round.
func (r *RoundResult) later(o *RoundResult) {
	r.Tally.Add(&o.Tally)
	r.Usage.Add(o.Usage)
	r.Counters.Add(layers.Counters{
		SegmentsSent: o.Counters.SegmentsSent, Retransmits: o.Counters.Retransmits,
		Duplicates: o.Counters.Duplicates,
	})
	r.Sent += o.Sent
}
