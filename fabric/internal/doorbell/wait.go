// Package doorbell is how providers whose datagrams arrive on other goroutines of the process let a
// Domain's goroutine sleep. A ring costs one atomic load while the owner is awake.
//
//	owner:   says that it sleeps, then looks at its queues
//	sender:  fills a queue, then looks whether the owner sleeps
//
// So one of the two sees the other, and no ring is lost. RingIfAsleep and Wake belong to any
// goroutine, Wait and Arm to the one that uses the Domain, Sleep to one goroutine at a time.
package doorbell

import (
	"sync/atomic"
	"time"
)

// Bell wakes the goroutine that sleeps on it. New makes one.
type Bell struct {
	asleep atomic.Bool
	woken  atomic.Bool // a Wake that no sleep has answered yet
	ring   chan struct{}
	timer  *time.Timer // belongs to the sleeper; reused, so that sleeping allocates nothing
}

// New returns a Bell.
func New() *Bell {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &Bell{ring: make(chan struct{}, 1), timer: timer}
}

// RingIfAsleep ends a sleep in progress, after a queue was filled.
func (b *Bell) RingIfAsleep() {
	if b.asleep.Load() {
		b.pull()
	}
}

// Wake ends the sleep in progress, or the next one.
func (b *Bell) Wake() {
	b.woken.Store(true)
	b.pull()
}

func (b *Bell) pull() {
	select {
	case b.ring <- struct{}{}:
	default: // it rings already
	}
}

// Wait returns when pollable says true, on a ring, or after timeout (negative: no limit).
func (b *Bell) Wait(timeout time.Duration, pollable func() bool) {
	if b.Arm(pollable) && timeout != 0 {
		b.Sleep(timeout)
	}
	b.asleep.Store(false)
}

// Arm prepares a Sleep. It returns false if the owner should poll first: pollable says true, or a
// Wake has not been answered.
func (b *Bell) Arm(pollable func() bool) bool {
	select {
	case <-b.ring: // left over from an earlier sleep: its cause is looked at below
	default:
	}
	b.asleep.Store(true)
	if b.woken.Swap(false) || pollable() {
		b.asleep.Store(false)
		return false
	}
	return true
}

// Sleep returns on a ring since Arm, or after timeout (negative: no limit).
func (b *Bell) Sleep(timeout time.Duration) {
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
	b.asleep.Store(false)
	b.woken.Store(false) // a Wake that came meanwhile has ended this sleep
}
