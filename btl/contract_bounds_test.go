package btl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/share"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// Rule 7: credits, send buffers, rooms and descriptors return to their first values when idle,
// after any mix of sends, losses, refusals, aborts and completion errors.
func TestContract07EverythingReturns(t *testing.T) {
	seed := testenv.Seed(t, 7)
	rng := newRand(seed)
	cfg := smallConfig()
	cfg.Rules.ResendTimeout = 2 * time.Millisecond
	cfg.Rules.ResendTimeoutMax = 16 * time.Millisecond
	cfg.CloseTimeout = 20 * time.Millisecond
	cfg.PeerTimeout = 200 * time.Millisecond
	cfg.HandshakeTimeout = 200 * time.Millisecond
	cfg.KeepAlive = 50 * time.Millisecond // notices peers that have aborted
	l := newLab(t, mem.Config{InjectBytes: 1472}, 0, cfg)
	l.late = true
	for range 3 {
		i := l.add(cfg, "")
		l.mods[i].Handle(1, func(*Endpoint, Tag, []byte) {})
		l.spies[i].failSend = func() bool { return rng.IntN(40) == 0 }
		l.spies[i].failRecv = func() bool { return rng.IntN(40) == 0 }
		l.spies[i].refuse = func() error {
			switch rng.IntN(40) {
			case 0:
				return fabric.ErrAgain
			case 1:
				return errSpy
			}
			return nil
		}
	}
	region, err := l.mods[1].Expose(make([]byte, 30_000), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	l.chaos(chaos{loss: 0.03, dup: 0.03, hold: 0.03}, seed)
	for range 1500 {
		i := rng.IntN(3)
		ep, err := l.mods[i].Connect(l.now, l.mods[rng.IntN(3)].Name())
		if err != nil && !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		if err == nil {
			l.randomAct(ep, rng.IntN(30), drawSize(rng, 20_000), region.Handle())
		}
		for range rng.IntN(8) {
			l.step(200 * time.Microsecond)
			l.chaosStep()
		}
	}
	l.calm()
	for i := range l.spies {
		l.spies[i].failSend, l.spies[i].failRecv, l.spies[i].refuse = nil, nil, nil
	}
	for range 1500 {
		l.step(2 * time.Millisecond)
	}
	l.settle(10 * time.Second)
	for i, m := range l.mods {
		l.wantIdle(i)
		if u := unaccounted(m); u != 0 {
			t.Errorf("module %d: %d packets unaccounted for", i, u)
		}
		if counter(m, CntSendCompletionErrors) == 0 || counter(m, CntRecvErrors) == 0 ||
			counter(m, CntPostErrors) == 0 {
			t.Errorf("module %d saw no errors of the fabric", i)
		}
		for _, ep := range m.endpoints() {
			if ep != nil {
				ep.Abort()
			}
		}
	}
	for range 40 {
		l.step(20 * time.Millisecond)
	}
	for i, m := range l.mods {
		l.wantEmpty(i)
		s := m.counted()
		accepted := s.Get(CntSendsFast) + s.Get(CntSendsPacked) + s.Get(CntSendsQueued)
		if ended := s.Get(CntDone) + s.Get(CntFailed); ended != accepted {
			t.Errorf("module %d: %d sends accepted, %d ended", i, accepted, ended)
		}
	}
}

// randomAct does one thing with an endpoint.
func (l *lab) randomAct(ep *Endpoint, what, size int, h Handle) {
	var f *Fragment
	var err error
	switch {
	case what == 0:
		ep.Abort()
		return
	case what == 1:
		ep.Close(l.now)
		return
	case what < 5:
		f, err = ep.PreparePut(make([]byte, size), h, uint64(size))
	case what < 7:
		f, err = ep.Alloc(66, size) // no handler
	case what < 9:
		if f, err = ep.Alloc(1, size); err == nil {
			if err := ep.Free(f); err != nil {
				l.tb.Error(err)
			}
			return
		}
	case what < 18:
		f, err = ep.Alloc(1, size)
	default:
		f, err = ep.Prepare(1, make([]byte, size))
	}
	if errors.Is(err, ErrAgain) || ep.c.Closing || ep.Err() != nil {
		return
	}
	if err != nil {
		l.tb.Fatal(err)
	}
	if _, err := ep.Send(l.now, f); err != nil {
		l.tb.Error(err)
	}
}

// Rule 10: a hundred ways in which endpoints come and go leave no timer, list entry, map entry or
// address behind. Connections are cut at every moment of their lives.
func TestContract10NothingRemains(t *testing.T) {
	cfg := smallConfig()
	cfg.HandshakeTimeout, cfg.PeerTimeout = 100*time.Millisecond, 300*time.Millisecond
	cfg.CloseTimeout = 50 * time.Millisecond
	cfg.KeepAlive = 40 * time.Millisecond
	ways := []string{"abort", "close", "peer aborts", "peer closes", "cut", "module closes"}
	for _, how := range ways {
		for passes := range 14 {
			t.Run(fmt.Sprintf("%s/%d", how, passes), func(t *testing.T) {
				l := newLab(t, mem.Config{}, 2, cfg)
				l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
				a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
				if err != nil {
					t.Fatal(err)
				}
				sendOrFail(t, a, 1, make([]byte, 30_000))
				for range passes {
					l.step(12 * time.Microsecond)
				}
				l.endThus(how, a)
				for range 200 {
					l.step(5 * time.Millisecond)
				}
				for i, m := range l.mods {
					if !m.closed {
						l.wantEmpty(i)
					}
				}
			})
		}
	}
}

// Rule 10, at once: an endpoint that was about to send, and owed an ACK, is on no list once it has
// ended.
func TestContract10ListsAtOnce(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	m := l.mods[0]
	if err := m.Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	a, b := l.pair()
	l.settle(time.Second)
	sendOrFail(t, b, 1, make([]byte, 1400))
	for range 3 {
		l.step(time.Microsecond)
	}
	sendOrFail(t, a, 1, make([]byte, 30_000))
	if m.all.Sched.Waiting() != 1 || m.all.Sched.Fresh() != nil || m.all.Acks.Len() != 1 {
		t.Fatalf("%d endpoints ready, %d owe an ACK", m.all.Sched.Waiting(), m.all.Acks.Len())
	}
	a.Abort()
	if n := m.all.Sched.Waiting(); n != 0 || m.all.Acks.Len() != 0 {
		t.Errorf("%d endpoints ready, %d owe an ACK after the end", n, m.all.Acks.Len())
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	l.step(time.Microsecond)
	l.wantEmpty(0)
}

func (l *lab) endThus(how string, a *Endpoint) {
	switch how {
	case "abort":
		a.Abort()
	case "close":
		a.Close(l.now)
	case "cut":
		l.cut()
	case "module closes":
		l.mods[1].Close()
	default:
		for _, ep := range l.mods[1].endpoints() {
			if ep != nil && how == "peer aborts" {
				ep.Abort()
			} else if ep != nil {
				ep.Close(l.now)
			}
		}
		// If it was too early for that, the sender must be ended too.
		l.until("the other side has ended", 5*time.Millisecond, time.Second, func() bool {
			if a.Connected() && inFlight(l.mods[0]) == 0 && queued(a) == 0 {
				a.Close(l.now)
			}
			return a.Err() != nil
		})
	}
}

// Rule 11: every bound refuses with its error and recovers when something is given back.
func TestContract11Fragments(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax = 16
	l := newLab(t, mem.Config{}, 2, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	l.settle(time.Second)
	for round := range 3 {
		var lent []*Fragment
		for range 100 {
			f, err := a.Prepare(1, make([]byte, 100))
			if err != nil {
				if !errors.Is(err, ErrAgain) {
					t.Fatal(err)
				}
				break
			}
			lent = append(lent, f)
		}
		if len(lent) != 14 { // an eighth is left to other peers
			t.Fatalf("round %d: %d fragments were lent, want 14", round, len(lent))
		}
		for i, f := range lent {
			if i%2 == 0 {
				if err := a.Free(f); err != nil {
					t.Fatal(err)
				}
				if err := a.Free(f); !errors.Is(err, ErrState) {
					t.Errorf("freed twice: %v", err)
				}
			} else if _, err := a.Send(l.now, f); err != nil {
				t.Fatal(err)
			}
		}
		l.settle(time.Second)
		l.wantIdle(0)
	}
}

// Rule 11: connections that are closed do not add to the descriptors.
func TestContract11FragmentsAfterCloses(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax = 16
	cfg.CloseTimeout = time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	for range 20 {
		l.connect(0, 1).Close(l.now)
		l.idleFor(20 * time.Millisecond)
	}
	a := l.connect(0, 1)
	lent := 0
	for range 100 {
		if _, err := a.Prepare(1, nil); err != nil {
			break
		}
		lent++
	}
	if lent != 14 {
		t.Errorf("%d fragments were lent after 20 closes, want 14", lent)
	}
}

// Rule 11: an endpoint holds at most as many send buffers as are free, but for the eighth that all
// leave, so that what one of them keeps never stops another.
func TestContract11SendBuffers(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentsMax = 256
	l := newLab(t, mem.Config{}, 3, cfg)
	tr := newTraffic(t, testenv.Seed(t, 11), 1)
	l.mods[1].Handle(1, tr.receive)
	a, other := l.connect(0, 1), l.connect(0, 2)
	l.settle(time.Second)
	takeAll := func(ep *Endpoint) (lent []*Fragment) {
		for {
			f, err := ep.Alloc(1, 100)
			if err != nil {
				if !errors.Is(err, ErrAgain) {
					t.Fatal(err)
				}
				return lent
			}
			lent = append(lent, f)
		}
	}
	lent, shared := takeAll(other), cfg.SendBuffers-cfg.SendBuffers/share.NewcomersShare
	if len(lent) != shared/2 {
		t.Fatalf("%d buffers were lent, want %d", len(lent), shared/2)
	}
	// The other endpoint goes on with what is left.
	for tr.next < 3 {
		tr.send(a, 100_000)
	}
	l.until("delivered with half the buffers", 20*time.Microsecond, time.Second, tr.finished)
	tr.verify()
	mine := takeAll(a)
	if len(mine) != shared/4 {
		t.Fatalf("%d buffers were lent, want %d", len(mine), shared/4)
	}
	if err := a.SendImmediate(l.now, 1, []byte("12345678")); !errors.Is(err, ErrAgain) {
		t.Errorf("SendImmediate without buffers: %v", err)
	}
	if n := counter(l.mods[0], CntSendsRefused); n != 1 {
		t.Errorf("%d sends refused in the counters", n)
	}
	for ep, fs := range map[*Endpoint][]*Fragment{other: lent, a: mine} {
		for _, f := range fs {
			if err := ep.Free(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.settle(time.Second)
	l.wantIdle(0)
}

func TestContract11Peers(t *testing.T) {
	small := smallConfig()
	small.PeersMax = 2
	small.HandshakeTimeout = 200 * time.Millisecond
	small.CloseTimeout = time.Millisecond
	l := newLab(t, mem.Config{}, 1, small)
	for range 4 {
		l.add(smallConfig(), "")
	}
	first, second := l.connect(0, 1), l.connect(2, 0)
	if _, err := l.mods[0].Connect(l.now, l.mods[3].Name()); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "this side") {
		t.Errorf("a third peer: %v", err)
	}
	ep, err := l.mods[3].Connect(l.now, l.mods[0].Name())
	if err != nil {
		t.Fatal(err)
	}
	l.until("refused", 20*time.Microsecond, 100*time.Millisecond, func() bool {
		return ep.Err() != nil
	})
	if !errors.Is(ep.Err(), ErrRefused) || !strings.Contains(ep.Err().Error(), "at the peer") {
		t.Errorf("the third peer was told %v", ep.Err())
	}
	if first.Err() != nil || second.Err() != nil {
		t.Errorf("the others: %v, %v", first.Err(), second.Err())
	}
	first.Close(l.now)
	l.idleFor(100 * time.Millisecond)
	l.exchange(3, 0, l.connect(3, 0), l.accepted(0))
}

func TestContract11HalfOpen(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.HalfOpenMax = 3
	cfg.HandshakeTimeout = 50 * time.Millisecond
	l, s := newStranger(t, cfg)
	m := l.mods[0]
	var replies []sentPacket
	for i := range 10 {
		s.hello.Tag = uint64(i) + 1
		s.meet()
		s.raw(0, s.packHello(frag.KindHello, 0, 0))
		replies = append(replies, s.run(4)...)
	}
	if len(replies) != 3 || halfOpen(m) != 3 || peersOf(m) != 3 {
		t.Errorf("%d replies, %d half-open endpoints, want 3", len(replies), halfOpen(m))
	}
	l.idleFor(200 * time.Millisecond)
	l.wantEmpty(0)
	if len(l.events[0]) != 0 {
		t.Errorf("the caller was told of half-open endpoints: %v", l.events[0])
	}
	s.take()
	s.hello.Tag = 99
	s.tag = 99
	s.connect()
}

func TestContract11Regions(t *testing.T) {
	cfg := smallConfig()
	cfg.RegionsMax = 3
	l := newLab(t, mem.Config{}, 1, cfg)
	m := l.mods[0]
	var regions []*Region
	seen := map[Handle]bool{}
	for range 5 {
		for len(regions) < 3 {
			r, err := m.Expose(make([]byte, 8), RemoteWrite)
			if err != nil {
				t.Fatal(err)
			}
			if seen[r.Handle()] {
				t.Errorf("handle %x was given out twice", r.Handle())
			}
			seen[r.Handle()] = true
			regions = append(regions, r)
		}
		if _, err := m.Expose(make([]byte, 8), RemoteWrite); !errors.Is(err, ErrAgain) {
			t.Errorf("a fourth region: %v", err)
		}
		old := regions[1]
		old.Close()
		regions = append(regions[:1], regions[2:]...)
		r, err := m.Expose(make([]byte, 9), RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		old.Close() // again: must not withdraw the one that took its place
		if _, reason := m.all.Remote.Reach(nil, r.Handle(), 0, 9, RemoteWrite); reason != 0 {
			t.Error("closing a region twice withdrew another one")
		}
		r.Close()
	}
}

// Every number of Config is checked.
func TestContract11ConfigBounds(t *testing.T) {
	l := newLab(t, mem.Config{}, 1, smallConfig())
	info := l.mods[0].Info()
	for i, change := range []func(*Config){
		func(c *Config) { c.Profile = "nonsense" },
		func(c *Config) { c.MTUBytes = 511 },
		func(c *Config) { c.TinyBytes = 255 },
		func(c *Config) { c.SendBuffers = 63 },
		func(c *Config) { c.SendBuffers = 1<<20 + 1 },
		func(c *Config) { c.RecvDepth = 15 },
		func(c *Config) { c.CommandDepth = 15 },
		func(c *Config) { c.RecvDepth, c.CommandDepth = 64, 65 },
		func(c *Config) { c.TxDepth = -1 },
		func(c *Config) { c.FragmentsMax = -1 },
		func(c *Config) { c.FragmentBytesMax = 1023 },
		func(c *Config) { c.PeersMax = 1<<20 + 1 },
		func(c *Config) { c.RegionsMax = 1<<16 + 1 },
		func(c *Config) { c.HandshakeTimeout = time.Microsecond },
		func(c *Config) { c.PeerTimeout = -1 },
		func(c *Config) { c.KeepAlive = 2 * time.Hour },
		func(c *Config) { c.Rules.WindowPackets = 100 },
		func(c *Config) { c.Rules.AckDelay = 2 * time.Second; c.Rules.ResendTimeout = 10 * time.Second },
	} {
		c := smallConfig()
		change(&c)
		if _, err := c.WithDefaults(info); !errors.Is(err, ErrConfig) {
			t.Errorf("change %d: %v, want ErrConfig", i, err)
		}
		if _, err := c.DomainConfig(info); !errors.Is(err, ErrConfig) {
			t.Errorf("change %d: DomainConfig: %v, want ErrConfig", i, err)
		}
	}
	// A domain that is too small for the configuration is an error, and closed.
	dom, err := l.net.Open(fabric.DomainConfig{Buffers: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dom, smallConfig()); !errors.Is(err, ErrConfig) {
		t.Errorf("opened on a domain of 10 buffers: %v", err)
	}
	if _, err := dom.OpenEndpoint(fabric.EndpointConfig{}); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("the domain is still open: %v", err)
	}
}
