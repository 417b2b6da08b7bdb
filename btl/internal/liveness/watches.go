package liveness

import (
	"errors"
	"time"

	"gobtl/hotel"
	"gobtl/internal/seq"
)

// An endpoint has one timer. The meaning of the timer depends on the endpoint's state: onTimer
// takes the action of the first condition that holds:
//
//	a reliable fabric could not carry a packet   the end, at once
//	half open                                    the end: the peer has not proven its address
//	closed by the peer                           the end of repeating the last ACK
//	closing                                      the end of a close that does not get on
//	handshake under way                          the next round of Hellos, or its end; at once if
//	                                             it begins again under another tag
//	superseded                                   the next question whether the peer is there still
//	an answer owed on a counted link             the next question for it
//	else                                         the next keep-alive question

// Watch is an endpoint's timer, its purpose, and the record of the peer's signs of life.
type Watch struct {
	Peer
	room       hotel.Room // of the timer; 0: it does not run
	askedAt    Time       // when the latest question for a confirmation left
	asked      seq.Num    // number of the packet behind it
	superseded bool       // the peer has connected anew: it ends with its bye, or without an answer
	asks       bool       // the timer asks for a sign of life while the peer owes answers
	watched    bool       // the timer is that of Watches.Watch
	takes      bool       // the peer has said, or shown by an Ack, that it is established
	missed     bool       // a packet came too early, with credits perhaps: they are to be asked for
	broken     bool       // the fabric could not carry a packet
}

// Superseded reports whether the peer has connected anew.
func (w *Watch) Superseded() bool { return w.superseded }

// Runs reports whether the timer runs.
func (w *Watch) Runs() bool { return w.room != 0 }

// Watched reports whether the timer waits for an outstanding acknowledgement.
func (w *Watch) Watched() bool { return w.watched }

// MayWatch reports whether Watches.Watch may set the timer for an acknowledgement that becomes
// due now. The caller must know that the endpoint is not closing, and that no handshake is in
// progress.
func (w *Watch) MayWatch() bool { return !w.watched && !w.superseded && !w.broken }

// Early notes that a packet arrived before this side was established. The packet may have
// carried credits.
func (w *Watch) Early() { w.missed = true }

// Confirmed notes that the peer has shown by an Ack that it is established.
func (w *Watch) Confirmed() { w.takes, w.missed = true, false }

// BeginAgain forgets the statements of the peer's endpoint, because the handshake begins again
// with another endpoint of the peer.
func (w *Watch) BeginAgain() { w.takes, w.missed = false, false }

// Watches holds the timers of an owner's endpoints, and probes peers for signs of life.
type Watches[E comparable] struct {
	Rules  Rules
	host   Host[E]
	of     func(E) (w *Watch, slot uint32)
	timers *hotel.Hotel[uint32]
	// closeTimeout is how long a close may go on without a new ACK.
	closeTimeout time.Duration
	silentAt     Time // when silent peers may be asked again for what others want
}

// helloIntervalMax is the maximum interval between probes of a peer that may not be
// established.
const helloIntervalMax = 500 * time.Millisecond

// Init prepares Watches for at most endpointsMax endpoints. Function of returns an endpoint's
// Watch and slot.
func (s *Watches[E]) Init(
	host Host[E], of func(E) (*Watch, uint32), endpointsMax int, rules Rules,
	closeTimeout time.Duration,
) (err error) {
	s.host, s.of, s.Rules, s.closeTimeout = host, of, rules, closeTimeout
	s.timers, err = hotel.New[uint32](hotel.Config{Rooms: endpointsMax})
	return err
}

func (s *Watches[E]) watchOf(ep E) *Watch {
	w, _ := s.of(ep)
	return w
}

// Len is the number of running timers.
func (s *Watches[E]) Len() int { return s.timers.Len() }

// Deadline is the instant at which the first timer expires.
func (s *Watches[E]) Deadline() Time { return s.timers.Deadline() }

// Check verifies that the running timer of an endpoint belongs to that endpoint.
func (s *Watches[E]) Check(ep E) error {
	w, slot := s.of(ep)
	if guest, ok := s.timers.Knock(w.room); !ok || guest != slot {
		return errors.New("its timer is not its own")
	}
	return nil
}

