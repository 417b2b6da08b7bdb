package liveness

import (
	"errors"
	"time"

	"gobtl/hotel"
)

// An endpoint has one timer, whose meaning depends on the endpoint's state. When the timer of an
// endpoint expires, the function onTimer goes through the list below, and acts according to the
// first entry whose condition is true.
//   - If a reliable fabric could not carry a packet, the endpoint ends.
//   - If the endpoint is half open, it ends, because the peer has not answered at its address.
//   - If the peer has closed the connection, the endpoint ends, and no longer repeats its last ACK.
//   - If the endpoint is closing and receives no new ACK for closeTimeout, it ends.
//   - If the endpoint's handshake is in progress, the next round of Hellos is sent. If the time
//     limit of the handshake has passed, the handshake ends without a further Hello.
//   - If the peer has replaced the endpoint's connection by a new one, the peer is asked whether it
//     still has the old connection.
//   - If, over a reliable fabric, an ACK or credits of the peer are outstanding, a probe requests
//     this ACK or these credits.
//   - If no other entry of this list applies, a keep-alive probe is sent if it is due.

// Watch contains an endpoint's timer, the purpose of the timer, and the arrival times of the peer's
// packets.
type Watch struct {
	Peer
	room       hotel.Room // number of the timer, or 0 if it does not run
	Superseded bool       // the peer has opened a new connection in place of this one
	asks       bool       // the timer sends probes while answers of the peer are outstanding
	Watched    bool       // the timer is that of Watches.Watch
	takes      bool       // an Ack or message has shown that the peer's side is established
	missed     bool       // a packet, possibly with credits, arrived before the handshake was complete
	broken     bool       // the fabric could not carry a packet
}

// Runs reports whether the timer runs.
func (w *Watch) Runs() bool { return w.room != 0 }

// MayWatch reports whether Watches.Watch may set the timer when an acknowledgement of the peer
// becomes outstanding. The caller must not call MayWatch for an endpoint that is closing or has a
// handshake in progress.
func (w *Watch) MayWatch() bool { return !w.Watched && !w.Superseded && !w.broken }

// Early records that this side has dropped a packet, possibly with credits, because the packet
// arrived before the connection was established on this side.
func (w *Watch) Early() { w.missed = true }

// Confirmed records that an Ack of the peer has shown that the peer's side of the connection is
// established.
func (w *Watch) Confirmed() { w.takes, w.missed = true, false }

// BeginAgain must be called when the handshake begins again with a different endpoint of the peer.
// BeginAgain resets the record that the peer's side of the connection is established.
func (w *Watch) BeginAgain() { w.takes, w.missed = false, false }

// Watches holds the timers of all endpoints, and probes silent peers.
type Watches[E comparable] struct {
	Rules  Rules
	host   Host[E]
	now    *Time // unpaused: see Host.Clocks
	clock  *Time // of the timers
	of     func(E) (w *Watch, slot uint32)
	timers *hotel.Hotel[uint32]
	// closeTimeout is the longest time for which a closing endpoint waits for a new ACK.
	closeTimeout time.Duration
	// The field silentAt of Watches holds, for each scarce resource, the time at which silent peers
	// may be probed again because of this resource.
	silentAt [scarceCount]Time
}

// Scarce is a resource whose lack is a reason to probe silent peers. Each resource has its own
// interval between probes. If one interval applied to all resources, a peer that requests one
// resource again and again could prevent the probes for a different resource.
type Scarce uint8

// The scarce resources.
const (
	Memory        Scarce = iota // memory for fragments
	Places                      // slots for endpoints
	PlacesOfHosts               // slots that the endpoints of one host may use

	scarceCount = iota
)

// String returns the name of the resource.
func (s Scarce) String() string {
	switch s {
	case Memory:
		return "memory"
	case Places:
		return "places"
	case PlacesOfHosts:
		return "places of hosts"
	}
	return "unknown"
}

// helloIntervalMax is the maximum interval between probes of a peer that has not reported its side
// of the connection as established.
const helloIntervalMax = 500 * time.Millisecond

