package btl

import (
	"fmt"
	"time"
)

// tendGap is the time between two calls of Progress from which on Progress first calls the port's
// Tend, because the fabric relies on frequent calls.
const tendGap = time.Millisecond

// Progress performs all pending work of the module. Progress receives packets and calls their
// handlers, handles expired timers, retransmits lost packets, sends new packets, acknowledges
// received packets, and calls the OnDone functions of ended sends. If now is before the module's
// time, the module's time is used. Progress never blocks, and returns the number of packets
// received. A call that first finds a fragment of one packet may only deliver the fragment (fast
// receive), and leave all other work to the next call. Progress does nothing while the queue of
// messages for PullArrivals is full (HandlePulled).
//
// An error of Progress means that the fabric has failed, and that the module can only be
// closed. Progress returns ErrReentrant inside a handler or callback, and ErrClosed after
// Close.
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

// progress performs the steps of one call of Progress in the following order:
//  1. Complete a fast receive of the previous call, and send the open Packs.
//  2. Poll the command channel and the data channel, and handle the received packets. If the first
//     packet is a single fragment, only call its handler (fast receive).
//  3. Call the functions for ended sends (callOut), so that their messages are sent in this call.
//  4. Handle expired timers (Expire), after the polls may have received the awaited answers.
//  5. Send lost packets (SendAgain), and then new packets (Serve), which also contain ACKs.
//  6. Send the ACKs that were not sent as a part of another packet (Acknowledge).
//  7. Measure round trips, and check for overruns of the receive buffers (TendOvercommit).
//  8. Post the batches of both channels, and the receive buffers.
//  9. Remove unused addresses, call the functions for ended sends, and publish the counters.
func (m *Module) progress() (int, error) {
	m.all.Rest.BeginPass()
	m.all.Count[CntPasses]++
	if m.fastLast && m.restsOn() {
		m.fastLast = false
	}
	if m.all.Clock.Now >= m.all.Rest.Until() {
		m.rx.FinishDeferred()
		if m.all.Sched.Packs > 0 {
			m.all.Packs.SendPacks()
		}
		if m.all.Port.Data.Batched() > 0 && m.all.Clock.Gap >= stoodLeast {
			m.all.Buffers.LeaveLate()
		}
	} else if !m.dataLast && !m.rx.Landings.Plan.Due(&m.all.Port.Command) {
		return m.glance()
	}
	mayFast := !m.fastLast && m.all.Port.Data.Batched() == 0
	m.fastLast, m.found = false, false
	n, fast, err := m.receiveFirst(mayFast)
	if fast || err != nil {
		return n, err
	}
	return m.goOn(n, mayFast, false)
}

// stoodLeast is the time between two calls of Progress from which on LeaveLate restarts the timers
// of packets in the batch.
const stoodLeast = 100 * time.Microsecond

// glance is the short form of Progress for a module without other work than a poll.
func (m *Module) glance() (n int, err error) {
	c := &m.all.Port.Command
	m.found = false
	c.NoteIdle()
	got, err := c.Poll(m.all.Clock.Now, 1)
	if got > 0 || err != nil {
		n, fast, err := m.receiveFound(got, err)
		if fast || err != nil {
			return n, err
		}
		return m.goOn(n, true, false)
	}
	if m.all.Port.Data.Rests(m.all.Clock.Now) {
		return 0, nil
	}
	return m.goOn(0, true, true)
}

// goOn performs the rest of a call of Progress, beginning with the poll of the data channel. The
// argument due forces the poll. The argument n of goOn is the number of packets that the call of
// Progress has received before.
func (m *Module) goOn(n int, mayFast, due bool) (int, error) {
	resting := m.all.Clock.Now < m.all.Rest.Until()
	got, fast, err := m.receiveAll(mayFast && !m.all.Outbox.Due(), due)
	n += got
	if fast || err != nil {
		return n, err
	}
	if resting && !m.found {
		return 0, nil
	}
	m.all.Outbox.FindRoom()
	m.callOut()
	m.all.Expire()
	m.all.Sent.SendAgain()
	m.all.Sender.Serve()
	m.all.Acks.NoteLull(n == 0)
	if !m.found {
		m.all.Acks.Ripen(m.all.Clock.Now, &m.all.Rules)
	}
	m.all.Acks.Acknowledge()
	m.all.Overcommit.TendOvercommit()
	m.all.Buffers.PostAll()
	m.all.Outbox.FindRoom()
	if m.all.Port.Leaving() > 0 { // before a notified application connects to the address again
		m.all.Port.RemoveLeft(m.all.Clock.Now)
	}
	m.callOut()
	if n > 0 {
		m.all.MarkDirty()
	}
	m.maybePublish(n == 0)
	m.all.Rest.Set(0)
	if !m.found {
		m.rest()
	}
	return n, nil
}

// rest reduces the following calls of Progress to polls, until a packet arrives, the application
// calls a method, or a deadline of the module passes.
func (m *Module) rest() {
	if !m.all.MayRest() {
		return
	}
	m.all.Rest.Set(m.untilPublished(m.deadline()))
}

// restsOn finishes a fast receive over a reliable fabric, and reduces the following calls of
// Progress to polls again, if no other work is due. restsOn returns false if a full call of
// Progress is needed.
func (m *Module) restsOn() bool {
	until := m.all.Rest.ResumeUntil()
	if m.all.Clock.Now >= until || !m.all.Port.Data.MayRest(m.all.Clock.Now) || !m.rx.DeferredAlone() {
		return false
	}
	m.rx.FinishDeferred()
	m.all.Port.Command.PostReceives()
	until = m.untilPublished(until.Min(m.all.Acks.AckDeadline()))
	if m.all.Clock.Now >= until || m.all.Port.Command.ReceivesPending() > 0 || m.all.Outbox.Due() {
		return false
	}
	m.all.Rest.Set(until)
	return true
}

func (m *Module) checkRest() error {
	until := m.all.Rest.Until()
	if d := m.deadline(); until > m.all.Clock.Now && d < until && !m.closed {
		return fmt.Errorf("at %d passes rest until %d, but the deadline is %d", m.all.Clock.Now, until, d)
	}
	return nil
}

// Deadline returns the time by which Progress must be called again even if no packet
// arrives. A Deadline at or before the present time means that work is due, for example
// after a call of Progress that ended early. Deadline returns Never if no work is
// scheduled. Work that waits for a buffer or for room in a channel has no deadline, because
// a packet or completion ends the wait.
func (m *Module) Deadline() Time {
	if m.rx.Arrivals.Full() { // until PullArrivals has emptied the queue
		return Never
	}
	return m.deadline()
}

func (m *Module) deadline() Time {
	if m.fastLast || m.rx.Pending() {
		return m.all.Clock.Now
	}
	return m.all.Deadline()
}
