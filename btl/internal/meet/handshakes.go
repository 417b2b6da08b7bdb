package meet

import (
	"time"

	"gobtl/frag"
)

// Handshakes runs the handshakes of all endpoints of a module. Handshakes processes Hellos, answers
// to Hellos and expired timers, and calls the Host to carry out its decisions.
//
//	Connect, Dial -----+                       +--> Host  make, bind, merge, end an endpoint
//	OnHello, OnHelloAck|    +------------+     |    Host  send a Hello, a Reject, a Retry
//	OnRetry, OnReject -+--> | Handshakes | ----+    Host  set the timer
//	OnPacket ----------+    +------------+     |
//	OnTimer -----------+      Table, Strangers +--> Host  Connected, Settled
type Handshakes[E comparable] struct {
	peers     *Table[E]
	host      Host[E]
	now       *Time // unpaused: see clock.Clock
	strangers Strangers
	Kept      requests
	random    func() uint64
	timeout   time.Duration
	// The field "says" of Handshakes contains the parameters that every Hello of this side announces.
	says frag.Hello
	// The field "drafted" of Handshakes is the memory in which the method "draft" prepares each Hello.
	drafted frag.Hello
	crowded map[string]struct{} // hosts whose silent peers askHost must probe
}

// Init prepares Handshakes for the endpoints of a table. The argument "says" of Init contains the
// parameters that every Hello of this side announces. The incarnation in "says" is not used,
// because Init draws an incarnation at random. The argument "timeout" of Init is the maximum
// duration of each handshake that this side begins.
func (s *Handshakes[E]) Init(
	peers *Table[E], host Host[E], says *frag.Hello, random func() uint64, timeout time.Duration,
) {
	s.peers, s.host, s.says, s.random, s.timeout = peers, host, *says, random, timeout
	s.now = host.Clock()
	s.strangers.Init(random)
	s.Kept.init()
	s.crowded = map[string]struct{}{}
	s.says.Incarnation = random()
}

// Says returns the parameters that every Hello of this side contains.
func (s *Handshakes[E]) Says() *frag.Hello { return &s.says }

// Enter gives an endpoint a slot in the table, a connection tag and a new handshake. The argument
// "addr" of Enter is the address of the peer's command channel.
func (s *Handshakes[E]) Enter(ep E, addr string) {
	e := s.peers.end(ep)
	e.Addr, e.Handshake = addr, New(*s.now, s.nonces())
	s.peers.Add(ep, s.random())
}

// The method "nonces" draws random nonces for the Hellos of a handshake.
func (s *Handshakes[E]) nonces() (n Nonces) {
	for i := range n {
		n[i] = s.random()
	}
	return n
}

// Connect returns the endpoint for a module's name. If no endpoint for the name exists yet, Connect
// makes an endpoint and begins its handshake.
func (s *Handshakes[E]) Connect(n *frag.Name) (ep E, err error) {
	var none E
	old := s.peers.ByAddr(string(n.Command))
	if old != none && s.peers.end(old).IsLife(n.Incarnation) && s.goesOn(old) {
		return old, nil
	}
	if half := s.peers.HalfOpenTo(n.Incarnation, string(n.Command)); half != none {
		return s.adopt(half, old, n.Data, n, n.Incarnation)
	}
	s.giveUp(n)
	return s.reach(old, n)
}

// giveUp cancels those sends to a module's addresses that the fabric has not completed yet.
func (s *Handshakes[E]) giveUp(n *frag.Name) {
	s.host.GiveUp(n.Command)
	s.host.GiveUp(n.Data)
}

