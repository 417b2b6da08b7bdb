package meet

import "gobtl/frag"

// sayHello sends a round of Hellos, and sets the timer for the next round.
func (s *Handshakes[E]) sayHello(ep E) {
	hs := s.peers.end(ep).Handshake
	s.SendRound(ep)
	if s.maybeStale(ep) {
		s.askHelloOf(ep, frag.ProbeCommand, 0)
		s.askHelloOf(ep, frag.ProbeData, 0)
	}
	s.host.SetTimer(ep, min(hs.NextRound(), hs.Left(*s.now)))
}

// SendRound sends a Hello through each channel for which Handshake.Asks returns true.
func (s *Handshakes[E]) SendRound(ep E) {
	for p := range frag.Probe(frag.ProbeCount) {
		if s.peers.end(ep).Handshake.Asks(p) {
			s.AskHello(ep, p)
		}
	}
}

// The method "hurry" repeats the unanswered Hellos before their timer expires, if
// Handshake.MayHurry returns true.
func (s *Handshakes[E]) hurry(ep E) {
	if e := s.peers.end(ep); e.State == Connecting && e.Handshake.MayHurry(*s.now) {
		s.SendRound(ep)
	}
}

// AskHello sends a Hello through a channel. The Hello contains the peer's connection tag if this
// tag is known.
func (s *Handshakes[E]) AskHello(ep E, p frag.Probe) {
	s.askHelloOf(ep, p, s.peers.end(ep).Peer.Tag)
}

// askHelloOf sends a Hello through a channel to the peer's endpoint with the connection tag "conn".
// If the argument "conn" of askHelloOf is 0, any endpoint of the peer can answer the Hello. A Hello
// without a connection tag contains the cookies (if known) by which the peer validates the
// addresses of this side.
func (s *Handshakes[E]) askHelloOf(ep E, p frag.Probe, conn uint64) {
	hello := s.draft(ep, p)
	if hs := s.peers.end(ep).Handshake; hs != nil {
		hello.Nonce = hs.Nonces[p]
		if conn == 0 {
			hs.Show(hello)
		}
	}
	if hello.Proven&p.Bit() == 0 {
		hello.Pad() // the answer is at most as long
	}
	s.host.SendHello(ep, frag.KindHello, conn, hello, nil)
}

// AskLife asks the process at a silent peer's address whether it is a new incarnation, because the
// peer has possibly restarted. The Hello of AskLife contains no connection tag, but the expected
// incarnation of the peer. A process with a different incarnation answers the Hello of AskLife with
// a Reject, which returns the nonce of the Hello. A process with the expected incarnation stores
// nothing from the Hello that AskLife sends.
func (s *Handshakes[E]) AskLife(ep E, nonce uint64) {
	hello := s.draft(ep, frag.ProbeCommand)
	hello.Expected, hello.Nonce = s.peers.end(ep).Peer.Incarnation, nonce
	s.host.SendHello(ep, frag.KindHello, 0, hello, nil)
}

// answerHello answers the peer's Hello through the channel of the Hello. If the peer's address is
// not validated, the answer is sent to the address "shown", and is at most as long as the peer's
// Hello. The argument "askedBytes" of answerHello is the length of the peer's Hello.
func (s *Handshakes[E]) answerHello(ep E, asked *frag.Hello, askedBytes int, shown []byte) {
	hello := s.draft(ep, asked.Probe)
	hello.Nonce = asked.Nonce
	if hs := s.peers.end(ep).Handshake; hs == nil || hs.Proven&asked.Probe.Bit() != 0 {
		shown = nil
	} else if hello.Bytes() > askedBytes {
		return
	}
	s.host.SendHello(ep, frag.KindHelloAck, asked.Tag, hello, shown)
}

// The method "draft" returns a Hello to a peer, with the parameters of this side. The returned
// Hello is valid until the next call of the method "draft".
func (s *Handshakes[E]) draft(ep E, p frag.Probe) *frag.Hello {
	e := s.peers.end(ep)
	s.drafted = s.says
	hello := &s.drafted
	hello.Tag, hello.Probe, hello.Proven = e.Tag, p, frag.ProvenAll
	if hs := e.Handshake; hs != nil {
		hello.Expected, hello.Proven = hs.expected, hs.Proven
	}
	if e.State == Accepting { // with ProvenAll, this side would confirm a peer without validation
		hello.Proven = 0
	}
	return hello
}

// Reject sends a Reject to an address if the limit on Rejects allows it, and reports whether it has
// sent the Reject. A Reject is never longer than the Hello that it answers.
func (s *Handshakes[E]) Reject(
	by frag.Probe, to []byte, tag uint64, version uint8, r frag.Reject,
) bool {
	if !s.strangers.MayReject(s.host.Pass(), by, to) {
		return false
	}
	r.VersionMin, r.VersionMax = frag.Version, frag.Version
	s.host.SendReject(by, to, tag, version, r)
	return true
}

// retry sends a Retry to a peer whose Hello contains no valid cookies, and reports whether the
// Retry was sent.
func (s *Handshakes[E]) retry(
	by frag.Probe, hello *frag.Hello, to []byte, helloBytes int,
) bool {
	if !s.strangers.MayRetry(s.host.Pass(), by, to, helloBytes) {
		return false
	}
	return s.host.SendRetry(by, to, hello.Tag, func() *frag.Retry {
		return s.strangers.Retry(*s.now, hello, to)
	})
}
