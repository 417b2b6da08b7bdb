//go:build linux

package recovery

import "gobtl/test/netns"

// cleanTimes is how often each round repeats the measurement without loss, because many short
// measurements show small differences better than one long one.
const (
	cleanTimes = 2
	cleanShare = 2
)

// clean measures variants of gobtl on a cable without loss, one quantity after the other.
func (b *bench) clean() (points []point) {
	short := *b
	short.Each /= cleanShare
	from, to := b.cable(true)
	for _, measure := range []func(*Sample, System, netns.Port, netns.Port) error{
		short.pingPong, short.stream, short.rate,
	} {
		for _, sys := range b.systems {
			if sys.Kind == "btl" {
				points = append(points, point{"clean", sys.ID, func(s *Sample) error {
					return measure(s, sys, from, to)
				}})
			}
		}
	}
	return points
}

// rate measures messages of 8 bytes, in millions per second.
func (b *bench) rate(s *Sample, sys System, from, to netns.Port) error {
	servers, clients := apart(b.serve(sys, to, false), b.send(sys, from, 0, "stream", pingBytes))
	o, err := play(servers, clients, b.Each*5/4+slack)
	if err != nil {
		return err
	}
	c := o.clients[0]
	bytes := between(o.servers[0].Ticks, 0, c.Start, c.End)
	s.Values["rate_Mps"] = bytes / pingBytes / float64(c.End-c.Start) * 1e3
	s.note("rate sender", c)
	return nil
}
