//go:build linux

package udp

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// asleep starts a Sleep, and returns a channel for its result.
func asleep(t *testing.T, d *domain, timeout time.Duration) chan error {
	t.Helper()
	if !d.Arm() {
		t.Fatal("Arm: there is something to poll")
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Sleep(timeout) }()
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
	case <-time.After(10 * time.Second):
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

// post sends one datagram from a to b.
func (p *pair) post() {
	p.tb.Helper()
	if n, err := p.a.Post([]fabric.Send{{To: p.to, Buf: 0, Len: 10}}); n != 1 || err != nil {
		p.tb.Fatalf("Post: %d, %v", n, err)
	}
}

// TestSleep checks the events that end a Sleep, which are an arrival, Wake, an earlier Wake, and
// the timeout. No other event ends a Sleep, and the owner uses the domain during the Sleep.
func TestSleep(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	p.stock(8, 8)
	for range 3 {
		ended := asleep(t, p.d, -1)
		for range 10 {
			if _, err := p.b.Poll(make([]fabric.Completion, 4)); err != nil {
				t.Fatal(err)
			}
		}
		stays(t, ended, "nothing has arrived")
		p.post()
		ends(t, ended, "a datagram has arrived")
		p.stock(int(p.collect(1)[0].Buf), 1)

		ended = asleep(t, p.d, -1)
		p.d.Wake()
		ends(t, ended, "it was woken")
		p.d.Wake()
		ends(t, asleep(t, p.d, -1), "it was woken before")
		ends(t, asleep(t, p.d, time.Millisecond), "its time is over")
	}
}

// TestSleepWithoutReceives checks arrivals at an endpoint without posted receives. Such arrivals
// cannot be polled, and end no Sleep until a receive is posted.
func TestSleepWithoutReceives(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	p.post()
	ended := asleep(t, p.d, -1)
	stays(t, ended, "no receive is posted")
	p.d.Wake()
	ends(t, ended, "it was woken")
	p.stock(8, 1)
	ends(t, asleep(t, p.d, -1), "a datagram waits for the receive that is posted now")
}

// TestSleepAfterReopen checks an endpoint that reuses the descriptor's number of a closed endpoint.
func TestSleepAfterReopen(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	p.stock(8, 1)
	ends(t, asleep(t, p.d, 0), "its time is over")
	if err := p.b.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := p.d.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p.b = e.(*endpoint)
	if p.to, err = p.d.Insert(p.b.Name()); err != nil {
		t.Fatal(err)
	}
	p.stock(9, 1)
	ended := asleep(t, p.d, -1)
	p.post()
	ends(t, ended, "a datagram has arrived")
}

// TestNobodyAsleep checks that arrivals without a Sleep wake no thread of Go's poller.
func TestNobodyAsleep(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	back, err := p.d.Insert(p.a.Name())
	if err != nil {
		t.Fatal(err)
	}
	p.stock(8, 8)
	ends(t, asleep(t, p.d, 0), "its time is over")
	p.post()
	var events [4]unix.EpollEvent
	if n, err := unix.EpollWait(p.d.sleeper.epoll, events[:], 0); n != 0 || err != nil {
		t.Errorf("%d descriptors ready (%v), and nobody sleeps", n, err)
	}
	p.collect(1)

	// An Arm that finds something to poll at the second endpoint must leave no event at the first
	// endpoint.
	if _, err := p.a.Recv([]fabric.Buf{20}); err != nil {
		t.Fatal(err)
	}
	r := &p.b.rx
	r.waiting, r.pending[r.head].off = 1, -1
	if p.d.Arm() {
		t.Fatal("Arm finds nothing to poll")
	}
	r.waiting = 0
	if n, err := p.b.Post([]fabric.Send{{To: back, Buf: 1, Len: 10}}); n != 1 || err != nil {
		t.Fatalf("Post: %d, %v", n, err)
	}
	if n, err := unix.EpollWait(p.d.sleeper.epoll, events[:], 0); n != 0 || err != nil {
		t.Errorf("%d descriptors ready (%v) after an Arm that failed", n, err)
	}
}

// inSet counts the descriptors in the kernel's epoll set of a Sleep.
func (p *pair) inSet() int {
	p.tb.Helper()
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.d.sleeper.epoll))
	if err != nil {
		p.tb.Fatal(err)
	}
	return bytes.Count(info, []byte("tfd:"))
}

// TestAwakeForLong checks that sockets leave the epoll set if much arrives without a Sleep, because
// each packet to a socket in the set costs the sender time. The sockets stay in the set if a Sleep
// is armed, and return for the next Sleep.
func TestAwakeForLong(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	receive := func(count int) {
		for range count {
			p.post()
			p.stock(int(p.collect(1)[0].Buf), 1)
		}
	}
	p.stock(8, 8)
	const bell, all = 2, 3 // including the timer
	for round := range 3 {
		ends(t, asleep(t, p.d, 0), "its time is over")
		receive(lingersMax - 1)
		if n := p.inSet(); n != all {
			t.Fatalf("round %d: %d descriptors after little was received, want %d", round, n, all)
		}
		if !p.d.Arm() {
			t.Fatal("Arm: there is something to poll")
		}
		receive(3 * lingersMax)
		if n := p.inSet(); n != all {
			t.Fatalf("round %d: %d descriptors, and a sleep is to come: want %d", round, n, all)
		}
		p.post()
		ended := make(chan error, 1)
		go func() { ended <- p.d.Sleep(-1) }()
		ends(t, ended, "a datagram has arrived")
		p.stock(int(p.collect(1)[0].Buf), 1)
		receive(2 * lingersMax)
		if n := p.inSet(); n != bell {
			t.Fatalf("round %d: %d descriptors after much was received, want %d", round, n, bell)
		}
		ended = asleep(t, p.d, -1)
		p.post()
		ends(t, ended, "a datagram has arrived")
		p.stock(int(p.collect(1)[0].Buf), 1)
	}
}

