package pml

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
)

// A peer that announces messages, and never sends their data, cannot hold receives from any peer
// for ever. The receives end with the peer, and the messages of others arrive.
func TestReceivesOfAnyPeer(t *testing.T) {
	t.Parallel()
	const posted = 16
	for name, receive := range map[string]func(*Layer, btl.Time, *Request) error{
		"memory": func(l *Layer, now btl.Time, r *Request) error {
			return l.Recv(now, r, nil, 1, exactly, make([]byte, largeBytes))
		},
		"layout": func(l *Layer, now btl.Time, r *Request) error {
			r.Layout = &comb{make([]byte, largeBytes), largeBytes / 8, 8, 8}
			return l.Recv(now, r, nil, 1, exactly, nil)
		},
		"probe": func(l *Layer, now btl.Time, r *Request) error {
			m := l.MProbe(nil, 1, exactly)
			return l.RecvMessage(now, r, m, make([]byte, largeBytes))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layers, now := stepless(t, 3)
			step := func() btl.Time { return now(10 * time.Microsecond) }
			l, badSide, goodSide := layers[0], layers[1], layers[2]
			bad := newAnnouncer(t, step, badSide, l)
			bad.announce(posted)
			recvs := make([]Request, posted)
			for i := range recvs {
				if err := receive(l, step(), &recvs[i]); err != nil {
					t.Fatal(err)
				}
			}
			to := connected(t, step, goodSide, l)
			var send Request
			if err := goodSide.Send(step(), &send, to, 1, make([]byte, 100), Synchronous); err != nil {
				t.Fatal(err)
			}
			after := pass(now, 15*time.Minute, func() bool { return bad.err != nil })
			if !errors.Is(bad.err, btl.ErrStalled) || after < time.Minute || l.Stats().Shed != 1 {
				t.Fatalf("the peer after %v: %v, %+v", after, bad.err, l.Stats())
			}
			for i := range recvs {
				if !recvs[i].Done() || !errors.Is(recvs[i].Err(), ErrPeer) {
					t.Errorf("receive %d: %v", i, recvs[i].Err())
				}
			}
			r := post(t, l, step(), 1)
			if until(t, step, func() bool { return r.Done() && send.Done() }); r.Err() != nil {
				t.Error(r.Err())
			}
			if err := l.CheckIdle(); err != nil {
				t.Error(err)
			}
		})
	}
}

// pass lets time pass until the function done returns true, but at most the time most. It returns
// the time that has passed.
func pass(now func(time.Duration) btl.Time, most time.Duration, done func() bool) time.Duration {
	at := time.Duration(0)
	for ; at < most && !done(); at += 20 * time.Millisecond {
		now(20 * time.Millisecond)
	}
	return at
}

// A peer that sends one packet now and then holds a receive from any peer no longer than a peer
// that sends nothing.
func TestReceiveOfAnyPeerInDrops(t *testing.T) {
	t.Parallel()
	layers, now := stepless(t, 2)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l := layers[0]
	bad := newAnnouncer(t, step, layers[1], l)
	r := &Request{Layout: &comb{make([]byte, largeBytes), largeBytes / 8, 8, 8}}
	if err := l.Recv(step(), r, nil, 1, exactly, nil); err != nil {
		t.Fatal(err)
	}
	bad.announce(1)
	sent := uint64(0)
	for at := time.Duration(0); at < 15*time.Minute && bad.err == nil; at += time.Second {
		pass(now, time.Second, func() bool { return false })
		h := head{kind: kindData, a: r.id, b: sent}
		b := make([]byte, h.bytes(), h.bytes()+dataAlign)
		h.put(b)
		if bad.err == nil {
			bad.l.arrive(bad.ep, 0, b[:cap(b)])
			sent += dataAlign
		}
	}
	if !errors.Is(bad.err, btl.ErrStalled) || !r.Done() {
		t.Errorf("after %d bytes: %v", sent, bad.err)
	}
}

// A peer that holds only receives from this peer is not ended, and nor is a peer whose data arrives
// in the time of a very slow path, beside other messages of the same peer.
func TestReceivesOfSlowPeer(t *testing.T) {
	t.Parallel()
	layers, now := stepless(t, 3)
	step := func() btl.Time { return now(10 * time.Microsecond) }
	l := layers[0]
	known := newAnnouncer(t, step, layers[1], l)
	postFrom(t, l, step(), known.Peer, 1)
	known.announce(1)
	slow := newAnnouncer(t, step, layers[2], l)
	for range 15 {
		postFrom(t, l, step(), slow.Peer, 1)
	}
	post(t, l, step(), 1)
	slow.announce(16)
	if slow.open.first == nil || known.open.first != nil {
		t.Fatal("a receive from any peer is not counted as such, or another one is")
	}
	const permitted = 16 * largeBytes / slowestAskedBytesPerSecond * time.Second
	pass(now, permitted+stalledAfter, func() bool { return false })
	if slow.err != nil || known.err != nil {
		t.Fatal(slow.err, known.err)
	}
	after := pass(now, 15*time.Minute, func() bool { return slow.err != nil })
	if !errors.Is(slow.err, btl.ErrStalled) || known.err != nil {
		t.Errorf("after a further %v: %v, %v", after, slow.err, known.err)
	}
}

// A program that sleeps until the Deadline of its Layer ends a stalled peer about as early as a
// program that polls.
func TestStalledBesideSleep(t *testing.T) {
	t.Parallel()
	for name, anyPeer := range map[string]bool{"any peer": true, "one peer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layers, now := stepless(t, 3)
			step := func() btl.Time { return now(10 * time.Microsecond) }
			l := layers[0]
			bad := newAnnouncer(t, step, layers[1], l)
			if anyPeer {
				post(t, l, step(), 1)
				bad.announce(1)
			} else { // another peer waits for the only region
				l.hosts.regionsMax, l.hosts.peerRegions = 1, 1
				postFrom(t, l, step(), bad.Peer, 1)
				next := newAnnouncer(t, step, layers[2], l)
				postFrom(t, l, step(), next.Peer, 1)
				bad.announce(1)
				next.announce(1)
			}
			at := step()
			begin := at
			for bad.err == nil && at.Sub(begin) < 5*time.Minute {
				due := btl.Never
				for _, l := range layers {
					due = due.Min(l.Deadline())
				}
				at = now(max(due.Sub(at), time.Microsecond))
			}
			if !errors.Is(bad.err, btl.ErrStalled) || at.Sub(begin) < stalledAfter {
				t.Errorf("after %v: %v", at.Sub(begin), bad.err)
			}
		})
	}
}
