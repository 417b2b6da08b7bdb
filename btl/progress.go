package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
)

// tendGap is the time between two calls of Progress from which on Progress first calls the port's
// Tend, because the fabric relies on frequent calls.
const tendGap = time.Millisecond

// Progress performs all pending work of the module. Progress receives packets and calls their
// handlers, handles expired timers, retransmits lost packets, sends new packets, acknowledges
// received ones, and calls the OnDone functions of ended sends. If now is before the module's time,
// the module's time is used. Progress never blocks, and returns the number of packets received. A
// call that first finds a fragment of one packet may only deliver the fragment (fast receive), and
// leave all other work to the next call. Progress does nothing while the queue of messages for
// PullArrivals is full (HandlePulled).
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
	if m.arrivals.Full() {
		return 0, nil
	}
	m.inProgress = true
	m.tick(now)
	m.clock.BeginPass(m.fastLast)
	if m.clock.Gap >= tendGap {
		m.port.Tend(m.clock.PassAt)
	}
	n, err := m.progress()
	m.clock.EndPass()
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
//  4. Handle expired timers (expire), after the polls may have received the awaited answers.
//  5. Send lost packets (sendAgain), and then new packets (serve), which also contain ACKs.
//  6. Send the ACKs that were not sent as a part of another packet (acknowledge).
//  7. Measure round trips, and check for overruns of the receive buffers (tendOvercommit).
//  8. Post the batches of both channels, and the receive buffers.
//  9. Remove unused addresses, call the functions for ended sends, and publish the counters.
func (m *Module) progress() (int, error) {
	m.pass++
	m.stats.counters[CntPasses]++
	if m.fastLast && m.restsOn() {
		m.fastLast = false
	}
	if m.clock.Now >= m.restUntil {
		m.finishDeferred()
		if m.sched.packs > 0 {
			m.sendPacks()
		}
		if m.port.Data.Batched() > 0 && m.clock.Gap >= stoodLeast {
			m.leaveLate()
		}
	} else if !m.dataLast && !m.landing.Due(&m.port.Command) {
		return m.glance()
	}
	mayFast := !m.fastLast && m.port.Data.Batched() == 0
	m.fastLast, m.found = false, false
	n, fast, err := m.receiveFirst(mayFast)
	if fast || err != nil {
		return n, err
	}
	return m.goOn(n, mayFast, false)
}

// stoodLeast is the time between two calls of Progress from which on leaveLate restarts the timers
// of packets in the batch.
const stoodLeast = 100 * time.Microsecond

// leaveLate posts the packets of a burst before Progress polls the channels, and restarts the
// packets' retransmission timers. Timers of packets that the fabric refused during the latest
// call of Progress are not restarted, so that an unreachable peer is eventually declared dead.
func (m *Module) leaveLate() {
	c, some := &m.port.Data, false
	for i := range c.Batch() {
		b := c.Batch()[i].Buf
		if c.Stuck() || int(b) >= len(m.segs) || m.port.State(b) != port.Busy {
			continue
		}
		if ep := m.segs[b].ep; ep != nil && !ep.id.Counted {
			ep.snd.Leaves(m.clock.Now, segToken(b))
			some = true
		}
	}
	if some {
		m.post(c)
	}
}

// glance is the short form of Progress for a module without other work than a poll.
func (m *Module) glance() (n int, err error) {
	c := &m.port.Command
	m.found = false
	c.NoteIdle()
	got, err := c.Poll(m.clock.Now, 1)
	if got > 0 || err != nil {
		n, fast, err := m.receiveFound(got, err)
		if fast || err != nil {
			return n, err
		}
		return m.goOn(n, true, false)
	}
	if m.port.Data.Rests(m.clock.Now) {
		return 0, nil
	}
	return m.goOn(0, true, true)
}

