package session

import (
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// Served is what a server saw of the rounds of one kind of a client, warm-up included.
type Served struct {
	Test, Layer       string
	SizeBytes, Window int
	Rounds            int
	Result            RoundResult // sums
}

// servedMax bounds the kinds of rounds that a server remembers of a client.
const servedMax = 1024

// servedList is what a server saw of a client, in the order in which the kinds of rounds came.
type servedList []*Served

// add adds a round. Rounds of more kinds than servedMax are not remembered.
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

// later adds what the same side had in a later round.
func (r *RoundResult) later(o *RoundResult) {
	r.Tally.Add(&o.Tally)
	r.Usage.Add(o.Usage)
	r.Counters.Add(layers.Counters{
		SegmentsSent: o.Counters.SegmentsSent, Retransmits: o.Counters.Retransmits,
		Duplicates: o.Counters.Duplicates,
	})
	r.Sent += o.Sent
}
