package impair

import (
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// napMax is the longest time that Wait sleeps if the inner Domain does not implement fabric.Waiter.
const napMax = 100 * time.Microsecond

// realClock returns the default clock of a Domain.
func realClock() func() mono.Time {
	start := time.Now()
	return func() mono.Time { return mono.Time(time.Since(start)) }
}

// SetClock replaces the clock that the Domain reads to decide when the delay of a datagram is over.
// SetClock must be called before the first endpoint is opened.
func (d *Domain) SetClock(now func() mono.Time) { d.now = now }

// Wait implements fabric.Waiter. Wait returns at the latest when the next reordered or delayed
// datagram is due for delivery. If the inner Domain is no fabric.Waiter, Wait returns after 100 us
// at most.
func (d *Domain) Wait(timeout time.Duration) error {
	if d.closed {
		return fabric.ErrClosed
	}
	due := mono.Never
	for _, e := range d.endpoints {
		if e.ready.Len() > 0 && e.posted.Len() > 0 {
			return nil
		}
		due = due.Min(e.nextDue())
	}
	if due != mono.Never {
		left := due.Sub(d.now())
		if left <= 0 {
			return nil
		}
		if timeout < 0 || left < timeout {
			timeout = left
		}
	}
	if d.waiter == nil {
		if timeout < 0 || timeout > napMax {
			timeout = napMax
		}
		time.Sleep(timeout)
		return nil
	}
	return d.waiter.Wait(timeout)
}

// Tend implements fabric.Tender.
func (d *Domain) Tend() {
	if t, ok := d.inner.(fabric.Tender); ok {
		t.Tend()
	}
}

// Wake implements fabric.Waiter. If the inner Domain is no fabric.Waiter, Wake does nothing,
// because Wait then returns after 100 us at most.
func (d *Domain) Wake() {
	if d.waiter != nil {
		d.waiter.Wake()
	}
}
