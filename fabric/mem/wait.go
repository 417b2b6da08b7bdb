package mem

import (
	"sync/atomic"
	"time"
)

// doorbell lets a domain's goroutine sleep until a sender delivers to one of the domain's
// endpoints. A sender pays one atomic load for a domain that is awake.
//
// No ring is lost. The sleeping goroutine first sets asleep, and then checks its queues. A sender
// first fills a queue, and then checks asleep. At least one of the two sees the change of the
// other.
type doorbell struct {
	asleep atomic.Bool
	woken  atomic.Bool // a Wake that no wait has handled yet
	ring   chan struct{}
	timer  *time.Timer // belongs to the sleeper; reused to avoid allocations
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

// wake ends the wait in progress or the next wait. Any goroutine may call wake.
func (b *doorbell) wake() {
	b.woken.Store(true)
	b.pull()
}

func (b *doorbell) pull() {
	select {
	case b.ring <- struct{}{}:
	default: // the bell rings already
	}
}

// wait returns when pollable returns true, on a ring, or after timeout (a negative timeout means no
// limit).
func (b *doorbell) wait(timeout time.Duration, pollable func() bool) {
	select {
	case <-b.ring: // a ring from before this wait, whose cause is checked below
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
	b.woken.Store(false) // a Wake during this wait has ended this wait
}
