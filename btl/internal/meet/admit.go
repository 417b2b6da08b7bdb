package meet

import "gobtl/frag"

// OnHello answers a Hello on the channel of the Hello, with a HelloAck, or with a Retry or Reject
// if the sender has not proven its address. The answer to an unproven address is not longer than
// the Hello, which has helloBytes. The argument source of OnHello is the address of the sender,
// which is empty if the fabric does not know it.
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
	case !s.strangers.Proves(s.host.Now(), hello, source):
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
	if hs := s.peers.end(ep).hs; hs != nil {
		hs.Offer(hello.Tag, s.host.Now())
	}
	if h.Conn != 0 {
		to = nil // it is the endpoint's peer
	}
	s.answerHello(ep, hello, helloBytes, to)
	return true
}

// onFirstHello finds or makes the endpoint for a Hello that contains no tag of this side, but has
// valid cookies for both addresses of its sender. onFirstHello returns the half-open endpoint of an
// earlier Hello, an endpoint that is connecting to the sender (simultaneous open) if no other
// endpoint of the peer may use its tag, or a new endpoint. If onFirstHello finds or makes no
// endpoint, answer is what to tell the sender. If answer has neither a Reason nor a module, no
// packet is sent.
func (s *Handshakes[E]) onFirstHello(
	h *frag.Header, hello *frag.Hello,
) (ep E, answer Answer) {
	var none E
	addr := string(hello.CommandName)
	peer := PeerTag{Incarnation: hello.Incarnation, Tag: hello.Tag}
	if ep = s.peers.ByPeer(peer, addr); ep != none {
		if s.peers.end(ep).state == Accepting {
			if answer, ok := s.welcomeAgain(ep, hello); !ok {
				return none, answer
			}
			s.Bind(ep, h, hello)
		}
		return ep, answer
	}
	if ep = s.peers.ByAddr(addr); ep != none {
		if e := s.peers.end(ep); e.state == Connecting && e.IsLife(hello.Incarnation) &&
			!e.hs.Bound() && s.peers.Free(ep, e.hs.Offered(), hello.Tag) {
			return ep, answer
		}
	}
	if s.peers.HalfOpenFull(addr) || s.host.Shut() || s.host.Full() {
		return none, answer
	}
	key := peerKey{peer, addr}
	kept := s.requests.find(key, hello.Label)
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
	s.requests.remove(kept)
	return ep, answer
}

// accept makes a half-open endpoint for a Hello.
func (s *Handshakes[E]) accept(
	h *frag.Header, hello *frag.Hello,
) (ep E, answer frag.Reject) {
	ep, err := s.host.Make(hello.CommandName, hello.DataName, int(hello.CommandBytes),
		int(hello.MTUBytes))
	if err != nil {
		answer.Reason = frag.RejectAddress
		if s.peers.Full() { // the application has connected in the meantime
			answer.Reason = frag.RejectFull
		}
		return ep, answer
	}
	e := s.peers.end(ep)
	e.state = Accepting
	s.peers.AddHalfOpen(e.Addr)
	s.Bind(ep, h, hello)
	e.hs.ProveAll()
	s.peers.LeadToIfFree(ep)
	s.host.SetTimer(ep, s.timeout)
	return ep, answer
}

// welcomeAgain calls the application's Admit function for the peer of a half-open endpoint whose
// label has changed. The result ok of welcomeAgain is false if the Hello must change nothing,
// because the application refuses the peer or has ended the endpoint or the module.
func (s *Handshakes[E]) welcomeAgain(ep E, hello *frag.Hello) (answer Answer, ok bool) {
	e := s.peers.end(ep)
	if e.Label == string(hello.Label) {
		return answer, true
	}
	if answer = s.host.Ask(hello, 0); answer.Reason == frag.RejectKept {
		answer = later
	}
	return answer, !answer.refuses() && e.state == Accepting && !s.host.Shut()
}

// roomFor returns the reason why no further endpoint for a peer's incarnation may connect
// from an address, or 0 if a further endpoint may connect. roomFor ends a lingering
// endpoint if the limit for the address is reached. roomFor probes silent endpoints that
// use a slot.
func (s *Handshakes[E]) roomFor(addr string, life uint64) (reason uint8) {
	var none E
	others := 0
	if s.peers.AddressFull(addr, 0) {
		others = s.peers.OfOtherLives(addr, life)
		if s.peers.AddressFull(addr, others) {
			oldest := s.peers.OldestLingering(addr, life)
			if oldest == none {
				s.host.AskSilent(func(ep E) bool { return s.peers.end(ep).Addr == addr })
				return frag.RejectCrowded
			}
			s.host.End(oldest, WhyMadeRoom, frag.Reject{})
		}
	}
	if s.peers.HostFull(addr, others) {
		s.host.AskSilent(func(ep E) bool { return s.peers.SameHost(s.peers.end(ep).Addr, addr) })
		return frag.RejectCrowded
	}
	if s.peers.Full() {
		s.host.AskSilent(func(E) bool { return true })
		return frag.RejectFull
	}
	return 0
}