// Set sets the endpoint's only timer to expire after d.
func (s *Watches[E]) Set(ep E, d time.Duration) {
	w, slot := s.of(ep)
	s.clear(w)
	room, err := s.timers.Checkin(s.host.Clock(), d, slot)
	if err != nil {
		// Each endpoint has one timer, and the hotel has a room for each endpoint.
		panic("liveness: no room for an endpoint's timer: " + err.Error())
	}
	w.room = room
}

// Clear stops the endpoint's timer.
func (s *Watches[E]) Clear(ep E) { s.clear(s.watchOf(ep)) }

func (s *Watches[E]) clear(w *Watch) {
	s.timers.Checkout(w.room)
	w.room = 0
	w.watched = false
}

// Take moves the timer and the record of half to ep, which replaces half.
func (s *Watches[E]) Take(ep, half E) {
	w, h := s.watchOf(ep), s.watchOf(half)
	s.clear(w)
	*w = *h
	h.room = 0
}

// Resume starts the timer of a connected endpoint, if it needs one.
func (s *Watches[E]) Resume(ep E) {
	w, v := s.watchOf(ep), s.host.View(ep)
	w.asks = false // the previous purpose of the timer is over
	switch {
	case v.Closing:
		s.Set(ep, s.closeTimeout-s.host.Now().Sub(max(w.AckedAt(), v.CloseAt)))
	case w.superseded:
		s.Set(ep, s.supersededTimeout(w, &v))
	case v.Owed():
		s.Watch(ep, s.Rules.AskEvery())
	case v.Asks:
		s.WatchAsks(ep)
	case s.Rules.KeepAlive > 0:
		s.Set(ep, s.Rules.KeepAlive/2)
	default:
		s.Clear(ep)
	}
}

// Expire handles the timers that have expired.
func (s *Watches[E]) Expire() {
	for {
		slot, _, ok := s.timers.Evict(s.host.Clock())
		if !ok {
			return
		}
		ep := s.host.At(slot)
		w := s.watchOf(ep)
		w.room, w.watched = 0, false
		s.onTimer(ep, w)
	}
}

func (s *Watches[E]) onTimer(ep E, w *Watch) {
	switch v := s.host.View(ep); {
	case w.broken && v.Connected:
		s.host.End(ep, WhyBroken, Verdict{})
	case v.Accepting:
		s.host.End(ep, WhyUnproven, Verdict{})
	case v.Lingering:
		s.host.End(ep, WhyLingered, Verdict{})
	case v.Closing && v.Connected:
		s.onClose(ep, w, &v)
	case v.Handshaking && v.Connected && v.Counted:
		s.onUnconfirmed(ep, w)
	case v.Handshaking:
		s.host.Handshake(ep)
	case w.superseded:
		s.onSuperseded(ep, w, &v)
	case v.Owed():
		s.onWatch(ep, w, &v)
	case v.Counted && s.Rules.KeepAlive < 0 && !w.Pressed() && !v.Asks:
		// The timer was for packets that are acknowledged by now.
	default:
		s.onKeepAlive(ep, w, &v)
	}
}

// onClose ends a close that has had no new ACK for closeTimeout. Other packets of the peer do
// not prolong the time. If the peer may be half open, onClose tells the peer that the
// connection is established.
func (s *Watches[E]) onClose(ep E, w *Watch, v *View) {
	quiet := s.host.Now().Sub(max(w.AckedAt(), v.CloseAt))
	if quiet >= s.closeTimeout {
		s.host.End(ep, WhyClosed, Verdict{})
		return
	}
	left := s.closeTimeout - quiet
	if v.Handshaking {
		left = min(left, s.host.ConfirmAgain(ep))
	}
	s.Set(ep, left)
}

// askAgain reports whether to probe a silent peer again, which means that the peer is not dead,
// and counts the probe. If the previous probe had no answer, askAgain also asks whether the
// peer has restarted.
func (s *Watches[E]) askAgain(ep E, w *Watch, verdict *Verdict) bool {
	if verdict.Dead {
		return false
	}
	if w.Asked() {
		s.AskLife(ep)
	}
	return true
}