// Dial connects to the addresses of a peer's two channels. Unlike Connect, Dial accepts any
// incarnation of the peer. Datagrams to the peer have at most tinyBytes on the command channel and
// mtuBytes on the data channel.
func (s *Handshakes[E]) Dial(cmd, data []byte, tinyBytes, mtuBytes int) (ep E, err error) {
	var none E
	old := s.peers.ByAddr(string(cmd))
	if old != none && s.goesOn(old) {
		return old, nil
	}
	if half := s.peers.HalfOpenTo(0, string(cmd)); half != none {
		return s.adopt(half, old, data, nil, s.peers.end(half).Peer.Incarnation)
	}
	return s.reach(old, &frag.Name{
		Command: cmd, Data: data, CommandBytes: uint16(tinyBytes), MTUBytes: uint16(mtuBytes),
	})
}

// goesOn reports whether Connect and Dial keep using the existing endpoint ep instead of making a
// new endpoint.
func (s *Handshakes[E]) goesOn(ep E) bool {
	return s.host.Usable(ep) && s.peers.end(ep).State != Accepting
}

// reach makes a new endpoint, which replaces the endpoint "old" for the same address, and begins
// the new endpoint's handshake.
func (s *Handshakes[E]) reach(old E, n *frag.Name) (ep E, err error) {
	ep, err = s.host.Make(n.Command, n.Data, int(n.CommandBytes), int(n.MTUBytes))
	if err != nil {
		return ep, err
	}
	s.peers.Displace(ep, old)
	s.begin(ep, n.Incarnation, n.Data)
	return ep, nil
}

// begin starts this side's handshake with an incarnation of the peer. The argument "data" of the
// method "begin" is the address of the peer's data channel.
func (s *Handshakes[E]) begin(ep E, incarnation uint64, data []byte) {
	e := s.peers.end(ep)
	e.State = Connecting
	e.Peer = PeerTag{Incarnation: incarnation}
	e.Handshake.Want(incarnation, data, s.now.Add(s.timeout))
	s.sayHello(ep)
}

// adopt turns a half-open endpoint into the endpoint that Connect or Dial returns. adopt drops the
// contents of the peer's Hello, because the Hello is possibly forged.
func (s *Handshakes[E]) adopt(
	half, old E, data []byte, named *frag.Name, incarnation uint64,
) (ep E, err error) {
	if err := s.host.Adopt(half, data, named); err != nil {
		return ep, err
	}
	e := s.peers.end(half)
	e.Agreement = Agreement{}
	s.peers.ForgetPeer(half)
	e.Handshake = New(*s.now, s.nonces())
	e.Handshake.Offered = e.Peer.Tag
	s.peers.endHalf(half, e.Addr)
	s.begin(half, incarnation, data)
	s.peers.Displace(half, old)
	return half, nil
}

// OnRetry stores the cookie of a Retry, which the peer requires in the next Hello. When the cookies
// of the command channel and of the data channel are known, OnRetry repeats the Hello.
func (s *Handshakes[E]) OnRetry(by frag.Probe, h *frag.Header, r *frag.Retry) bool {
	var none E
	ep := s.peers.Lookup(h.Conn)
	if ep == none || by != r.Probe {
		return false
	}
	e := s.peers.end(ep)
	if e.State != Connecting {
		return false
	}
	ok, hurry := e.Handshake.OnRetry(r, *s.now)
	if hurry {
		s.hurry(ep)
	}
	return ok
}

// OnReject handles a Reject, which ends the handshake unless its reason is RejectLater or
// RejectKept. The random nonce in a Reject proves that the Reject answers a Hello of this side.
func (s *Handshakes[E]) OnReject(h *frag.Header, r frag.Reject) bool {
	var none E
	ep := s.peers.Lookup(h.Conn)
	if ep == none {
		return false
	}
	e := s.peers.end(ep)
	if e.State != Connecting || !e.Handshake.OnReject(r.Nonce, s.host.Quiet(ep)) {
		return false
	}
	switch r.Reason {
	case frag.RejectLater:
		e.Handshake.PutOff(r.Code)
		return true
	case frag.RejectKept:
		return s.onKept(ep, time.Duration(r.Code)*time.Millisecond)
	}
	s.host.End(ep, WhyRejected, r)
	return true
}

