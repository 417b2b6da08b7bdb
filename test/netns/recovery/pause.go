//go:build linux

package recovery

import (
	"time"

	"golang.org/x/sys/unix"
)

// pauseTime is the time for which the receiving process is stopped.
const pauseTime = 200 * time.Millisecond

// pause stops the receiving process in the middle of a stream without loss, which must neither end
// the connection nor make the sender retransmit everything.
func (b *bench) pause() (points []point) {
	from, to := b.cable(true)
	for _, sys := range b.systems {
		if sys.Kind == "rxd" || sys.ID == "fixed" {
			continue
		}
		points = append(points, point{pauseTime.String(), sys.ID, func(s *Sample) error {
			client := b.send(sys, from, 0, "stream", shareBytes)
			client.sp.Each += 2 * pauseTime
			var stopped, continued int64
			servers, clients := apart(b.serve(sys, to, false), client)
			o, err := playWhile(servers, clients, client.sp.Each+slack, func(servers []int) {
				time.Sleep(client.sp.Warm + b.Each/2)
				stopped = clockNs()
				_ = unix.Kill(servers[0], unix.SIGSTOP) // It may have ended.
				time.Sleep(pauseTime)
				continued = clockNs()
				_ = unix.Kill(servers[0], unix.SIGCONT)
			})
			if err != nil {
				return err
			}
			c, r := o.clients[0], o.servers[0]
			s.note("sender", c)
			s.note("receiver", r)
			rate := func(from, to int64) float64 {
				return between(r.Ticks, 0, from, to) / float64(max(1, to-from)) * 1e3
			}
			s.Values["before_MBps"] = rate(c.Start, stopped)
			s.Values["after_MBps"] = rate(continued, c.End)
			s.Values["resent"] = float64(c.Counters["resent"])
			s.Values["duplicates"] = float64(r.Counters["duplicates"])
			s.Values["overruns"] = float64(r.Counters["overruns"])
			// The value is the time until more bytes arrive than the socket had stored.
			for _, k := range r.Ticks {
				if k.T > continued && between(r.Ticks, 0, continued, k.T) > socketBytes {
					s.Values["back_ms"] = float64(k.T-continued) / 1e6
					break
				}
			}
			return nil
		}})
	}
	return points
}

// socketBytes is larger than the receiver's socket buffer.
const socketBytes = 8 << 20
