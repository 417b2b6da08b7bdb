package btl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/hotel"
	"gobtl/internal/testenv"
	"gobtl/reliability"
)

// countSent counts the datagrams that module i's endpoints post, but for Pings and for questions
// whether the peer was restarted, while the network loses all of them.
func (l *lab) countSent(i int) *int {
	n := new(int)
	cmd, data := string(nameOf(l.mods[i]).Command), string(nameOf(l.mods[i]).Data)
	l.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		ours := string(from) == cmd || string(from) == data
		kind := frag.Kind(pkt[1] & 0x0F)
		if ours && kind != frag.KindPing && kind != frag.KindHello {
			*n++
		}
		return mem.Drop
	})
	return n
}

// Rule 8: under total loss at most the packets in flight are sent again per time-out, with the
// adaptive profile just one of them, and time-outs double; after the network has healed everything
// drains within two time-outs.
func TestContract08TotalLoss(t *testing.T) {
	for _, profile := range []string{"usnic", "adaptive"} {
		t.Run(profile, func(t *testing.T) { contract08TotalLoss(t, profile) })
	}
}

func contract08TotalLoss(t *testing.T, profile string) {
	cfg := smallConfig()
	cfg.PeerTimeout, cfg.Profile = time.Minute, profile
	l := newLab(t, mem.Config{}, 2, cfg)
	tr := newTraffic(t, testenv.Seed(t, 8), 1)
	l.mods[1].Handle(1, tr.receive)
	a, _ := l.pair()
	l.settle(time.Second)
	sent := l.countSent(0)
	for range 10 {
		tr.send(a, 60_000)
	}
	inFlight := 0
	// In each span exactly one time-out of every packet falls: 100 ms, then 200, 400, 800, 1600 later.
	start := l.now
	for i, end := range []time.Duration{50, 250, 500, 1000, 2000, 4000, 5500} {
		before := *sent
		for l.now < start.Add(end*time.Millisecond) {
			l.step(500 * time.Microsecond)
		}
		inFlight, _ = a.Outstanding()
		switch n := *sent - before; {
		case i > 0 && profile == "adaptive":
			if n != 1 {
				t.Errorf("%d packets sent again up to %v", n, end*time.Millisecond)
			}
		case i == 0 && n != inFlight:
			t.Errorf("%d packets sent for the first time, %d are in flight", n, inFlight)
		case i > 0 && (n > inFlight || n < inFlight/2):
			t.Errorf("%d packets sent again up to %v, with %d in flight", n, end*time.Millisecond, inFlight)
		}
	}
	if inFlight < 20 {
		t.Fatalf("only %d packets in flight", inFlight)
	}
	l.calm()
	limit := 2 * l.mods[0].Config().Rules.ResendTimeoutMax
	l.until("drained", 100*time.Microsecond, limit, tr.finished)
	tr.verify()
	l.settle(time.Second)
	l.wantIdle(0)
	l.wantIdle(1)
}

// Rule 8, per pass: however many timers have expired, one pass sends at most ResendsPerPass again,
// and goes on receiving between.
func TestContract08ResendsPerPass(t *testing.T) {
	cfg := smallConfig()
	cfg.Rules.ResendsPerPass = 5
	cfg.PeerTimeout, cfg.Profile = time.Minute, "usnic" // of which all timers run out at once
	l := newLab(t, mem.Config{}, 2, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	l.settle(time.Second)
	sent := l.countSent(0)
	sendOrFail(t, a, 1, make([]byte, 60_000))
	for range 10 {
		l.step(time.Microsecond)
	}
	l.step(101 * time.Millisecond)
	if n := l.mods[0].all.Recovery.ResendsWaiting(); n < 20 {
		t.Fatalf("only %d segments wait to be sent again", n)
	}
	for range 3 {
		before := *sent
		l.step(time.Microsecond)
		if n := *sent - before; n != 5 {
			t.Errorf("%d packets sent again in one pass, want 5", n)
		}
	}
}

// Rule 9: a dead peer is ErrPeerDead within PeerTimeout, and a tick of the hotel, of the moment at
// which an answer was due; a peer that answers notices nothing.
func TestContract09DeadPeer(t *testing.T) {
	for _, timeout := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second} {
		if testenv.Race && timeout > time.Second {
			continue // one goroutine does it all: a longer silence is only more of the same to it
		}
		for _, profile := range reliability.Profiles() {
			for _, size := range []int{8, 20_000} {
				t.Run(fmt.Sprintf("%v/%s/%d", timeout, profile, size), func(t *testing.T) {
					testDeadPeer(t, profile, timeout, size)
				})
			}
		}
	}
}