// OnHelloAck records that a channel works in both directions, which a HelloAck proves by the nonce
// of this side's Hello.
func (s *Handshakes[E]) OnHelloAck(by frag.Probe, h *frag.Header, hello *frag.Hello) bool {
	var none E
	ep := s.peers.Lookup(h.Conn)
	if ep == none || !s.peers.end(ep).IsLife(hello.Incarnation) || by != hello.Probe {
		return false
	}
	if len(hello.Moved) > 0 {
		return s.onMoved(ep, hello)
	}
	if !s.matchesPeer(ep, h, hello) {
		return false
	}
	e := s.peers.end(ep)
	hs := e.Handshake
	s.host.Heard(ep, by, hs == nil)
	if hello.Proven == frag.ProvenAll {
		s.host.Takes(ep)
	}
	if hs == nil {
		return true
	}
	answers := hs.Answers(hello)
	if e.State == Accepting { // the HelloAck answers the probe of OnPacket
		if !answers || hello.Proven != frag.ProvenAll {
			return false
		}
		if ep = s.lastWord(ep, h, hello); ep == none {
			return false
		}
		hs = s.peers.end(ep).Handshake
	} else if answers {
		if e.State != Connected {
			s.Bind(ep, h, hello)
		}
		hs.Proven |= hello.Probe.Bit()
	}
	hs.OnHelloAck(hello)
	s.establish(ep)
	return true
}

// onProvenHello handles a Hello that contains the connection tag of a local endpoint, which only
// the endpoint's peer can know. onProvenHello returns the endpoint that must answer the Hello, or
// the zero value if no answer is sent.
func (s *Handshakes[E]) onProvenHello(ep E, h *frag.Header, hello *frag.Hello) (answers E) {
	var none E
	if !s.matchesPeer(ep, h, hello) {
		return none
	}
	s.host.Heard(ep, hello.Probe, false)
	if s.peers.end(ep).State == Accepting {
		if hello.Proven != frag.ProvenAll {
			return ep // the peer may need the answer to become connected
		}
		if ep = s.lastWord(ep, h, hello); ep == none {
			return none
		}
	}
	if hello.Proven == frag.ProvenAll {
		s.host.Takes(ep)
	}
	e := s.peers.end(ep)
	if hs := e.Handshake; hs != nil {
		hs.OnProvenHello(hello)
		s.establish(ep)
	}
	if e.Handshake != nil {
		s.hurry(ep)
	}
	return ep
}

// lastWord replaces the peer's parameters in a half-open endpoint by those of the latest Hello,
// because the previous Hellos are possibly forged. lastWord returns the endpoint that continues the
// handshake, or the zero value if the handshake does not continue.
func (s *Handshakes[E]) lastWord(ep E, h *frag.Header, hello *frag.Hello) (goesOn E) {
	if _, ok := s.welcomeAgain(ep, hello); !ok {
		return goesOn
	}
	s.Bind(ep, h, hello)
	return s.validate(ep)
}

// Bind stores the peer's parameters from a Hello that contains a secret of the connection (cookies
// or a nonce). The caller must not call Bind for a connected endpoint. Bind replaces the parameters
// from previous Hellos, because these Hellos are possibly forged.
func (s *Handshakes[E]) Bind(ep E, h *frag.Header, hello *frag.Hello) {
	s.peers.SetPeer(ep, PeerTag{Incarnation: hello.Incarnation, Tag: hello.Tag})
	e := s.peers.end(ep)
	e.Handshake.Bound = true
	if e.Handshake.Kept {
		e.Handshake.Wake(*s.now, s.timeout)
		s.host.SetTimer(ep, e.Handshake.Interval)
	}
	e.setLabel(string(hello.Label))
	e.Agreement = Agree(s.says.Features & hello.Features)
	s.host.Bind(ep, h, hello)
}
