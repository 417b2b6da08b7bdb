package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// testStuckPeers: peers that take nothing: one that stands still, one that was killed, one that is
// killed with 16 MiB half sent, one that was never there. Each is an error of its own, the memory
// of what was sent to it comes back, and the others' messages go on meanwhile.
func testStuckPeers(t *testing.T, fx *fixture) {
	timeout := fx.allow(time.Second)
	cfg := btl.Config{PeerTimeout: timeout, HandshakeTimeout: timeout}
	l := newLab(t, fx, opts{})
	sender, friend := l.add(cfg), l.add(cfg)
	still, killed, half := l.add(cfg), l.add(cfg), l.add(cfg)
	ghost := l.add(cfg)
	nobody := ghost.mod.Name()
	ghost.crash()

	toFriend := l.connect(sender, friend)
	stuck := map[string]*btl.Endpoint{}
	for name, n := range map[string]*node{"still": still, "killed": killed, "half": half} {
		stuck[name] = l.connect(sender, n)
	}
	l.settle()

	large := l.stream(sender, stuck["half"], half, spec{count: 1, size: fixed(16 << 20)})
	l.until("the large message has begun", func() bool { return large.next == 1 })
	l.run(time.Millisecond)
	half.crash()
	killed.crash()
	still.at.run(nil) // its sockets stay open
	many := spec{count: 10_000, size: fixed(60_000)}
	l.stream(sender, stuck["still"], still, many)
	l.stream(sender, stuck["killed"], killed, many)
	absent, err := sender.mod.Connect(sender.mod.Now(), nobody)
	if err != nil {
		t.Fatal(err)
	}
	stuck["absent"] = absent

	// While they are not known to be dead, and after.
	for round := 0; ; round++ {
		among := l.stream(sender, toFriend, friend, spec{count: 20, size: rankSizes})
		l.allDone(fmt.Sprintf("the friend's messages, round %d", round), among)
		ended := 0
		for _, ep := range stuck {
			if _, over := sender.ended(ep); over {
				ended++
			}
		}
		if round == 0 && ended == len(stuck) {
			t.Error("the friend's first messages came when all others had ended")
		}
		if ended == len(stuck) {
			break
		}
		if fx.virtual { // seconds of such rounds cost many seconds of real time
			l.run(10 * time.Millisecond)
		}
	}
	for name, ep := range stuck {
		want := btl.ErrPeerDead
		if name == "absent" {
			want = btl.ErrUnreachable
		}
		if e, _ := sender.ended(ep); !errors.Is(e.err, want) {
			t.Errorf("%s: %v, want %v", name, e.err, want)
		}
	}
	l.allDone("the friend's last messages",
		l.stream(sender, toFriend, friend, spec{count: 100, size: rankSizes}))
	still.quit()
	l.settle()
}