// ready counts the descriptors that would end a Sleep.
func (p *pair) ready() int {
	p.tb.Helper()
	var events [4]unix.EpollEvent
	n, err := unix.EpollWait(p.d.sleeper.epoll, events[:], 0)
	if err != nil {
		p.tb.Fatal(err)
	}
	return n
}

// TestCalmSleeps checks Sleeps that each end by a single datagram. The sockets are not silenced
// between such Sleeps, which saves system calls. The sockets are silenced when more is received,
// when no receive is posted, and for a caller of ReadyFd.
func TestCalmSleeps(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	p.stock(8, 8)
	receive := func() { p.stock(int(p.collect(1)[0].Buf), 1) }
	calm := func() {
		for range calmLeast + 1 {
			ended := asleep(t, p.d, -1)
			p.post()
			ends(t, ended, "a datagram has arrived")
			receive()
		}
		if len(p.d.sleeper.armed) == 0 {
			t.Fatal("the sockets are silenced for each sleep")
		}
	}
	silent := func(reason string) {
		p.post()
		if n := p.ready(); n != 0 {
			t.Errorf("%d descriptors ready: %s", n, reason)
		}
		receive()
	}
	calm()
	p.post()
	if p.ready() != 1 {
		t.Error("the socket is silent")
	}
	receive()
	silent("more was received than what has ended the sleep")
	ended := asleep(t, p.d, -1)
	stays(t, ended, "nothing has arrived")
	p.d.Wake()
	ends(t, ended, "it was woken")
	calm()
	if _, err := p.d.ReadyFd(); err != nil {
		t.Fatal(err)
	}
	silent("it was not readied")

	calm()
	p.b.rx.top = 0
	ended = asleep(t, p.d, -1)
	p.post()
	stays(t, ended, "no receive is posted")
	p.d.Wake()
	ends(t, ended, "it was woken")
}

// TestCalmAndReopen checks a socket that is closed while it may end a Sleep. Nothing of the socket
// may remain, and a new socket with the same number must end Sleeps.
func TestCalmAndReopen(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	for range 3 {
		p.stock(8, 1)
		for range calmLeast + 1 {
			ended := asleep(t, p.d, -1)
			p.post()
			ends(t, ended, "a datagram has arrived")
			p.stock(int(p.collect(1)[0].Buf), 1)
		}
		if err := p.b.Close(); err != nil {
			t.Fatal(err)
		}
		s := &p.d.sleeper
		if len(s.armed) > 1 || len(s.set) > 1 { // one belongs to the other endpoint
			t.Fatalf("%d and %d sockets after one of two was closed", len(s.armed), len(s.set))
		}
		e, err := p.d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		p.b = e.(*endpoint)
		if p.to, err = p.d.Insert(p.b.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHasten checks that a Sleep in progress and a later Sleep end sooner than their timeouts.
func TestHasten(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	p.stock(8, 8)
	for _, timeout := range []time.Duration{-1, time.Hour} {
		ended := asleep(t, p.d, timeout)
		stays(t, ended, "nothing has arrived")
		p.d.Hasten(time.Minute)
		stays(t, ended, "there is a minute left")
		p.d.Hasten(time.Millisecond)
		p.d.Hasten(time.Minute)
		ends(t, ended, "its time was made shorter")
		p.d.Hasten(time.Millisecond)
		ends(t, asleep(t, p.d, timeout), "its time was made shorter before")
		ended = asleep(t, p.d, timeout)
		stays(t, ended, "only the one before was to end")
		p.d.Wake()
		ends(t, ended, "it was woken")
	}
}

// TestSleepBesideError checks an error of a socket without posted receives. The error must not end
// every Sleep, because no poll would read the error.
func TestSleepBesideError(t *testing.T) {
	p := newPair(t, Options{}, fabric.DomainConfig{Buffers: 64}, fabric.EndpointConfig{})
	back, err := p.d.Insert(p.a.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(p.b.sock.fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		t.Fatal(err)
	}
	p.stock(8, 8)
	ends(t, asleep(t, p.d, 0), "its time is over")
	if err := p.a.Close(); err != nil {
		t.Fatal(err)
	}
	top := p.b.rx.top
	p.b.rx.top = 0
	if n, err := p.b.Post([]fabric.Send{{To: back, Buf: 1, Len: 10}}); n != 1 || err != nil {
		t.Fatalf("Post: %d, %v", n, err)
	}
	ended := asleep(t, p.d, -1)
	stays(t, ended, "nobody polls for the error")
	p.d.Wake()
	ends(t, ended, "it was woken")
	p.b.rx.top = top
	ends(t, asleep(t, p.d, -1), "a poll takes the error now")
}
