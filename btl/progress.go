package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/peer"
)

// If the previous call of Progress was at least tendGap ago, Progress calls the port's method Tend,
// which performs work that the provider otherwise performs only once in many polls.
const tendGap = time.Millisecond

// Progress performs all pending work of the module. Progress receives packets and calls their
// handlers, handles expired timers, retransmits lost packets, sends new packets, acknowledges
// received packets, and calls the OnDone functions of ended sends. If the argument "now" of
// Progress is before the module's time, Progress uses the module's time instead. Progress never
// blocks, and returns the number of packets received. If the first received packet is a whole
// fragment, a call of Progress can deliver just this fragment (fast receive), and leave all
// remaining work to the next call of Progress. While the queue of messages for PullArrivals is full
// (see HandlePulled), Progress does nothing.
//
// Progress returns ErrReentrant inside a handler or callback, and ErrClosed after Close. If
// Progress returns an error other than ErrReentrant and ErrClosed, the fabric has failed, and the
// program must close the module.
func (m *Module) Progress(now Time) (int, error) {
	if m.inProgress {
		return 0, ErrReentrant
	}
	if m.closed {
		return 0, ErrClosed
	}
	if m.rx.Arrivals.Full() {
		return 0, nil
	}
	m.inProgress = true
	m.all.Tick(now)
	m.all.Clock.BeginPass(m.fastLast)
	if m.all.Clock.Gap >= tendGap {
		m.all.Port.Tend(m.all.Clock.PassAt)
	}
	n, err := m.progress()
	m.all.Clock.EndPass()
	m.inProgress = false
	if m.closeAsked {
		m.closeAsked = false
		if e := m.Close(); err == nil {
			err = e
		}
	}
	return n, err
}

// The method "progress" performs the steps of one call of Progress in the following order:
//  1. Step 1 completes a fast receive of the previous call, and sends the shared packets (Packs) to
//     which small fragments could still be added.
//  2. Step 2 polls the command channel and the data channel, and handles the received packets. If
//     the first received packet is a whole fragment, Progress can call the fragment's handler and
//     return without the remaining steps (fast receive).
//  3. Step 3 calls the OnDone functions of ended sends, and the callbacks for events, flushes and
//     free resources (callOut). Step 5 sends the messages that callbacks have queued with Send.
//  4. Step 4 handles expired timers (Expire). Step 4 comes after step 2, because a packet that step
//     2 has received can stop a timer.
//  5. Step 5 retransmits lost packets (SendAgain), and then sends new packets (Serve), which
//     contain ACKs.
//  6. Step 6 sends the ACKs that no packet with data has carried (Acknowledge).
//  7. Step 7 sends a requested round-trip probe, and checks for receive overruns (TendOvercommit).
//  8. Step 8 posts the batches of both channels, and the receive buffers.
//  9. Step 9 removes unused peer addresses from the fabric, calls the callbacks that have become
//     due since step 3, and publishes the counters.
func (m *Module) progress() (int, error) {
	m.counters[CntPasses]++
	if m.fastLast && m.restsOn() {
		m.fastLast = false
	}
	if m.all.Clock.Now >= m.all.Rest.Until {
		m.rx.FinishDeferred()
		if m.all.Sched.Packs > 0 {
			m.all.Packs.SendPacks()
		}
		if len(m.all.Port.Data.Batch) > 0 && m.all.Clock.Gap >= stoodLeast {
			m.all.Buffers.LeaveLate()
		}
	}
	mayFast := !m.fastLast && len(m.all.Port.Data.Batch) == 0
	m.fastLast, m.found = false, false
	n, fast, err := m.receiveFirst(mayFast)
	if fast || err != nil {
		return n, err
	}
	return m.goOn(n, mayFast)
}

// If the previous call of Progress was at least stoodLeast ago, LeaveLate posts the packets of the
// unfinished batch, and restarts their retransmission timers.
const stoodLeast = 100 * time.Microsecond

// goOn performs the rest of a call of Progress, beginning with the poll of the data channel. The
// argument n of goOn is the number of packets that the same call of Progress has already received.
func (m *Module) goOn(n int, mayFast bool) (int, error) {
	resting := m.all.Clock.Now < m.all.Rest.Until
	got, fast, err := m.receiveAll(mayFast && !m.all.Outbox.Due())
	n += got
	if fast || err != nil {
		return n, err
	}
	if resting && !m.found {
		return 0, nil
	}
	m.all.Outbox.FindRoom(m.found)
	m.callOut()
	m.all.Expire()
	m.rx.ExpireParts()
	m.all.Sent.SendAgain()
	m.all.Sender.Serve()
	m.all.Acks.NoteLull(n == 0)
	if !m.found {
		m.all.Acks.Ripen(m.all.Clock.Now, &m.all.Rules)
	}
	m.all.Acks.Acknowledge()
	m.all.Overcommit.TendOvercommit()
	m.all.Buffers.PostAll()
	m.all.Outbox.FindRoom(m.found)
	if len(m.all.Port.Leaving) > 0 { // before a notified application connects to the address again
		m.all.Port.RemoveLeft(m.all.Clock.Now)
	}
	m.callOut()
	if n > 0 {
		m.all.MarkDirty()
	}
	if age := m.all.Clock.Now.Sub(m.all.PublishedAt); m.all.Dirty &&
		(age >= publishEvery || n == 0 && age >= peer.PublishIdle) {
		m.publish()
	}
	m.all.Rest.Set(0)
	if !m.found && m.all.MayRest() {
		// Until a packet arrives, the application calls a method, or a deadline of the module passes, the
		// following calls of Progress only poll.
		m.all.Rest.Set(m.untilPublished(m.deadline()))
	}
	return n, nil
}

// restsOn completes a fast receive over a reliable fabric. If the module has no work except
// polling, restsOn returns true, and the next calls of Progress only poll. If the module has other
// work, restsOn returns false.
func (m *Module) restsOn() bool {
	until := m.all.Rest.ResumeUntil()
	if m.all.Clock.Now >= until || !m.all.Port.Data.MayRest(m.all.Clock.Now) ||
		!m.rx.DeferredCounted() {
		return false
	}
	m.rx.FinishDeferred()
	if len(m.all.Port.Command.Repost) > 0 {
		m.all.Port.Command.PostReceives()
	}
	until = m.untilPublished(until.Min(m.all.Acks.AckDeadline()))
	if m.all.Clock.Now >= until || len(m.all.Port.Command.Repost) > 0 || m.all.Outbox.Due() {
		return false
	}
	m.all.Rest.Set(until)
	return true
}

func (m *Module) checkRest() error {
	until := m.all.Rest.Until
	if d := m.deadline(); until > m.all.Clock.Now && d < until && !m.closed {
		return fmt.Errorf("at %d passes rest until %d, but the deadline is %d", m.all.Clock.Now, until, d)
	}
	return nil
}

// Deadline returns the time by which Progress must be called again even if no packet arrives. A
// result of Deadline at or before the present time means that work is due, for example after a call
// of Progress that has ended early. Deadline returns Never if no work is scheduled. Work that waits
// for a buffer or for room in a channel has no deadline, because a packet or completion ends the
// wait.
func (m *Module) Deadline() Time {
	if m.rx.Arrivals.Full() { // until PullArrivals has emptied the queue
		return Never
	}
	return m.deadline()
}

func (m *Module) deadline() Time {
	if m.fastLast || m.rx.Deferred.Pending {
		return m.all.Clock.Now
	}
	return m.all.Deadline().Min(m.rx.PartsDeadline())
}
