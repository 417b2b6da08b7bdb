//go:build linux

package shm

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// asleep starts a Sleep, and returns a channel for its result.
func asleep(t *testing.T, p *player, timeout time.Duration) chan error {
	t.Helper()
	await(t, "there is always something to poll", func() bool {
		if p.dom.Arm() {
			return true
		}
		if _, err := p.poll(); err != nil {
			t.Fatal(err)
		}
		return false
	})
	ended := make(chan error, 1)
	go func() { ended <- p.dom.Sleep(timeout) }()
	return ended
}

// ends waits for the end of a Sleep. The argument reason is the expected reason.
func ends(t *testing.T, ended chan error, reason string) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("Sleep, when %s: %v", reason, err)
		}
	case <-time.After(patience):
		t.Fatalf("Sleep goes on, although %s", reason)
	}
}

// stays checks that a Sleep has not ended.
func stays(t *testing.T, ended chan error, reason string) {
	t.Helper()
	time.Sleep(5 * time.Millisecond)
	select {
	case err := <-ended:
		t.Fatalf("Sleep has ended (%v), although %s", err, reason)
	default:
	}
}

// sleepers are two players, of which a has inserted b's name.
func sleepers(t *testing.T) (a, b *player, to fabric.Addr) {
	a, b = open(t), open(t)
	b.next[a.id] = 0
	to, err := a.dom.Insert(b.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	return a, b, to
}

// TestSleep checks the events that end a Sleep, which are an arrival, Wake, an earlier Wake, and
// the timeout. No other event ends a Sleep, and the owner uses the domain during the Sleep.
func TestSleep(t *testing.T) {
	a, b, to := sleepers(t)
	number := uint64(0)
	for range 3 {
		if number > 0 { // the connection of the first datagram ends the Sleep
			ended := asleep(t, b, -1)
			for range 200 {
				if _, err := b.poll(); err != nil {
					t.Fatal(err)
				}
			}
			stays(t, ended, "nothing has arrived")
			b.dom.Wake()
			ends(t, ended, "it was woken")
		}
		ended := asleep(t, b, -1)
		if err := a.send(to, number, 64); err != nil {
			t.Fatal(err)
		}
		number++
		ends(t, ended, "a datagram has arrived")
		await(t, "the datagram", func() bool {
			came, err := b.poll()
			if err != nil {
				t.Fatal(err)
			}
			return came == 1
		})
		b.dom.Wake()
		for range 2 * tendPolls { // polls do not consume the events of the Sleep
			if _, err := b.poll(); err != nil {
				t.Fatal(err)
			}
		}
		ends(t, asleep(t, b, -1), "it was woken before")
		ends(t, asleep(t, b, time.Millisecond), "its time is over")
	}
}

// TestSleepOwnerPolls checks events that the owner consumes between Arm and the end of the Sleep. A
// new peer and a wake-up packet still end the Sleep.
func TestSleepOwnerPolls(t *testing.T) {
	a, b, to := sleepers(t)
	for number := range uint64(3) {
		if !b.dom.Arm() {
			t.Fatal("Arm: there is something to poll")
		}
		if err := a.send(to, number, 64); err != nil {
			t.Fatal(err)
		}
		if b.dom.loop.tend() {
			t.Fatal("the bell has rung before")
		}
		ended := make(chan error, 1)
		go func() { ended <- b.dom.Sleep(-1) }()
		ends(t, ended, "the owner has seen the peer knock")
		if came, err := b.poll(); came != 1 || err != nil {
			t.Fatalf("%d came, %v", came, err)
		}
	}
}

// TestSleepTriesAgain checks that a Sleep does not outlast the pause after which a busy peer is
// called again.
func TestSleepTriesAgain(t *testing.T) {
	a, b, to := sleepers(t)
	ring, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ring)
	for range linksMax { // the connections are not accepted and fill the queue
		fd, err := dial(&b.dom.name, ring)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	ended := asleep(t, a, -1) // a Sleep that began before also ends
	if err := a.send(to, 0, 64); err != nil {
		t.Fatal(err)
	}
	if len(a.ep.stalled) == 0 {
		t.Fatal("the peer could be reached")
	}
	ends(t, ended, "a peer is to be tried again")
	for range 3 {
		ends(t, asleep(t, a, -1), "a peer is to be tried again")
	}
}

// firstDatagram makes b receive a datagram from a.
func firstDatagram(t *testing.T, a, b *player, to fabric.Addr) {
	t.Helper()
	if err := a.send(to, 0, 64); err != nil {
		t.Fatal(err)
	}
	await(t, "the first datagram", func() bool {
		came, err := b.poll()
		if err != nil {
			t.Fatal(err)
		}
		return came == 1
	})
}

// TestSleepStallsLater checks that room in a ring ends a Sleep that began when no send waited for
// room.
func TestSleepStallsLater(t *testing.T) {
	a, b, to := sleepers(t)
	firstDatagram(t, a, b, to)
	if _, err := a.poll(); err != nil { // b's wake-up packet
		t.Fatal(err)
	}
	a.dom.loop.tend()
	ended := asleep(t, a, -1)
	last := uint64(0)
	for a.ep.unsent == 0 {
		if last++; last > ringBytesMax/64 {
			t.Fatal("a ring takes more than it holds")
		}
		if err := a.send(to, last, 64); err != nil {
			t.Fatal(err)
		}
	}
	stays(t, ended, "there is no room yet")
	for b.next[a.id] < last { // waiting sends are not in the ring before a polls
		if _, err := b.poll(); err != nil {
			t.Fatal(err)
		}
	}
	ends(t, ended, "there is room again")
	await(t, "what has waited", func() bool {
		if _, err := a.poll(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.poll(); err != nil {
			t.Fatal(err)
		}
		return b.next[a.id] == last+1
	})
}

// TestSleepReceivesLater checks an endpoint that posts its first receives during a Sleep. A waiting
// or arriving datagram then ends the Sleep.
func TestSleepReceivesLater(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first bool // the datagram comes before the receives
	}{{"waits", true}, {"arrives", false}} {
		t.Run(tc.name, func(t *testing.T) {
			a, b, to := sleepers(t)
			firstDatagram(t, a, b, to)
			send := func() {
				if err := a.send(to, 1, 64); err != nil {
					t.Fatal(err)
				}
			}
			posted := b.ep.posted
			b.ep.posted = nil
			ended := asleep(t, b, -1)
			if tc.first {
				send()
				stays(t, ended, "there is no receive posted")
			}
			if n, err := b.ep.Recv(posted); n != len(posted) || err != nil {
				t.Fatalf("%d receives posted, %v", n, err)
			}
			if !tc.first {
				stays(t, ended, "nothing has arrived")
				send()
			}
			ends(t, ended, "a datagram waits for a poll")
		})
	}
}

// TestTendBesideSleep makes the owner check the descriptors while another goroutine sleeps and its
// timeout is over.
func TestTendBesideSleep(t *testing.T) {
	p, _, _ := sleepers(t)
	for range 300 {
		ended := asleep(t, p, 300*time.Microsecond)
		for end := false; !end; {
			select {
			case err := <-ended:
				if end = true; err != nil {
					t.Fatal(err)
				}
			default:
				p.dom.Tend()
			}
		}
	}
}