// Init prepares Watches for at most endpointsMax endpoints. The argument "of" of Init is a function
// that returns an endpoint's Watch and slot.
func (s *Watches[E]) Init(
	host Host[E], of func(E) (*Watch, uint32), endpointsMax int, rules Rules,
	closeTimeout time.Duration,
) (err error) {
	s.host, s.of, s.Rules, s.closeTimeout = host, of, rules, closeTimeout
	s.now, s.clock = host.Clocks()
	s.timers, err = hotel.New[uint32](hotel.Config{Rooms: endpointsMax})
	return err
}

func (s *Watches[E]) watchOf(ep E) *Watch {
	w, _ := s.of(ep)
	return w
}

// Len returns the number of running timers.
func (s *Watches[E]) Len() int { return s.timers.Len() }

// Deadline returns the time at which the first timer expires.
func (s *Watches[E]) Deadline() Time { return s.timers.Deadline() }

// Check returns an error if the running timer of an endpoint does not belong to this endpoint.
func (s *Watches[E]) Check(ep E) error {
	w, slot := s.of(ep)
	if guest, ok := s.timers.Knock(w.room); !ok || guest != slot {
		return errors.New("its timer is not its own")
	}
	return nil
}

// Set makes the endpoint's timer expire after the duration d, and cancels the expiry that was set
// before.
func (s *Watches[E]) Set(ep E, d time.Duration) {
	w, slot := s.of(ep)
	s.clear(w)
	room, err := s.timers.Checkin(*s.clock, d, slot)
	if err != nil {
		panic("liveness: no room for an endpoint's timer: " + err.Error())
	}
	w.room = room
}

// Clear stops the endpoint's timer.
func (s *Watches[E]) Clear(ep E) { s.clear(s.watchOf(ep)) }

func (s *Watches[E]) clear(w *Watch) {
	s.timers.Checkout(w.room)
	w.room = 0
	w.Watched = false
}

// Take moves the timer and the liveness state of the half-open endpoint "half" to the endpoint
// "ep", which replaces the half-open endpoint.
func (s *Watches[E]) Take(ep, half E) {
	w, h := s.watchOf(ep), s.watchOf(half)
	s.clear(w)
	*w = *h
	h.room = 0
}

// Resume starts the timer of a connected endpoint, if the endpoint needs a timer in its present
// state.
func (s *Watches[E]) Resume(ep E) {
	w, v := s.watchOf(ep), s.host.View(ep)
	w.asks = false // the previous purpose of the timer is over
	switch {
	case v.Closing:
		s.Set(ep, s.closeTimeout-s.now.Sub(max(w.AckedAt, v.CloseAt)))
	case w.Superseded:
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
		slot, _, ok := s.timers.Evict(*s.clock)
		if !ok {
			return
		}
		ep := s.host.At(slot)
		w := s.watchOf(ep)
		w.room, w.Watched = 0, false
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
	case w.Superseded:
		s.onSuperseded(ep, w, &v)
	case v.Owed():
		s.onWatch(ep, w, &v)
	case v.Counted && s.Rules.KeepAlive < 0 && !w.Pressed && !v.Asks:
	default:
		s.onKeepAlive(ep, w, &v)
	}
}

