package stream

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// The methods below end a sender's stream, after the reports of the receivers or after an error.

// awaitReports ends the stream when each receiver has sent its report, or when the time for the
// reports is over.
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

// endTimeouts is the longest wait, in units of Config.Timeout, for receivers that report progress
// after the end of sending.
const endTimeouts = 30

// grace returns the longest Grace of the receivers.
func (s *Sender) grace() (d time.Duration) {
	for _, k := range s.links {
		if k.state == linkReady {
			d = max(d, k.grace)
		}
	}
	return d
}

// quiet returns the latest time at which a receiver has made progress after the end of sending.
func (s *Sender) quiet() mono.Time {
	t := s.ended
	for _, k := range s.links {
		if k.state == linkReady {
			t = max(t, k.heard)
		}
	}
	return t
}

func (s *Sender) fail(err error) {
	if s.state == stateDone {
		return
	}
	s.dismiss(err)
	s.over(err)
}

// dismiss sends the reason for the stream's end to the remaining receivers.
func (s *Sender) dismiss(err error) {
	for _, k := range s.links {
		if k.state != linkDone {
			s.e.abort(k.ep, s.key, "", err.Error())
			k.close(err)
		}
	}
}

// errOver is sent to receivers that connect too late to join the stream.
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

func (s *Sender) letGo() {
	for ; s.seqLo < s.seqHi; s.seqLo++ { // regions that a failed stream has not sent
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

func (s *Sender) prune() {
	if !s.prunes {
		return
	}
	s.prunes = false
	s.links = slices.DeleteFunc(s.links, func(k *link) bool { return k.state == linkDone })
}
