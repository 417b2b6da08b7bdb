//go:build linux

package recovery

import (
	"fmt"
	"time"

	"gobtl/test/netns"
)

// incastBytes is the size of the messages of an incast.
const incastBytes = 64 << 10

// incastTime is the longest time for the senders.
const incastTime = 15 * time.Second

// incast makes many hosts send to one host at once, through a router.
func (b *bench) incast() (points []point) {
	lab := netns.New(b.tb)
	router := lab.Host("router")
	router.Sysctl("net/ipv4/ip_forward", "1")
	to, exit := lab.Cable(lab.Host("receiver"), router, mtuBytes)
	to.Host.IP("route add default via " + exit.V4.String())
	from := make([]netns.Port, b.Senders)
	for i := range from {
		var side netns.Port
		from[i], side = lab.Cable(lab.Host(fmt.Sprintf("sender%d", i)), router, mtuBytes)
		from[i].Host.IP("route add default via " + side.V4.String())
	}
	for _, sys := range b.systems {
		if sys.Kind != "btl" {
			continue
		}
		setting := fmt.Sprintf("%d to 1", b.Senders)
		points = append(points, point{setting, sys.ID, func(s *Sample) error {
			return b.converge(s, sys, from, to)
		}})
	}
	return points
}

func (b *bench) converge(s *Sample, sys System, from []netns.Port, to netns.Port) error {
	clients := make([]party, 0, len(from))
	for i, at := range from {
		c := b.send(sys, at, 0, "stream", incastBytes)
		c.sp.Tag, c.sp.Warm, c.sp.Each = i, 0, incastTime
		c.sp.Outstanding = 64
		c.sp.LimitBytes = b.IncastBytes
		clients = append(clients, c)
	}
	o, err := play([]party{b.serve(sys, to, false)}, clients, incastTime+slack)
	if err != nil {
		return err
	}
	server := o.servers[0]
	begin, end, first := o.clients[0].Start, o.clients[0].End, o.clients[0].End
	complete, total := 0, 0.0
	for i, c := range o.clients {
		begin, end, first = min(begin, c.Start), max(end, c.End), min(first, c.End)
		if c.Bytes >= b.IncastBytes {
			complete++
		}
		total += upTo(server.Ticks, i, c.End)
		s.note(fmt.Sprintf("sender %d", i+1), c)
	}
	s.note("receiver", server)
	// Fairness is computed at the time when the first sender has finished.
	shares := make([]float64, len(from))
	for i := range shares {
		shares[i] = upTo(server.Ticks, i, first)
	}
	s.Values["complete"] = float64(complete)
	s.Values["seconds"] = float64(end-begin) / 1e9
	s.Values["goodput_MBps"] = total / float64(end-begin) * 1e3
	s.Values["jain"] = jain(shares)
	s.Values["overruns"] = float64(server.Counters["overruns"])
	s.Values["resent_pct"] = resent(o.clients...)
	return nil
}
