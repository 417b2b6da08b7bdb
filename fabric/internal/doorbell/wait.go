// Package doorbell lets the goroutine that uses a Domain (the owner) sleep until a goroutine that
// sends datagrams to the Domain (a sender) wakes the owner. While the owner of the Domain is awake,
// RingIfAsleep costs one atomic load.
//
//	owner    says that it sleeps --> looks at its queues
//	sender   fills a queue       --> looks whether the owner sleeps
//
// No wake-up is lost, because the owner first sets its sleep flag and then reads its queues, and a
// sender first fills a queue and then reads the sleep flag. RingIfAsleep and Wake are safe for
// concurrent use. Only the goroutine that uses the Domain may call Wait and Arm, and one goroutine
// at a time may call Sleep.
package doorbell

import (
	"sync/atomic"
	"time"
)

// Bell is an object on which the owner of a Domain sleeps, and through which senders wake the
// owner. New makes a Bell.
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

// RingIfAsleep ends the sleep in progress, if there is one. A sender calls RingIfAsleep after
// adding an entry to the receiver's queue.
func (b *Bell) RingIfAsleep() {
	if b.asleep.Load() {
		b.pull()
	}
}

// Wake ends the sleep in progress, or the next sleep if none is in progress.
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

// Wait returns at once if the function "pollable" returns true. If the function "pollable" returns
// false, Wait returns when RingIfAsleep or Wake is called, or after the timeout (a negative timeout
// means no limit).
func (b *Bell) Wait(timeout time.Duration, pollable func() bool) {
	if b.Arm(pollable) && timeout != 0 {
		b.Sleep(timeout)
	}
	b.asleep.Store(false)
}

// Arm prepares a call of Sleep, and reports whether the caller should call Sleep. If the function
// "pollable" returns true, or if Wake was called, Arm returns false, and the caller should poll.
func (b *Bell) Arm(pollable func() bool) bool {
	select {
	case <-b.ring: // discards a ring from the time of an earlier sleep
	default:
	}
	b.asleep.Store(true)
	if b.woken.Swap(false) || pollable() {
		b.asleep.Store(false)
		return false
	}
	return true
}

// Sleep returns when RingIfAsleep or Wake has been called after Arm, or after the timeout (a
// negative timeout means no limit).
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
	b.woken.Store(false) // a concurrent Wake has ended this sleep
}
