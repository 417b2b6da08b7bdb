package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
)

// polling is the state of a module's polls between two calls of Progress.
type polling struct {
	pass          uint64         // number of calls of Progress
	fastLast      bool           // the latest call delivered a fragment early
	booksFirst    bool           // no early delivery: a reply carries the ACK of its request
	dataLast      bool           // the latest message came on the data channel
	deliveredSeen uint64         // messages delivered when the data channel was last considered
	rxQueuedMax   time.Duration  // longest time that the packets being handled waited unread
	restUntil     Time           // until this time a call that finds nothing only polls (see rest)
	resumeUntil   Time           // restUntil before the latest early delivery
	exchanged     bool           // express has sent a message after takeFirst
	found         bool           // this call has found a completion
	askEnded      bool           // an operation has got its reply since the last reset
	readier       fabric.Readier // set by ReadyFd
}

// receiveFirst polls the command channel, unless this call of Progress may skip the channel.
func (m *Module) receiveFirst(mayFast bool) (n int, fast bool, err error) {
	c := &m.port.Command
	if mayFast && m.dataLast && m.port.Data.Idle() > 0 && c.Rests(m.clock.Now) {
		return 0, false, nil
	}
	c.NoteIdle()
	if mayFast && !m.landing.Due(c) {
		got, err := c.Poll(m.clock.Now, 1)
		return m.receiveFound(got, err)
	}
	_, err = m.poll(c, m.cfg.limits.PollBatch, &n)
	if n > 0 {
		c.NoteFound()
		m.dataLast = false
	}
	return n, false, err
}

// receiveFound handles the result of receiveFirst's poll for one completion, and polls for
// further completions.
func (m *Module) receiveFound(got int, err error) (n int, fast bool, _ error) {
	c := &m.port.Command
	more, fast, err := m.takeFirst(c, got, err, &n)
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.limits.PollBatch, &n)
	}
	if n > 0 {
		c.NoteFound()
		m.dataLast = false
	}
	return n, fast, err
}

// takeFirst handles the result of a poll of channel c for one completion. A fragment of one
// packet is delivered to its handler at once, and the receive state is updated by the next call
// of Progress. The early delivery is the fast receive path of Open MPI's usnic
// (btl_usnic_component_progress, btl_usnic_recv_fast). The result more of takeFirst is true if
// further completions may follow, and fast if the rest of Progress is left to the next call.
func (m *Module) takeFirst(c *port.Channel, got int, err error, n *int) (more, fast bool, _ error) {
	if got == 0 && err == nil {
		return false, false, nil
	}
	if err != nil {
		return false, false, broken(c, err)
	}
	m.resumeUntil, m.exchanged = m.restUntil, false
	m.found, m.restUntil = true, 0
	m.rxQueuedMax = c.Queued()
	comp := &c.Completions(got)[0]
	m.askEnded = false
	if comp.Op == fabric.OpRecv {
		*n++
		m.fastLast = m.receiveFast(c, comp)
	}
	if !m.fastLast {
		m.handle(c, comp)
		c.PostReceives()
	}
	if m.askEnded && m.outbox.due() {
		m.findRoom()
		m.callOut()
		m.fastLast = true
	}
	return true, m.fastLast, nil
}

// receiveAll polls the data channel, unless this call of Progress may skip the channel. The
// argument due forces the poll.
func (m *Module) receiveAll(mayFast, due bool) (n int, fast bool, err error) {
	c := &m.port.Data
	delivered := m.stats.counters[CntDelivered]
	if delivered != m.deliveredSeen {
		m.dataLast = false
	}
	if !m.dataLast && !due && c.Rests(m.clock.Now) {
		m.deliveredSeen = delivered
		return 0, false, nil
	}
	more := true
	if m.landing.OneByOne(c.Idle() > 0) {
		if c.Idle() > 0 && mayFast && !m.landing.Armed() {
			got, e := c.Poll(m.clock.Now, 1)
			more, fast, err = m.takeFirst(c, got, e, &n)
		} else {
			more, err = m.poll(c, 1, &n)
		}
	}
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.limits.PollBatch, &n)
	}
	if n > 0 {
		c.NoteFound()
	} else {
		c.NoteIdle()
	}
	if m.deliveredSeen = m.stats.counters[CntDelivered]; m.deliveredSeen != delivered {
		m.dataLast = true
	}
	return n, fast, err
}

// poll polls up to limit completions of a channel, handles them, and adds the number of received
// packets to *n. The result more of poll is true if further completions may follow.
func (m *Module) poll(c *port.Channel, limit int, n *int) (more bool, err error) {
	var got int
	landed := m.landing.On(c)
	if landed {
		got, err = m.pollLanding(limit)
		landed = m.landing.Landed()
	} else {
		got, err = c.Poll(m.clock.Now, limit)
	}
	if err != nil {
		return false, broken(c, err)
	}
	left := c.Left()
	if got > 0 {
		m.found, m.restUntil = true, 0
	}
	comps := c.Completions(got)
	m.rxQueuedMax = c.Queued()
	for i := range comps {
		if comps[i].Op == fabric.OpRecv {
			*n++
		}
		if !landed {
			m.handle(c, &comps[i])
		}
	}
	if landed {
		m.handleLanded(c, comps)
	}
	c.PostReceives()
	return left, nil
}

func broken(c *port.Channel, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("btl: %s channel: %w", c.Which(), err)
}

// handle processes one completion of channel c.
func (m *Module) handle(c *port.Channel, comp *fabric.Completion) {
	if comp.Op == fabric.OpSend {
		m.dirty = true
		m.sched.SetBlocked(false)
		if comp.Errno != 0 {
			m.stats.counters[CntSendCompletionErrors]++
			m.breakOff(comp.Buf)
		}
		c.SendDone(comp.Buf)
		m.settleSends()
		return
	}
	c.Received(1)
	m.port.Keeper.Hold(comp.Buf)
	m.receive(c, comp)
	c.Return(m.port.Keeper.Held())
}
