package meet

import "gobtl/frag"

// OnHello answers a Hello on the channel on which the Hello has arrived. The answer is a HelloAck,
// a Retry or a Reject. An answer to an address that is not validated is at most as long as the
// Hello, whose length is the argument "helloBytes". The argument "source" of OnHello is the address
// of the Hello's sender, or empty if the fabric does not report this address.
func (s *Handshakes[E]) OnHello(
	by frag.Probe, h *frag.Header, hello *frag.Hello, helloBytes int, source []byte,
) bool {
	var ep, none E
	if by != hello.Probe {
		return false // the Hello names a channel through which it has not come
	}
	to := source
	if len(to) == 0 {
		to = Claimed(hello, hello.Probe)
	}
	if answer, unfit := Unfit(hello, s.says.Incarnation, s.says.Features); unfit {
		if answer.Reason != 0 {
			s.Reject(by, to, hello.Tag, frag.Version, answer)
		}
		return false
	}
	switch {
	case h.Conn != 0:
		ep = s.peers.Lookup(h.Conn)
		if ep == none || !s.peers.end(ep).IsLife(hello.Incarnation) {
			return false
		}
		ep = s.onProvenHello(ep, h, hello)
	case !s.strangers.Proves(*s.now, hello, source):
		return s.retry(by, hello, to, helloBytes)
	default:
		var answer Answer
		if ep, answer = s.onFirstHello(h, hello); ep == none {
			s.tell(answer, hello, to)
		}
	}
	if ep == none {
		return false
	}
	if hs := s.peers.end(ep).Handshake; hs != nil {
		hs.Offer(hello.Tag, *s.now)
	}
	if h.Conn != 0 {
		to = nil // it is the endpoint's peer
	}
	s.answerHello(ep, hello, helloBytes, to)
	return true
}

// onFirstHello finds or makes the endpoint for a Hello that contains no connection tag of this
// side, but valid cookies for its sender's addresses on the command channel and the data channel.
// onFirstHello returns either the half-open endpoint of a previous Hello, or an endpoint that is
// connecting to the sender (simultaneous open), or a new endpoint. onFirstHello returns a
// connecting endpoint only if this side has sent the endpoint's connection tag to no endpoint of
// the peer except the sender of the Hello. If onFirstHello returns the zero value, and the result
// "answer" has a Reason or names a module, the caller sends "answer" to the sender of the Hello.
func (s *Handshakes[E]) onFirstHello(
	h *frag.Header, hello *frag.Hello,
) (ep E, answer Answer) {
	var none E
	addr := string(hello.CommandName)
	peer := PeerTag{Incarnation: hello.Incarnation, Tag: hello.Tag}
	if ep = s.peers.ByPeer(peer, addr); ep != none {
		if s.peers.end(ep).State == Accepting {
			if answer, ok := s.welcomeAgain(ep, hello); !ok {
				return none, answer
			}
			s.Bind(ep, h, hello)
		}
		return ep, answer
	}
	if ep = s.peers.ByAddr(addr); ep != none {
		if e := s.peers.end(ep); e.State == Connecting && e.IsLife(hello.Incarnation) &&
			!e.Handshake.Bound && s.peers.Free(ep, e.Handshake.Offered, hello.Tag) {
			return ep, answer
		}
	}
	if s.peers.HalfOpenFull(addr) || s.host.Shut() || s.host.Full() {
		return none, answer
	}
	key := peerKey{peer, addr}
	kept := s.Kept.find(key, hello.Label)
	if kept != nil && !kept.accepted() {
		return none, s.answerKept(kept, hello)
	}
	if answer.Reason = s.roomFor(addr, hello.Incarnation); answer.Reason != 0 {
		return none, answer
	}
	if kept == nil {
		if answer = s.ask(hello, key); answer.refuses() || s.host.Shut() {
			return none, answer
		}
	}
	ep, answer.Reject = s.accept(h, hello)
	s.Kept.remove(kept)
	return ep, answer
}