// onClose ends a closing endpoint that has received no new ACK for closeTimeout. Packets of the
// peer without a new ACK do not extend closeTimeout. If the peer's endpoint is possibly half open,
// onClose reports to the peer that the connection is established.
func (s *Watches[E]) onClose(ep E, w *Watch, v *View) {
	quiet := s.now.Sub(max(w.AckedAt, v.CloseAt))
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

// askAgain returns false if the Verdict says that the peer is dead, and otherwise counts one more
// probe and returns true. If the previous probe was not answered, askAgain asks whether the peer
// has restarted.
func (s *Watches[E]) askAgain(ep E, w *Watch, verdict *Verdict) bool {
	if verdict.Dead {
		return false
	}
	if w.Asked(*s.now) {
		s.AskLife(ep)
	}
	return true
}

// AskLife asks the process at a silent peer's address whether it is a new incarnation, because the
// peer has possibly restarted.
func (s *Watches[E]) AskLife(ep E) {
	w, v, now := s.watchOf(ep), s.host.View(ep), *s.now
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

// askSign probes the peer through a channel.
func (s *Watches[E]) askSign(ep E, w *Watch, channel int) {
	s.host.Ask(ep, channel)
	w.AskedBy(channel, *s.now, s.host.Sent(ep)[channel])
}

// keepChannels probes the peer on each channel on which this side has sent nothing for the time
// KeepAlive. keepChannels returns the time until it must be called again. Over a reliable fabric,
// keepChannels probes only one of the channels, because there is no firewall on the path.
func (s *Watches[E]) keepChannels(ep E, w *Watch, v *View) time.Duration {
	channels := Channels
	if v.Counted {
		channels = 1
	}
	ask, next := w.SilentChannels(*s.now, &s.Rules, s.host.Sent(ep), channels)
	for channel := range Channels {
		if ask[channel] {
			s.askSign(ep, w, channel)
		}
	}
	return next
}

// onKeepAlive probes a silent peer, and ends the endpoint if the peer has not answered in time
// (Peer.Verdict).
func (s *Watches[E]) onKeepAlive(ep E, w *Watch, v *View) {
	now := *s.now
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
	verdict := w.Verdict(now, &s.Rules, Idle, 0)
	if !s.askAgain(ep, w, &verdict) {
		s.host.End(ep, WhyDead, verdict)
		return
	}
	s.askSign(ep, w, 0)
	s.Set(ep, verdict.Next(min(s.Rules.PressAfter(), s.keepChannels(ep, w, v))))
}

// pressForAnswer returns true if an answer of the peer is outstanding, and the peer's latest packet
// arrived less than PressAfter ago, so that no probe is due yet.
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

// WatchAsks starts to probe a silent peer whose answer to an operation is outstanding.
func (s *Watches[E]) WatchAsks(ep E) {
	w := s.watchOf(ep)
	if w.asks && w.room != 0 {
		return
	}
	v := s.host.View(ep)
	switch {
	case v.Closing || v.Handshaking || v.Owed() && !w.Superseded:
	case w.Superseded:
		w.asks = true
		s.Set(ep, s.supersededTimeout(w, &v))
	default:
		w.asks = true
		s.Set(ep, s.Rules.PressAfter())
	}
}

// AskSilent probes silent peers before KeepAlive has passed, because a resource is scarce.
// AskSilent probes the peers for whose endpoints the function "holds" returns true. The result of
// "holds" must not depend on which peer needs the resource, because one scan serves all peers that
// need the resource. AskSilent scans all endpoints, but for each resource at most once in each
// interval of the length PressAfter. If the previous scan for the resource was less than PressAfter
// ago, AskSilent does nothing and returns false.
func (s *Watches[E]) AskSilent(why Scarce, holds func(E) bool) bool {
	now := *s.now
	if now < s.silentAt[why] {
		return false
	}
	s.silentAt[why] = now.Add(s.Rules.PressAfter())
	s.AskSilentOf(s.host.All(), holds)
	return true
}

// AskSilentOf works like AskSilent, but examines only the endpoints in the slice "few", in every
// call. In the slice "few", the zero value stands for no endpoint. If the function "holds" is nil,
// AskSilentOf probes all silent peers of the slice.
func (s *Watches[E]) AskSilentOf(few []E, holds func(E) bool) {
	var none E
	for _, ep := range few {
		if ep == none {
			continue
		}
		w, v := s.watchOf(ep), s.host.View(ep)
		if !v.Connected || v.Closing || w.Superseded || v.Handshaking || w.Pressed || v.Owed() ||
			w.Quiet(*s.now) < s.Rules.PressAfter() || holds != nil && !holds(ep) {
			continue
		}
		w.Press()
		s.Set(ep, 0)
	}
}