func testDeadPeer(t *testing.T, profile string, timeout time.Duration, size int) {
	const step = 100 * time.Microsecond
	cfg := smallConfig()
	cfg.PeerTimeout, cfg.Profile = timeout, profile
	l := newLab(t, mem.Config{}, 3, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	tr := newTraffic(t, testenv.Seed(t, 9), 1)
	l.mods[2].Handle(1, tr.receive)
	dead, alive := l.connect(0, 1), l.connect(0, 2)
	l.settle(time.Second)
	for range 20 {
		l.step(100 * time.Millisecond) // silence without traffic is no fault
	}
	if dead.Err() != nil {
		t.Fatalf("the idle connection ended: %v", dead.Err())
	}
	l.mods[1].Close()
	start := l.now
	sendOrFail(t, dead, 1, make([]byte, size))
	slowest := time.Duration(0)
	for dead.Err() == nil {
		if l.now.Sub(start) > 2*timeout {
			t.Fatal("the dead peer was not noticed")
		}
		if tr.finished() {
			tr.send(alive, 3000)
			began := l.now
			l.until("the other peer is served", step, timeout, tr.finished)
			slowest = max(slowest, l.now.Sub(began))
			continue
		}
		l.step(step)
	}
	took := l.now.Sub(start)
	l.step(step)
	if !errors.Is(dead.Err(), ErrPeerDead) {
		t.Errorf("error %v, want ErrPeerDead", dead.Err())
	}
	// A tick of the hotel, a pass, and the three last resends a millisecond apart where the time-out
	// of the peer is short against that of a packet.
	slack := time.Duration(hotel.DefaultTickNs) + 4*step
	if timeout < 5*l.mods[0].Config().Rules.ResendTimeout {
		slack += 3 * (time.Millisecond + time.Duration(hotel.DefaultTickNs) + step)
	}
	if took < timeout || took > timeout+slack {
		t.Errorf("noticed after %v, want %v to %v", took, timeout, timeout+slack)
	}
	if slowest > 2*time.Millisecond || alive.Err() != nil {
		t.Errorf("the peer alive waited up to %v, error %v", slowest, alive.Err())
	}
	ends := l.ends(0, dead)
	if len(ends) != 1 || ends[0].ev != EventFailed || !errors.Is(ends[0].err, ErrPeerDead) {
		t.Errorf("events %v", ends)
	}
	l.settle(time.Second)
	l.wantIdle(0)
}

// Rule 9 with KeepAlive: a dead peer is noticed without any traffic; a live one stays.
func TestContract09KeepAlive(t *testing.T) {
	cfg := smallConfig()
	cfg.PeerTimeout, cfg.KeepAlive = time.Second, 300*time.Millisecond
	l := newLab(t, mem.Config{}, 3, cfg)
	dead, alive := l.connect(0, 1), l.connect(0, 2)
	l.settle(time.Second)
	for range 1000 {
		l.step(5 * time.Millisecond)
	}
	if dead.Err() != nil || alive.Err() != nil {
		t.Fatalf("idle connections ended: %v, %v", dead.Err(), alive.Err())
	}
	l.mods[1].Close()
	heard := l.now
	l.until("the dead peer is noticed", time.Millisecond, 3*time.Second, func() bool {
		return dead.Err() != nil
	})
	most := cfg.KeepAlive + cfg.PeerTimeout
	if took := l.now.Sub(heard); !errors.Is(dead.Err(), ErrPeerDead) || took > most {
		t.Errorf("%v after %v, want ErrPeerDead within %v", dead.Err(), took, most)
	}
	for range 600 {
		l.step(5 * time.Millisecond)
	}
	if alive.Err() != nil {
		t.Errorf("the live peer was given up: %v", alive.Err())
	}
}

// Rule 9: death is decided by received progress only. A process that was itself stopped for a long
// time declares nobody dead when it goes on, whatever was in flight and lost meanwhile.
func TestContract09OwnPause(t *testing.T) {
	for _, packets := range []int{1, 3, 40} {
		for _, keepAlive := range []time.Duration{-1, time.Second} {
			for _, before := range []time.Duration{0, 150 * time.Millisecond, 2 * time.Second} {
				name := fmt.Sprintf("%d packets, keep-alive %v, after %v", packets, keepAlive, before)
				t.Run(name, func(t *testing.T) { testOwnPause(t, packets, keepAlive, before) })
			}
		}
	}
}

func testOwnPause(t *testing.T, packets int, keepAlive, before time.Duration) {
	cfg := smallConfig()
	cfg.KeepAlive = keepAlive
	l := newLab(t, mem.Config{}, 2, cfg)
	tr := newTraffic(t, testenv.Seed(t, 10), 1)
	l.mods[1].Handle(1, tr.receive)
	a, b := l.pair()
	l.settle(time.Second)
	l.cut()
	for range packets {
		tr.send(a, 1400)
	}
	for end := l.now.Add(before); l.now < end; {
		l.step(time.Millisecond)
	}
	l.step(time.Microsecond)
	l.calm()
	// Only the other process runs for 30 s; then this one finds all its timers expired.
	for range 300 {
		l.now = l.now.Add(100 * time.Millisecond)
		if _, err := l.mods[1].Progress(l.now); err != nil {
			t.Fatal(err)
		}
		if b.Err() != nil {
			b = nil
			break
		}
	}
	if b == nil && keepAlive < 0 {
		t.Fatal("the peer gave up")
	}
	if b == nil {
		return // the peer asked for a sign of life and was right
	}
	for range 20 {
		l.step(time.Millisecond)
	}
	if a.Err() != nil {
		t.Fatalf("the peer was declared %v after the own pause", a.Err())
	}
	l.until("delivered", time.Millisecond, 5*time.Second, tr.finished)
	tr.verify()
}

// A handshake has its whole time, wherever the caller's clock stands and however long ago the
// latest pass was; and though the first pass after it is late, for nobody can answer before.
func TestHandshakeTimeStartsWithConnect(t *testing.T) {
	for _, before := range []bool{false, true} {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		if before {
			l.step(time.Microsecond)
		}
		ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(time.Hour)
		l.until("connected", 10*time.Microsecond, 10*time.Millisecond, ep.Connected)
	}
}

// Connect to nobody fails after HandshakeTimeout, neither earlier nor much later.
func TestHandshakeTimeout(t *testing.T) {
	cfg := smallConfig()
	cfg.HandshakeTimeout = 700 * time.Millisecond
	l := newLab(t, mem.Config{}, 2, cfg)
	name := l.mods[1].Name()
	l.mods[1].Close()
	ep, err := l.mods[0].Connect(l.now, name)
	if err != nil {
		t.Fatal(err)
	}
	start := l.now
	l.until("failed", time.Millisecond, time.Second, func() bool { return ep.Err() != nil })
	l.step(time.Millisecond)
	if took := l.now.Sub(start); took < 700*time.Millisecond || took > 704*time.Millisecond {
		t.Errorf("failed after %v", took)
	}
	ends := l.ends(0, ep)
	if len(ends) != 1 || ends[0].ev != EventFailed || !errors.Is(ends[0].err, ErrUnreachable) {
		t.Errorf("events %v", ends)
	}
	l.wantEmpty(0)
	sent := counter(l.mods[0], CntSentControl)
	if sent < 8 || sent > 40 {
		t.Errorf("%d hellos in %v", sent, cfg.HandshakeTimeout)
	}
}