// accept makes a half-open endpoint for a Hello. If the limit on half-open endpoints is reached,
// accept ends the oldest half-open endpoint of that host which has the most half-open endpoints.
// The caller may call accept only if HalfOpenFull returns false.
func (s *Handshakes[E]) accept(
	h *frag.Header, hello *frag.Hello,
) (ep E, answer frag.Reject) {
	if s.peers.HalfOpenSpent() {
		s.host.End(s.peers.OldestHalfOpen(), WhyMadeRoom, frag.Reject{})
	}
	ep, err := s.host.Make(hello.CommandName, hello.DataName, int(hello.CommandBytes),
		int(hello.MTUBytes))
	if err != nil {
		answer.Reason = frag.RejectAddress
		if s.peers.Full() { // the application has connected inside the callback
			answer.Reason = frag.RejectFull
		}
		return ep, answer
	}
	e := s.peers.end(ep)
	e.State, e.PeerBegan = Accepting, true
	s.peers.beginHalf(ep, e.Addr)
	s.Bind(ep, h, hello)
	e.Handshake.Proven = frag.ProvenAll
	s.peers.LeadToIfFree(ep)
	s.host.SetTimer(ep, s.timeout)
	return ep, answer
}

// If the label in a Hello differs from the label in the previous Hello of a half-open endpoint,
// welcomeAgain asks the application again whether to accept the peer. The result "ok" of
// welcomeAgain is false if the application refuses the peer, or has ended the endpoint or the
// module, and true otherwise. If the result "ok" of welcomeAgain is false, the caller must ignore
// the Hello.
func (s *Handshakes[E]) welcomeAgain(ep E, hello *frag.Hello) (answer Answer, ok bool) {
	e := s.peers.end(ep)
	if e.Label() == string(hello.Label) {
		return answer, true
	}
	if answer = s.host.Ask(hello, 0); answer.Reason == frag.RejectKept {
		answer = later
	}
	return answer, !answer.refuses() && e.State == Accepting && !s.host.Shut()
}

// roomFor returns 0 if the limits allow a new endpoint for an incarnation of a peer at an address,
// and otherwise the reason of the refusal. If the limit for the address is reached, roomFor ends an
// endpoint that its peer has already closed. If the limits do not allow a new endpoint, roomFor
// probes silent peers, because the endpoints of dead peers then end and make room.
func (s *Handshakes[E]) roomFor(addr string, life uint64) (reason uint8) {
	var none E
	others := 0
	if s.peers.AddressFull(addr, 0) {
		others = s.peers.OfOtherLives(addr, life)
		if s.peers.AddressFull(addr, others) {
			oldest := s.peers.OldestLingering(addr, life)
			if oldest == none {
				s.host.AskSilentOf(s.peers.atAddr[addr])
				return frag.RejectCrowded
			}
			s.host.End(oldest, WhyMadeRoom, frag.Reject{})
		}
	}
	if s.peers.HostFull(addr, others) {
		s.askHost(s.peers.HostOf(addr))
		return frag.RejectCrowded
	}
	if s.peers.Full() {
		s.host.AskSilent()
		return frag.RejectFull
	}
	return 0
}

// crowdedMost is the maximum number of hosts that wait for the next call of AskSilentHosts.
const crowdedMost = 1024

// askHost probes the silent peers of a host that has reached its limit of endpoints. If
// AskSilentHosts does nothing, because the previous scan was too recent, askHost remembers the
// host. A later call of askHost, for any host, also probes the silent peers of the remembered
// hosts, so that a host that sends many Hellos cannot prevent the probes for a different host.
func (s *Handshakes[E]) askHost(host string) {
	if len(s.crowded) < crowdedMost {
		s.crowded[host] = struct{}{}
	}
	if s.host.AskSilentHosts(func(ep E) bool {
		_, ok := s.crowded[s.peers.HostOf(s.peers.end(ep).Addr)]
		return ok
	}) {
		clear(s.crowded)
	}
}
