package btl

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// town is a module that is talked to, a peer that is connected to it, and a stranger.
type town struct {
	*lab
	server, client *Endpoint // the two ends of the honest connection
	s              *script   // the stranger, who talks to module 1
}

func newTown(t *testing.T, cfg Config) *town {
	l := newLab(t, mem.Config{}, 2, cfg)
	a, b := l.pair()
	return &town{lab: l, client: a, server: b, s: l.newScript(1)}
}

// A Hello that names a peer's command address and the stranger's data address: the tag that comes
// back by the one must not prove the other. The peer's connection stays, nothing is made, and the
// peer is sent no more than came in its name.
func TestMixedAddresses(t *testing.T) {
	for mine := range frag.Probe(frag.ProbeCount) {
		w := newTown(t, smallConfig())
		m, s := w.mods[1], w.s
		peer := w.mods[0]
		own := [2][]byte{s.name[0], s.name[1]}
		theirs := [2][]byte{nameOf(peer).Command, nameOf(peer).Data}
		theirs[mine] = own[mine]
		s.hello.CommandName, s.hello.DataName = theirs[0], theirs[1]
		sent, got := 0, 0
		w.net.SetFilter(func(from, to, pkt []byte) mem.Verdict {
			if string(from) == string(nameOf(m).Command) ||
				string(from) == string(nameOf(m).Data) {
				if string(to) != string(own[0]) && string(to) != string(own[1]) {
					got += len(pkt)
				}
			}
			return mem.Deliver
		})
		// The cookie of the own channel comes; that of the other goes to its owner.
		for round := range 20 {
			if round == 10 { // one cookie for both
				s.hello.CommandCookie = append(s.hello.CommandCookie, s.hello.DataCookie...)
				s.hello.DataCookie = s.hello.CommandCookie
			}
			for p := range frag.Probe(frag.ProbeCount) {
				pkt := s.packHello(frag.KindHello, s.conn, p)
				sent += len(pkt)
				s.raw(probeChannel(p), pkt)
			}
			for _, pkt := range s.run(3) {
				s.learn(pkt)
			}
		}
		if s.conn != 0 || halfOpen(m) != 0 || peersOf(m) != 1 {
			t.Errorf("own channel %d: an endpoint was made: tag %x, %d half open, %d in all", mine, s.conn,
				halfOpen(m), peersOf(m))
		}
		if got > sent {
			t.Errorf("own channel %d: %d bytes made %d for somebody else", mine, sent, got)
		}
		w.net.SetFilter(nil)
		w.exchange(0, 1, w.client, w.server)
		w.wantOne(t, w.client, w.server)
	}
}

// Cookies are good for who got them: not in another name, from another address, for the other
// channel, by another module, or much later.
func TestCookiesOfOthers(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	other := l.newScript(0)
	s.meet()
	other.meet()
	good := s.hello
	for about, change := range map[string]func(){
		"another life":     func() { s.hello.Incarnation++ },
		"another tag":      func() { s.hello.Tag++ },
		"another address":  func() { s.hello.DataName = other.name[1] },
		"another's cookie": func() { s.hello.DataCookie = other.hello.DataCookie },
		"turned round": func() {
			s.hello.CommandCookie, s.hello.DataCookie = good.DataCookie, good.CommandCookie
		},
		"none": func() { s.hello.CommandCookie = nil },
		"cut":  func() { s.hello.CommandCookie = good.CommandCookie[:19] },
	} {
		s.hello = good
		change()
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		got := s.run(3)
		if peersOf(m) != 0 || len(kinds(got, frag.KindHelloAck)) != 0 {
			t.Errorf("%s: %d endpoints, answers %+v", about, peersOf(m), got)
		}
	}
	s.hello = good
	l.idleFor(2*meet.CookieSlot + time.Second)
	s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
	if got := s.run(3); peersOf(m) != 0 || len(kinds(got, frag.KindRetry)) != 1 {
		t.Errorf("too late: %d endpoints, answers %+v", peersOf(m), got)
	}
	s.connect()
}

