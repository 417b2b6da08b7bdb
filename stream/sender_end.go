package stream

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// The methods below end a sender's stream, either when the receivers have sent their final counters
// (reports) or when an error has occurred.

// awaitReports ends the stream when each receiver has sent its final counters (report), or when the
// time limits for the reports are over. Each receiver has its own time limit, so that a slow
// receiver does not change the sender's result for a different receiver.
func (s *Sender) awaitReports(now mono.Time) {
	for _, k := range s.links {
		if k.state == linkReady && !k.late {
			s.awaited = now
		}
	}
	for _, k := range s.links {
		if k.state != linkReady {
			continue
		}
		if err := k.overdue(now); err != nil {
			s.e.abort(k.ep, s.key, "", err.Error())
			k.fail(err)
		}
	}
	if ready, _ := s.alive(); ready == 0 {
		s.over(s.lost)
	}
}

// endTimeouts limits how long the sender waits for the final report of a receiver of the unreliable
// mode that still makes progress (noticeTaken), because the receiver still reads datagrams from its
// socket buffer. The wait for the report ends at the latest endTimeouts times Config.Timeout, plus
// the receiver's Config.Grace, after the sender has sent all messages. In the reliable mode, all
// messages have arrived before the end message, and a receiver cannot prolong the wait.
const endTimeouts = 30

// The method "overdue" returns an error if the time limit for the receiver's final report is over,
// and otherwise nil. The sender waits for a receiver that has joined after the start until at most
// Config.Timeout after the last report of a receiver that was ready at the start. If the stream has
// started without waiting for receivers, the time limit is the same for all receivers.
func (k *link) overdue(now mono.Time) error {
	s := k.s
	switch {
	case k.late && s.cfg.Receivers > 0 && now.Sub(s.awaited) > s.cfg.Timeout:
		return errOver
	case now.Sub(max(s.ended, k.heard)) > s.cfg.Timeout+time.Second+k.grace:
		return fmt.Errorf("%w: no report from the receiver %s", ErrTimeout, k.ep.PeerAddress())
	case now.Sub(s.ended) > endTimeouts*s.cfg.Timeout+k.grace:
		return fmt.Errorf("%w: no report from the receiver %s, though it goes on", ErrTimeout,
			k.ep.PeerAddress())
	}
	return nil
}

func (s *Sender) fail(err error) {
	if s.state == stateDone {
		return
	}
	s.dismiss(err)
	s.over(err)
}

// dismiss sends the argument err to the remaining receivers, as the reason for the end of the
// stream, and closes the links to these receivers.
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

// The method "over" ends the stream.
func (s *Sender) over(err error) {
	if s.state == stateDone {
		return
	}
	if s.state == stateMeeting {
		close(s.started)
	}
	s.state, s.overAt = stateDone, s.e.now
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

// expirePuts closes the connections to the receivers that have not acknowledged all puts of an
// ended stream within Config.Timeout. The program must not reuse the ring of an ended stream until
// the transport has completed or cancelled all puts.
func (s *Sender) expirePuts(now mono.Time) {
	if now < s.expiresAt() {
		return
	}
	for _, k := range s.e.links {
		if k != nil && k.s == s && k.putLo < k.putHi {
			k.ep.Abort()
		}
	}
}

// expiresAt returns the earliest time at which expirePuts closes connections with unacknowledged
// puts.
func (s *Sender) expiresAt() mono.Time { return s.overAt.Add(s.cfg.Timeout) }

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
