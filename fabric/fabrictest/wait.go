package fabrictest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"gobtl/fabric"
)

func (p *party) waiter() fabric.Waiter {
	p.tb.Helper()
	w, ok := p.dom.(fabric.Waiter)
	if !ok || !p.dom.Info().CanWait {
		p.tb.Skipf("%s: Info.CanWait is %v", p.f.Name, p.dom.Info().CanWait)
	}
	return w
}

// The method "asleep" calls Wait on a new goroutine, so that the test can detect a Wait that never
// returns. The test must not use the Domain until it has received the result of Wait from the
// returned channel.
func (p *party) asleep(w fabric.Waiter, timeout time.Duration) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- w.Wait(timeout) }()
	return ended
}

func (p *party) awake(ended <-chan error, what string) {
	p.tb.Helper()
	select {
	case err := <-ended:
		if err != nil {
			p.fatalf("Wait, %s: %v", what, err)
		}
	case <-time.After(p.f.Patience):
		p.stuck = true
		p.fatalf("Wait has not returned after %v: %s", p.f.Patience, what)
	}
}

func (q *port) awaitPoll(w fabric.Waiter, timeout time.Duration, what string, done func() bool) {
	q.tb.Helper()
	deadline := time.Now().Add(q.f.Patience)
	for {
		q.poll(batchMax)
		if done() {
			return
		}
		q.awake(q.asleep(w, timeout), what)
		if time.Now().After(deadline) {
			q.fatalf("still waiting and polling after %v: %s", q.f.Patience, what)
		}
	}
}

func testWaitTimesOut(t *testing.T, f *Fixture) {
	q := newPort(t, f)
	w := q.waiter()
	q.stock(2)
	q.awake(q.asleep(w, 0), "with a timeout of 0")
	const nap = 20 * time.Millisecond
	start := time.Now()
	const naps = 10
	for range naps { // any single Wait may return early, but not all of them
		q.awake(q.asleep(w, nap), "with a timeout of 20 ms and no event")
	}
	if slept := time.Since(start); slept < nap {
		t.Errorf("%d waits of %v took %v together: it does not sleep", naps, nap, slept)
	}
}

// testWaitSeesDatagram sends a datagram to each endpoint of a domain that sleeps in Wait, and
// checks that Wait returns.
func testWaitSeesDatagram(t *testing.T, f *Fixture) {
	p := newParty(t, f, fabric.DomainConfig{})
	w := p.waiter()
	ports := []*port{p.open(f.Endpoint), p.open(f.Endpoint)}
	tx := newPort(t, f)
	for i := range 10 {
		rx := ports[i%2]
		rx.stock(1)
		want := pattern(uint64(i), 30)
		to := tx.insert(rx)
		rx.poll(batchMax)
		ended := p.asleep(w, -1)
		if i >= 5 { // the domain then sleeps; in earlier rounds, the send and the Wait race on purpose
			time.Sleep(2 * time.Millisecond)
		}
		tx.send(to, want)
		p.awake(ended, "a datagram arrives")
		rx.awaitPoll(w, -1, "a datagram has been sent", func() bool { return len(rx.arrived) > 0 })
		rx.expect(want)
	}
}

// testWaitSeesEarlierDatagram calls Wait when a datagram has already arrived, and checks that Wait
// returns.
func testWaitSeesEarlierDatagram(t *testing.T, f *Fixture) {
	rx, tx := newPort(t, f), newPort(t, f)
	w := rx.waiter()
	to := tx.insert(rx)
	for i := range uint64(10) {
		rx.stock(1)
		want := pattern(i, 30)
		tx.send(to, want)
		rx.awake(rx.asleep(w, -1), "a datagram arrived before the call")
		rx.awaitPoll(w, -1, "a datagram arrived before", func() bool { return len(rx.arrived) > 0 })
		rx.expect(want)
	}
}

func testWaitSeesSendCompletion(t *testing.T, f *Fixture) {
	rx, tx := newPort(t, f), newPort(t, f)
	w := tx.waiter()
	size := bigSend(tx.caps)
	if size == 0 {
		t.Skipf("%s: every send is injected, none completes", f.Name)
	}
	tx.stock(1)
	rx.stock(10)
	to := tx.insert(rx)
	for i := range uint64(10) {
		sends := []fabric.Send{tx.load(to, pattern(i, size))}
		if n, err := tx.post(sends); err != nil {
			t.Fatalf("Post: %d, %v", n, err)
		}
		tx.awake(tx.asleep(w, -1), "a send completes")
		tx.awaitPoll(w, -1, "a send completes", func() bool { return tx.sending == 0 })
	}
}

func testWakeEndsWait(t *testing.T, f *Fixture) {
	q := newPort(t, f)
	w := q.waiter()
	q.stock(1)
	for i := range 20 {
		ended := q.asleep(w, -1)
		if i%4 == 3 {
			time.Sleep(2 * time.Millisecond) // the domain sleeps by now
		}
		var callers sync.WaitGroup
		for range 1 + i%3 {
			callers.Go(w.Wake)
		}
		q.awake(ended, "another goroutine calls Wake")
		callers.Wait()
	}
}

func testWakeBeforeWait(t *testing.T, f *Fixture) {
	q := newPort(t, f)
	w := q.waiter()
	for range 10 {
		w.Wake()
		q.awake(q.asleep(w, -1), "Wake was called before")
	}
	if n := q.poll(batchMax); n != 0 {
		t.Errorf("Wake made %d completions", n)
	}
	if err := q.dom.Close(); err != nil {
		t.Fatal(err)
	}
	w.Wake()
	if err := w.Wait(time.Second); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Wait after Close: %v, want ErrClosed", err)
	}
	w.Wake()
}

func testWaitAndSignals(t *testing.T, f *Fixture) {
	rx, tx := newPort(t, f), newPort(t, f)
	w := rx.waiter()
	rx.stock(1)
	to := tx.insert(rx)
	interrupt, stop := interrupter(t)
	defer stop()
	ended := make(chan error, 1)
	for i := range 5 {
		ready := make(chan int, 1)
		go func() {
			tid, unlock := lockThread()
			defer unlock()
			ready <- tid
			ended <- w.Wait(time.Minute)
		}()
		tid := <-ready
		for range 20 {
			interrupt(tid)
			time.Sleep(200 * time.Microsecond)
		}
		want := pattern(uint64(i), 20)
		tx.send(to, want)
		rx.awake(ended, "a datagram comes after signals")
		rx.awaitPoll(w, -1, "a datagram after signals", func() bool { return len(rx.arrived) > 0 })
		rx.expect(want)
		rx.stock(1)
	}
}