// Five hundred Hellos of people who do not exist, and one a round trip in the name of the peer to
// which one is connecting, cost no place, and shut nobody out.
func TestFloodShutsNobodyOut(t *testing.T) {
	cfg := smallConfig()
	cfg.PeersMax, cfg.limits.HalfOpenMax = 4, 2
	l := newLab(t, mem.Config{}, 2, cfg)
	s := l.newScript(1)
	for i := range 500 {
		s.hello.Tag, s.hello.Incarnation = uint64(i)+1, uint64(i)+1
		s.raw(i%2, s.packHello(frag.KindHello, 0, frag.Probe(i%2)))
		if i%50 == 0 {
			l.step(10 * time.Microsecond)
		}
	}
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	forger := l.newScript(0)
	peer := l.mods[1]
	forger.hello.Incarnation = nameOf(peer).Incarnation
	forger.hello.CommandName, forger.hello.DataName = nameOf(peer).Command,
		nameOf(peer).Data
	l.until("connected", 10*time.Microsecond, 100*time.Millisecond, func() bool {
		forger.hello.Tag++
		forger.raw(0, forger.packHello(frag.KindHello, 0, frag.ProbeCommand))
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		return a.Connected()
	})
	l.exchange(0, 1, a, l.accepted(1))
	if n := peersOf(peer); n != 1 {
		t.Errorf("%d endpoints", n)
	}
}

// One address takes no more than its share of the places; an endpoint of its that only lingers
// makes room for the next one.
func TestOneAddressTakesFew(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.PeersPerAddress, cfg.CloseTimeout = 3, time.Hour
	l, s := newStranger(t, cfg)
	m := l.mods[0]
	first := s.connect()
	for i := range 10 {
		s.hello.Tag, s.hello.Proven, s.conn = uint64(i)+100, 0, 0
		s.meet()
		s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
		got := s.run(4)
		if refused := kinds(got, frag.KindReject); i >= 2 && (len(refused) != 1 ||
			refused[0].hdr.Tag != frag.RejectCrowded) {
			t.Errorf("newcomer %d: %+v", i, got)
		}
	}
	if n := peersOf(m); n != 3 {
		t.Errorf("%d endpoints of one address", n)
	}
	m.all.Endings.PeerClosed(&first.c)
	s.hello.Tag++
	s.meet()
	s.raw(0, s.packHello(frag.KindHello, 0, frag.ProbeCommand))
	if got := s.run(4); len(kinds(got, frag.KindHelloAck)) != 1 ||
		slices.Contains(m.endpoints(), first) {
		t.Errorf("behind a lingering one: %+v, state %d", got, first.c.ID.State)
	}
}

// The owner lets peers in, refuses them with a code, or puts them off: the peer learns which.
func TestAdmission(t *testing.T) {
	cfg := smallConfig()
	cfg.Label, cfg.HandshakeTimeout = "client", 300*time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	var asked []Request
	verdict := Refuse(77)
	l.mods[1].Admit(func(r Request) Verdict {
		r.Label = append([]byte(nil), r.Label...)
		asked = append(asked, r)
		return verdict
	})
	connect := func() *Endpoint {
		ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		l.until("an end", 50*time.Microsecond, time.Second, func() bool {
			return ep.Err() != nil || ep.Connected()
		})
		return ep
	}
	var refused *RefusedError
	if err := connect().Err(); !errors.Is(err, ErrRefused) || !errors.As(err, &refused) ||
		refused.Code != 77 || refused.Later {
		t.Errorf("refused: %v", err)
	}
	if len(asked) < 1 || len(asked) > 2 || string(asked[0].Label) != "client" ||
		asked[0].Incarnation != nameOf(l.mods[0]).Incarnation {
		t.Errorf("the owner was asked %+v", asked)
	}
	verdict = Defer(5)
	if err := connect().Err(); !errors.As(err, &refused) || refused.Code != 5 || !refused.Later {
		t.Errorf("put off: %v", err)
	}
	if len(asked) < 4 {
		t.Errorf("the owner was asked %d times", len(asked))
	}
	l.step(time.Microsecond)
	verdict = Defer(6)
	ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.step(500 * time.Microsecond)
	}
	verdict = Accept()
	l.until("let in", 50*time.Microsecond, time.Second, ep.Connected)
	if got := l.accepted(1).PeerLabel(); got != "client" {
		t.Errorf("the peer's label is %q", got)
	}
}

// sourced is a network whose endpoints are seen under other names than they think, as behind a NAT.
type sourced struct {
	fabric.Domain
}

type sourcedEndpoint struct {
	fabric.Endpoint
}

func (d *sourced) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	e, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &sourcedEndpoint{e}, nil
}

// Name is one at which nobody is reached.
func (e *sourcedEndpoint) Name() []byte {
	name := e.Endpoint.Name()
	name[len(name)-1]++
	return name
}