// goOn performs the rest of a call of Progress, beginning with the poll of the data channel. The
// argument due forces the poll. The argument n of goOn is the number of packets that the call of
// Progress has received before.
func (m *Module) goOn(n int, mayFast, due bool) (int, error) {
	resting := m.clock.Now < m.restUntil
	got, fast, err := m.receiveAll(mayFast && !m.outbox.due(), due)
	n += got
	if fast || err != nil {
		return n, err
	}
	if resting && !m.found {
		return 0, nil
	}
	m.findRoom()
	m.callOut()
	m.expire()
	m.sendAgain()
	m.serve()
	m.acks.NoteLull(n == 0)
	if !m.found {
		m.acks.Ripen(m.clock.Now, &m.rules)
	}
	m.acknowledge()
	m.tendOvercommit()
	m.postAll()
	m.findRoom()
	if m.port.Leaving() > 0 { // before a notified application connects to the address again
		m.port.RemoveLeft(m.clock.Now)
	}
	m.callOut()
	if n > 0 {
		m.dirty = true
	}
	if m.dirty {
		m.maybePublish(n == 0)
	}
	if m.restUntil = 0; !m.found {
		m.rest()
	}
	return n, nil
}

// rest reduces the following calls of Progress to polls, until a packet arrives, the application
// calls a method, or a deadline of the module passes.
func (m *Module) rest() {
	if m.sched.Waiting() > 0 || m.sched.packs > 0 || m.credits.Stretched() || m.measure != nil ||
		m.port.Leaving() > 0 || m.port.ReceivesPending() ||
		len(m.outbox.wanting) > 0 {
		return
	}
	m.restUntil = m.deadline()
	if m.dirty {
		m.restUntil = m.restUntil.Min(m.publishedAt.Add(publishIdle))
	}
}

// restsOn finishes a fast receive over a reliable fabric, and reduces the following calls of
// Progress to polls again, if no other work is due. restsOn returns false if a full call of
// Progress is needed.
func (m *Module) restsOn() bool {
	d := &m.deferred
	if !m.exchanged || m.clock.Now >= m.resumeUntil || !d.pending || d.on != &m.port.Command ||
		!m.port.Data.MayRest(m.clock.Now) {
		return false
	}
	if ep := m.peers.Lookup(d.tag); ep == nil || !ep.id.Counted || ep.id.Handshake() != nil {
		return false
	}
	m.finishDeferred()
	m.port.Command.PostReceives()
	until := m.resumeUntil.Min(m.ackDeadline())
	if m.dirty {
		until = until.Min(m.publishedAt.Add(publishIdle))
	}
	if m.clock.Now >= until || m.port.Command.ReceivesPending() > 0 || m.outbox.due() {
		return false
	}
	m.restUntil = until
	return true
}

func (*checker) checkRest(m *Module) error {
	if d := m.deadline(); m.restUntil > m.clock.Now && d < m.restUntil && !m.closed {
		return fmt.Errorf("at %d passes rest until %d, but the deadline is %d", m.clock.Now,
			m.restUntil, d)
	}
	return nil
}

// Deadline returns the time by which Progress must be called again even if no packet
// arrives. A Deadline at or before the present time means that work is due, for example
// after a call of Progress that ended early. Deadline returns Never if no work is
// scheduled. Work that waits for a buffer or for room in a channel has no deadline, because
// a packet or completion ends the wait.
func (m *Module) Deadline() Time {
	if m.arrivals.Full() { // until PullArrivals has emptied the queue
		return Never
	}
	return m.deadline()
}

func (m *Module) deadline() Time {
	if m.fastLast || m.deferred.pending || m.port.Pending() || m.sched.Ready() ||
		m.outbox.due() || m.roomDue() || m.recovery.ResendsWaiting() > 0 && m.port.Data.Room() > 0 {
		return m.clock.Now
	}
	d := m.recovery.Deadline().Min(m.watches.Deadline()).Min(m.paths.Deadline())
	d = d.Min(m.clock.Now.Add(m.handshakes.RequestsDeadline().Sub(m.clock.Unpaused)))
	d = d.Min(m.sched.pauses.Deadline())
	if m.draining && m.peers.Len() > 0 {
		d = d.Min(m.drainUntil)
	}
	return d.Min(m.ackDeadline())
}
