package mem

import (
	"sync/atomic"
	"time"
)

// doorbell lets a domain's goroutine sleep until somebody delivers to one of its endpoints. A
// sender pays one atomic load for a domain that is awake.
//
// No ring is lost: the sleeper says that it sleeps and then looks at its queues; a sender fills a
// queue and then looks whether the owner sleeps. One of the two sees the other.
type doorbell struct {
	asleep atomic.Bool
	woken  atomic.Bool // a Wake that no wait has answered yet
	ring   chan struct{}
	timer  *time.Timer // belongs to the sleeper; reused, so that sleeping allocates nothing
}

func newDoorbell() *doorbell {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &doorbell{ring: make(chan struct{}, 1), timer: timer}
}

func (b *doorbell) ringIfAsleep() {
	if b.asleep.Load() {
		b.pull()
	}
}

// wake ends the wait in progress or the next one. Any goroutine.
func (b *doorbell) wake() {
	b.woken.Store(true)
	b.pull()
}

func (b *doorbell) pull() {
	select {
	case b.ring <- struct{}{}:
	default: // it rings already
	}
}

// wait returns when pollable says true, on a ring, or after timeout (negative: no limit).
func (b *doorbell) wait(timeout time.Duration, pollable func() bool) {
	select {
	case <-b.ring: // left over from an earlier wait: its cause is looked at below
	default:
	}
	b.asleep.Store(true)
	defer b.asleep.Store(false)
	if b.woken.Swap(false) || timeout == 0 || pollable() {
		return
	}
	if timeout < 0 {
		<-b.ring
	} else {
		b.timer.Reset(timeout)
		select {
		case <-b.ring:
			b.timer.Stop()
		case <-b.timer.C:
		}
	}
	b.woken.Store(false) // a Wake that came meanwhile has ended this wait
}