// Where the network knows it, a stranger is answered where the Hello came from, whatever address it
// claims; the peers then reach each other both ways.
func TestSourceIsUsed(t *testing.T) {
	b := newBench(t, mem.Config{}, 1, smallConfig())
	b.wrap = func(d fabric.Domain) fabric.Domain { return &sourced{Domain: d} }
	b.mods = append(b.mods, b.open(smallConfig()))
	var got *Endpoint
	b.mods[0].OnEndpoint(func(ep *Endpoint, ev Event, _ error) {
		if ev == EventConnected {
			got = ep
		}
	})
	heard := 0
	mustHandle(t, b.mods[1], func() { heard++ })
	ep := b.connect(1, 0)
	if got == nil || got.c.ID.Addr == string(nameOf(b.mods[1]).Command) {
		t.Fatalf("the peer is known by the address that it claims")
	}
	send(t, got, 1000)
	b.until("delivered", 10*time.Microsecond, time.Second, func() bool { return heard == 1 })
	if ep.Err() != nil {
		t.Error(ep.Err())
	}
}

// A peer that the owner has let in under one name does not become another one on the way: its later
// Hellos are asked about as the first was, with a tag and without.
func TestAdmissionOfAnotherLabel(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	m.Admit(func(r Request) Verdict {
		if string(r.Label) == "bad" {
			return Refuse(9)
		}
		return Accept()
	})
	hello := func(label string, conn uint64) []sentPacket {
		s.hello.Label = []byte(label)
		s.raw(0, s.packHello(frag.KindHello, conn, frag.ProbeCommand))
		return s.run(4)
	}
	s.meet()
	for _, pkt := range hello("good", 0) {
		s.learn(pkt)
	}
	ep := endpointOf(m.all.Peers.Lookup(s.conn))
	if ep == nil || ep.c.ID.State != meet.Accepting || ep.PeerLabel() != "good" {
		t.Fatalf("no half-open endpoint: %+v", ep)
	}
	if got := kinds(hello("bad", 0), frag.KindReject); len(got) != 1 ||
		got[0].hdr.Tag != frag.RejectOwner {
		t.Errorf("refused without a tag: %+v", got)
	}
	s.hello.Proven = frag.ProvenAll
	hello("bad", s.conn)
	if ep.c.ID.State != meet.Accepting || ep.PeerLabel() != "good" {
		t.Errorf("refused with a tag: state %d, label %q", ep.c.ID.State, ep.PeerLabel())
	}
	s.frag(s.next, 1, []byte("not yet")) // so that the peer is asked
	for _, pkt := range kinds(s.run(4), frag.KindHello) {
		s.hello.Nonce = helloIn(t, pkt.bytes).Nonce
	}
	s.raw(0, s.packHello(frag.KindHelloAck, s.conn, frag.ProbeCommand))
	if s.run(4); ep.c.ID.State != meet.Accepting || ep.PeerLabel() != "good" {
		t.Errorf("refused in an answer: state %d, label %q", ep.c.ID.State, ep.PeerLabel())
	}
	hello("better", s.conn)
	if !ep.Connected() || ep.PeerLabel() != "better" {
		t.Errorf("let in under a third name: state %d, label %q", ep.c.ID.State, ep.PeerLabel())
	}
}

