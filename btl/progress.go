package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
)

// tendGap is the time between two passes from which on the port tends its fabric, which relies on
// frequent passes.
const tendGap = time.Millisecond

// Progress does one pass: it receives what has arrived, expires timers, sends again what is due,
// sends what is new, acknowledges, and calls handlers and OnDone functions. now must not go back:
// an instant before the latest that the module was given counts as that one. It never blocks, and
// returns the number of packets received. The call that finds a fragment of one packet first may
// only deliver it (fast receive); the next call does the rest of the pass. Progress does nothing
// while too many messages wait to be pulled (HandlePulled).
//
// An error means that the fabric is broken: the module can only be closed.
func (m *Module) Progress(now Time) (int, error) {
	if m.inProgress {
		return 0, ErrReentrant
	}
	if m.closed {
		return 0, ErrClosed
	}
	if m.keeping.full {
		return 0, nil
	}
	m.inProgress = true
	m.tick(now)
	m.beginPass(m.fastLast)
	if m.gap >= tendGap {
		m.port.Tend(m.passAt)
	}
	n, err := m.progress()
	m.endPass()
	m.inProgress = false
	if m.closeAsked {
		m.closeAsked = false
		if e := m.Close(); err == nil {
			err = e
		}
	}
	return n, err
}

// progress is the pass itself, in this order:
//
//	      what the latest pass left: book-keeping of a fast receive, open packs
//	                            |
//	      poll command channel -+- a lone fragment? handler, and done (fast receive)
//	                            |
//	      poll data channel ----+- likewise; large fragments land
//	                            |
//	                            |    handlers, ACKs and handshakes are handled as they come
//	                            v
//	callOut: functions of what has ended   outbox    so that what they send leaves in this pass
//	expire:  timers that ran out           timers    after the polls: an answer may have come
//	sendAgain, serve: lost, then new       scheduler before the ACKs, which ride on it
//	acknowledge: ACKs that found no ride   acks
//	tendOvercommit: round trips, overruns  overcommit
//	flush, receive buffers                 port      one call into the fabric for all of it
//	removeAddrs, callOut, publish          port, outbox, counters
func (m *Module) progress() (int, error) {
	m.pass++
	m.stats.counters[CntPasses]++
	if m.fastLast && m.restsOn() {
		m.fastLast = false
	}
	if m.now >= m.restUntil {
		m.finishDeferred()
		if m.sched.packs > 0 {
			m.sendPacks()
		}
		if m.port.Data.Batched() > 0 && m.gap >= stoodLeast {
			m.leaveLate()
		}
	} else if !m.dataLast && !m.landing.expects(&m.port.Command) {
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

// stoodLeast is the time between two passes from which on packets in the batch, sealed since the
// latest pass, have waited so long that their timers must be restarted.
const stoodLeast = 100 * time.Microsecond

// leaveLate posts the packets of a burst before the pass polls, and restarts their timers: the
// owner's absence must not count as path delay. Timers of packets that the fabric did not accept in
// the latest pass run on, or a peer that cannot be sent to would never be declared dead.
func (m *Module) leaveLate() {
	c, some := &m.port.Data, false
	for i := range c.Batch() {
		b := c.Batch()[i].Buf
		if c.Stuck() || int(b) >= len(m.segs) || m.port.State(b) != port.Busy {
			continue
		}
		if ep := m.segs[b].ep; ep != nil && !ep.id.Counted {
			ep.snd.Leaves(m.now, segToken(b))
			some = true
		}
	}
	if some {
		m.post(c)
	}
}

// glance is the short pass of a resting module. Nearly all such passes find nothing, and a waiting
// owner makes them in a tight loop: the shorter the pass, the sooner a message is seen.
func (m *Module) glance() (n int, err error) {
	c := &m.port.Command
	m.found = false
	c.NoteIdle()
	got, err := c.Poll(m.now, 1)
	if got > 0 || err != nil {
		n, fast, err := m.receiveFound(got, err)
		if fast || err != nil {
			return n, err
		}
		return m.goOn(n, true, false)
	}
	if m.port.Data.Rests(m.now) {
		return 0, nil
	}
	return m.goOn(0, true, true)
}

// goOn is the rest of a pass, from the poll of the data channel on; due forces that poll.
func (m *Module) goOn(n int, mayFast, due bool) (int, error) {
	resting := m.now < m.restUntil
	// A pass may end early only if it leaves no callback to be run.
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
	m.expire(n > 0)
	m.sendAgain()
	m.serve()
	m.acks.NoteLull(n == 0)
	if !m.found {
		m.acks.Ripen(m.now, &m.rules)
	}
	m.acknowledge()
	m.tendOvercommit()
	m.postAll()
	m.findRoom()
	if m.port.Leaving() > 0 { // before an owner who is told connects there again
		m.port.RemoveLeft(m.now)
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

// rest reduces the coming passes to polls, until a packet arrives, the owner calls a method, or a
// deadline of the module comes. A polling owner makes hundreds of passes for each packet: the
// shorter they are, the sooner the packet is seen.
func (m *Module) rest() {
	if m.sched.waiting() > 0 || m.sched.packs > 0 || m.credits.Stretched() || m.measure != nil ||
		m.port.Leaving() > 0 || m.port.ReceivesPending() ||
		len(m.outbox.wanting) > 0 {
		return
	}
	m.restUntil = m.deadline()
	if m.dirty {
		m.restUntil = m.restUntil.Min(m.publishedAt.Add(publishIdle))
	}
}

// restsOn does the book-keeping of a fast receive over a reliable fabric, and lets passes rest on
// as before, if nothing else is to do: a lone message came, and one was sent since, whose answer
// may be here already. In any other case a full pass is made.
func (m *Module) restsOn() bool {
	d := &m.deferred
	if !m.exchanged || m.now >= m.resumeUntil || !d.pending || d.on != &m.port.Command ||
		!m.port.Data.MayRest(m.now) {
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
	if m.now >= until || m.port.Command.ReceivesPending() > 0 || m.outbox.due() {
		return false
	}
	m.restUntil = until
	return true
}

// checkRest verifies that a module has no work while its passes rest.
func (m *Module) checkRest(*checker) error {
	if d := m.deadline(); m.restUntil > m.now && d < m.restUntil && !m.closed {
		return fmt.Errorf("at %d passes rest until %d, but the deadline is %d", m.now, m.restUntil, d)
	}
	return nil
}

// Deadline is the instant by which Progress must be called again even if nothing arrives: at or
// before now if there is work to do (also after a pass that ended early), Never without any. It is
// the earliest deadline of the parts. Work that lacks a buffer, or room in a channel, has no
// deadline: it waits for the packet or completion that frees it.
func (m *Module) Deadline() Time {
	if m.keeping.full { // until the owner has pulled
		return Never
	}
	return m.deadline()
}

func (m *Module) deadline() Time {
	if m.fastLast || m.deferred.pending || m.port.Pending() || m.sched.ready() ||
		m.outbox.due() || m.roomDue() || m.recovery.ResendsWaiting() > 0 && m.port.Data.Room() > 0 {
		return m.now
	}
	d := m.recovery.Deadline().Min(m.watches.Deadline()).Min(m.paths.Deadline())
	if m.sched.pauseEnd != 0 {
		d = d.Min(m.sched.pauseEnd)
	}
	if m.draining && m.peers.Len() > 0 {
		d = d.Min(m.drainUntil)
	}
	return d.Min(m.ackDeadline())
}
