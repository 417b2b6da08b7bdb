//go:build linux

package recovery

import "errors"

// clean measures variants of gobtl on a cable that loses nothing, with its offloads.
func (b *bench) clean() (points []point) {
	from, to := b.cable(true)
	for _, sys := range b.systems {
		if sys.Kind != "btl" {
			continue
		}
		points = append(points, point{"clean", sys.ID, func(s *Sample) error {
			err := b.pingPong(s, sys, from, to)
			err = errors.Join(err, b.stream(s, sys, from, to))
			servers, clients := apart(b.serve(sys, to, false), b.send(sys, from, 0, "stream", pingBytes))
			o, e := play(servers, clients, b.Each*5/4+slack)
			if e != nil {
				return errors.Join(err, e)
			}
			c := o.clients[0]
			bytes := between(o.servers[0].Ticks, 0, c.Start, c.End)
			s.Values["rate_Mps"] = bytes / pingBytes / float64(c.End-c.Start) * 1e3
			return err
		}})
	}
	return points
}