// Who asks for a life that is over in every pass, first of all, gets one Reject a pass by each
// channel, and keeps nobody else from his; a crowd gets no more than there are places. Together
// they get fewer bytes than they have sent.
func TestRejectsAreShared(t *testing.T) {
	const passes, honest = 40, 8
	l := newLab(t, mem.Config{}, 1, smallConfig())
	m := l.mods[0]
	sent := 0
	stale := func(s *script, p frag.Probe) {
		s.hello.Expected = nameOf(m).Incarnation + 1
		s.hello.Nonce++
		pkt := s.packHello(frag.KindHello, 0, p)
		sent += len(pkt)
		s.raw(probeChannel(p), pkt)
	}
	loud := l.newScript(0)
	var others []*script
	for range 3 * meet.RejectPlaces {
		others = append(others, l.newScript(0))
	}
	got, answered := 0, 0
	collect := func(s *script) (n int) {
		for _, pkt := range s.take() {
			got += len(pkt.bytes)
			if pkt.hdr.Kind == frag.KindReject {
				n++
			}
		}
		return n
	}
	for i := range passes {
		for range 5 {
			stale(loud, frag.ProbeCommand)
			stale(loud, frag.ProbeData)
		}
		s := others[i%honest]
		stale(s, frag.ProbeCommand)
		stale(s, frag.ProbeData)
		l.step(20 * time.Millisecond)
		if n := collect(loud); n != int(frag.ProbeCount) {
			t.Fatalf("pass %d: who is loud got %d Rejects, want one by each channel", i, n)
		}
		answered += collect(s)
	}
	// A place is shared with who is loud once in meet.RejectPlaces passes, by each channel.
	if answered < 2*passes*3/4 {
		t.Errorf("of %d Hellos beside one who is loud %d were answered", 2*passes, answered)
	}
	for _, s := range others {
		stale(s, frag.ProbeCommand)
	}
	l.step(20 * time.Millisecond)
	crowd := 0
	for _, s := range others {
		crowd += collect(s)
	}
	if crowd > meet.RejectPlaces || crowd < meet.RejectPlaces/2 {
		t.Errorf("a crowd of %d got %d Rejects in a pass", len(others), crowd)
	}
	if got > sent {
		t.Errorf("%d bytes were answered with %d", sent, got)
	}
	l.settle(time.Second)
	l.wantIdle(0)
}

// While the fabric takes no packets (a full socket buffer), the addresses of strangers do not pile
// up, and the module wants no pass at once.
func TestStrangersWhileStuck(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	m := l.mods[0]
	l.spies[0].refuse = func() error { return fabric.ErrAgain }
	const hellos = 3000
	for i := range hellos {
		s.hello.Tag = uint64(i) + 1
		p := frag.Probe(i % frag.ProbeCount)
		s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
		l.step(10 * time.Microsecond)
	}
	if n := len(m.all.Port.Leaving); n > 256 {
		t.Errorf("%d Hellos, none of which was answered: %d addresses wait for their removal", hellos, n)
	}
	l.idleFor(time.Second)
	if !m.all.Port.Pending() {
		t.Fatal("no answer waits: the test shows nothing")
	}
	if pause := m.Deadline().Sub(l.now); pause <= 0 || pause > time.Millisecond {
		t.Errorf("a pass is due in %v", pause)
	}
	l.spies[0].refuse = nil
	l.step(time.Millisecond)
	if m.all.Port.Pending() {
		t.Error("the fabric takes packets again, and gets none")
	}
	l.idleFor(time.Second)
	if n := len(m.all.Port.Leaving); n > 8 {
		t.Errorf("%d addresses are left", n)
	}
}

// Answers to strangers use no more than a part of the send buffer, in which Linux keeps what it
// sends to an absent host. A crowded buffer still has room for a few answers.
func TestAnswersLeaveSendBuffer(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	const size, each = 1 << 20, 832
	used := [2]int{}
	for i, c := range []*port.Channel{&l.mods[0].all.Port.Command, &l.mods[0].all.Port.Data} {
		c.Interpose(func(e fabric.Endpoint) fabric.Endpoint {
			return holdsAll{e, &used[i], size, each}
		})
	}
	l.idleFor(time.Second)
	began := l.now
	flood := func(of time.Duration) {
		for end := l.now.Add(of); l.now < end; {
			for i := range 32 {
				s.hello.Tag++
				p := frag.Probe(i % frag.ProbeCount)
				s.raw(probeChannel(p), s.packHello(frag.KindHello, 0, p))
			}
			l.step(100 * time.Microsecond)
		}
	}
	flood(200 * time.Millisecond)
	for i, n := range used {
		if n <= size/4 || n > size/2 {
			t.Errorf("channel %d: %d of %d bytes in use", i, n, size)
		}
	}
	before := used
	flood(time.Second)
	for i, n := range used {
		got := (n - before[i]) / each
		if most := int(l.now.Sub(began)/(50*time.Millisecond)) + 1; got == 0 || got > most {
			t.Errorf("channel %d: %d answers while the buffer is crowded, want 1 to %d", i, got, most)
		}
	}
}

// holdsAll is an endpoint whose send buffer keeps all datagrams.
type holdsAll struct {
	fabric.Endpoint
	used       *int
	size, each int
}

func (e holdsAll) Backlog() (usedBytes, sizeBytes int) { return *e.used, e.size }

func (e holdsAll) Post(sends []fabric.Send) (int, error) {
	n, err := e.Endpoint.Post(sends)
	*e.used += n * e.each
	return n, err
}
