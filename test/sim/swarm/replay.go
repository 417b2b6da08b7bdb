package swarm

import (
	"fmt"
	"io"

	"gobtl/fabric/sim"
	"gobtl/test/sim/trace"
)

// Replay runs a seed again, and writes all events as text to text and as a pcapng capture to
// capture, where either may be nil.
func Replay(seed uint64, opts Options, text, capture io.Writer) (Result, error) {
	var pcap *trace.Pcap
	if capture != nil {
		var err error
		if pcap, err = trace.NewPcap(capture); err != nil {
			return Result{}, err
		}
	}
	var lines *trace.Writer
	if text != nil {
		lines = trace.New(text, trace.Brief(), trace.Without(sim.KindSlow))
		opts.Note, opts.Life = lines.Note, lines.Life
	}
	opts.Observe = func(nw *sim.Network, e *sim.Event) {
		if lines != nil {
			lines.Event(nw, e)
		}
		if pcap != nil {
			pcap.Event(nw, e)
		}
	}
	res := Run(seed, opts)
	if lines != nil {
		if err := lines.Err(); err != nil {
			return res, fmt.Errorf("writing the trace: %w", err)
		}
	}
	if pcap != nil {
		if err := pcap.Flush(); err != nil {
			return res, fmt.Errorf("writing the capture: %w", err)
		}
	}
	return res, nil
}
