package stream

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// The end of a sender: the reports of its receivers, or an error.

// awaitReports ends the stream when every receiver has sent its report.
func (s *Sender) awaitReports(now mono.Time) {
	ready, _ := s.alive()
	switch {
	case ready == 0:
		s.over(s.lost)
	case now.Sub(s.quiet()) > s.cfg.Timeout+time.Second+s.grace():
		s.fail(fmt.Errorf("%w: no report from %d receivers", ErrTimeout, ready))
	case now.Sub(s.ended) > endTimeouts*s.cfg.Timeout+s.grace():
		s.fail(fmt.Errorf("%w: no report from %d receivers, though they go on", ErrTimeout, ready))
	}
}

// endTimeouts bounds the wait for receivers that report progress after the end, in units of
// Config.Timeout. Such receivers still read datagrams from their sockets for which they had no free
// region before.
const endTimeouts = 30

// grace returns the longest time for which any receiver waits for datagrams on their way.
func (s *Sender) grace() (d time.Duration) {
	for _, k := range s.links {
		if k.state == linkReady {
			d = max(d, k.grace)
		}
	}
	return d
}

// quiet returns the instant since which no receiver has made progress after the end.
func (s *Sender) quiet() mono.Time {
	t := s.ended
	for _, k := range s.links {
		if k.state == linkReady {
			t = max(t, k.heard)
		}
	}
	return t
}

// fail ends the stream with an error, and tells the receivers.
func (s *Sender) fail(err error) {
	if s.state == stateDone {
		return
	}
	s.dismiss(err)
	s.over(err)
}

// dismiss tells the remaining receivers why the stream ends.
func (s *Sender) dismiss(err error) {
	for _, k := range s.links {
		if k.state != linkDone {
			s.e.abort(k.ep, s.key, "", err.Error())
			k.close(err)
		}
	}
}

// errOver is for receivers that came too late to take part.
var errOver = fmt.Errorf("%w: the stream is over", ErrClosed)

// over ends the stream.
func (s *Sender) over(err error) {
	if s.state == stateDone {
		return
	}
	if s.state == stateMeeting {
		close(s.started)
	}
	s.state = stateDone
	s.dismiss(errOver)
	if s.cast != nil {
		s.cast.close()
	}
	s.publish(s.e.now)
	s.lock.Lock()
	s.err = err
	s.lock.Unlock()
	if s.underWay == 0 {
		s.letGo()
	} else {
		s.e.lingering = append(s.e.lingering, s)
	}
	close(s.done)
}

// letGo returns the ring to the program after the last read of it.
func (s *Sender) letGo() {
	for ; s.seqLo < s.seqHi; s.seqLo++ { // of a stream that has failed
		s.ring.set(int(s.seqLo%uint64(s.ring.geo.Regions)), wordState, regionFree)
	}
	if s.cast != nil {
		s.cast.letGo()
	}
	for _, r := range s.registered {
		r.Close()
	}
	s.registered = nil
	s.ring.leave()
}

// prune forgets the ended links of a stream that receivers join and leave while it runs.
func (s *Sender) prune() {
	if !s.prunes {
		return
	}
	s.prunes = false
	s.links = slices.DeleteFunc(s.links, func(k *link) bool { return k.state == linkDone })
}