// AskLife asks whether another incarnation of the peer now has the address of a silent peer.
func (s *Watches[E]) AskLife(ep E) {
	w, v, now := s.watchOf(ep), s.host.View(ep), s.host.Now()
	if !v.Connected || v.Handshaking || !w.MayAskLife(now) {
		return
	}
	nonce := w.LifeNonce()
	if nonce == 0 {
		nonce = s.host.Random()
	}
	w.AskedLife(now, nonce)
	s.host.AskLife(ep, nonce)
}

// askSign probes the peer for a sign of life through a channel.
func (s *Watches[E]) askSign(ep E, w *Watch, channel int) {
	s.host.Ask(ep, channel)
	w.AskedBy(channel, s.host.Now(), s.host.Sent(ep)[channel])
}

// keepChannels probes through the channels that have been silent for too long, and returns the
// time until its next call. A counted connection sends all packets except ACKs on one channel,
// and crosses no firewall, so only that channel is probed.
func (s *Watches[E]) keepChannels(ep E, w *Watch, v *View) time.Duration {
	channels := Channels
	if v.Counted {
		channels = 1
	}
	ask, next := w.SilentChannels(s.host.Now(), &s.Rules, s.host.Sent(ep), channels)
	for channel := range Channels {
		if ask[channel] {
			s.askSign(ep, w, channel)
		}
	}
	return next
}

// onKeepAlive probes a silent peer, and ends the endpoint of a peer without an answer for
// PeerTimeout.
func (s *Watches[E]) onKeepAlive(ep E, w *Watch, v *View) {
	now := s.host.Now()
	if s.pressForAnswer(ep, w, v, w.Quiet(now)) {
		s.keepChannels(ep, w, v)
		return
	}
	switch due := w.SignDue(now, &s.Rules); due {
	case 0:
	case Forever:
		return
	default:
		s.Set(ep, min(due, s.keepChannels(ep, w, v)))
		return
	}
	verdict := w.Verdict(now, &s.Rules, Sign, 0)
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, verdict)
		return
	}
	s.askSign(ep, w, 0)
	s.Set(ep, verdict.Next(min(s.Rules.PressAfter(), s.keepChannels(ep, w, v))))
}

// pressForAnswer reports whether a peer that owes an answer was heard recently, so that no
// probe is due. A silent peer that owes an answer is probed even before KeepAlive.
func (s *Watches[E]) pressForAnswer(ep E, w *Watch, v *View, quiet time.Duration) bool {
	if w.asks = v.Asks; !w.asks {
		return false
	}
	if quiet < s.Rules.PressAfter() {
		s.Set(ep, s.Rules.PressAfter()-quiet)
		return true
	}
	w.Press()
	return false
}

// WatchAsks starts probes of a silent peer that owes an answer to an operation. There may be no
// packet in flight whose timer would detect the death of the peer.
func (s *Watches[E]) WatchAsks(ep E) {
	w := s.watchOf(ep)
	if w.asks && w.room != 0 {
		return
	}
	v := s.host.View(ep)
	switch {
	case v.Closing || v.Handshaking || v.Owed() && !w.superseded:
	case w.superseded:
		w.asks = true
		s.Set(ep, s.supersededTimeout(w, &v))
	default:
		w.asks = true
		s.Set(ep, s.Rules.PressAfter())
	}
}

// AskSilent probes the silent endpoints for which holds returns true, before KeepAlive is over.
// The caller selects endpoints that hold a scarce resource. AskSilent scans all endpoints, so it
// scans only at intervals of PressAfter.
func (s *Watches[E]) AskSilent(holds func(E) bool) {
	now := s.host.Now()
	if now < s.silentAt {
		return
	}
	var none E
	silence := s.Rules.PressAfter()
	s.silentAt = now.Add(silence)
	for _, ep := range s.host.All() {
		if ep == none {
			continue
		}
		w, v := s.watchOf(ep), s.host.View(ep)
		if !v.Connected || v.Closing || w.superseded || v.Handshaking || w.Pressed() || v.Owed() ||
			w.Quiet(now) < silence || !holds(ep) {
			continue
		}
		w.Press()
		s.Set(ep, 0)
	}
}
