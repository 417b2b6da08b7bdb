package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
)

// polling is the state that passes keep for later ones: which channel a pass may skip, and whether
// it may deliver a lone fragment before its book-keeping.
type polling struct {
	pass          uint64         // number of the pass
	fastLast      bool           // the latest pass has received fast
	booksFirst    bool           // never fast: an answer takes the ACK of its request along
	dataLast      bool           // the latest message came by the data channel
	deliveredSeen uint64         // messages, when the data channel was polled last, or not
	rxQueuedMax   time.Duration  // for how long what is handled now may have waited to be read
	restUntil     Time           // until then passes that find nothing end with their polls: see rest
	resumeUntil   Time           // restUntil as it was before the latest fast receive
	exchanged     bool           // a message has left by the shortest way since
	found         bool           // this pass has found something on a channel
	askEnded      bool           // an operation that was waited for has ended since this was reset
	readier       fabric.Readier // since somebody has asked for its descriptor
}

// receiveFirst polls the command channel, unless that is skipped in this pass. If the first
// completion is a tiny fragment it may be delivered fast.
func (m *Module) receiveFirst(mayFast bool) (n int, fast bool, err error) {
	c := &m.port.Command
	if mayFast && m.dataLast && m.port.Data.Idle() > 0 && c.Rests(m.now) {
		return 0, false, nil
	}
	c.NoteIdle()
	if mayFast && !m.landing.expects(c) {
		got, err := c.Poll(m.now, 1)
		return m.receiveFound(got, err)
	}
	_, err = m.poll(c, m.cfg.PollBatch, &n)
	if n > 0 {
		c.NoteFound()
		m.dataLast = false
	}
	return n, false, err
}

// receiveFound is the rest of receiveFirst, after its poll for one completion.
func (m *Module) receiveFound(got int, err error) (n int, fast bool, _ error) {
	c := &m.port.Command
	more, fast, err := m.takeFirst(c, got, err, &n)
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.PollBatch, &n)
	}
	if n > 0 {
		c.NoteFound()
		m.dataLast = false
	}
	return n, fast, err
}

// takeFirst handles the completion of a poll of a channel for one. A fragment of one packet for a
// handler is delivered at once, and its book-keeping left for the next pass: usnic's fast receive
// path (btl_usnic_component_progress, btl_usnic_recv_fast). Likewise the answer to a waiting
// operation is reported at once, and the rest of the pass left for the next one. more says that
// there may be others.
func (m *Module) takeFirst(c *port.Channel, got int, err error, n *int) (more, fast bool, _ error) {
	if got == 0 && err == nil {
		return false, false, nil
	}
	if err != nil {
		return false, false, m.broken(c, err)
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

// receiveAll polls the data channel, unless that is skipped in this pass; due forces the poll.
func (m *Module) receiveAll(mayFast, due bool) (n int, fast bool, err error) {
	c := &m.port.Data
	delivered := m.stats.counters[CntDelivered]
	if delivered != m.deliveredSeen {
		m.dataLast = false
	}
	if !m.dataLast && !due && c.Rests(m.now) {
		m.deliveredSeen = delivered
		return 0, false, nil
	}
	more := true
	if l := &m.landing; l.tag == 0 && (c.Idle() > 0 || l.justWhole) {
		// A lone packet is delivered, and answered, before the empty poll that would follow it. And
		// the chunks behind a large fragment's first one can already land.
		l.justWhole = false
		if c.Idle() > 0 && mayFast && !l.armed {
			got, e := c.Poll(m.now, 1)
			more, fast, err = m.takeFirst(c, got, e, &n)
		} else {
			more, err = m.poll(c, 1, &n)
		}
	}
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.PollBatch, &n)
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

// poll takes a batch of completions from a channel and handles them; *n counts the packets. more
// says that there may be others.
func (m *Module) poll(c *port.Channel, limit int, n *int) (more bool, err error) {
	var got int
	landing := c == m.landing.on
	if landing {
		got, err = m.pollLanding(c, limit)
		landing = m.landing.mem != nil
	} else {
		got, err = c.Poll(m.now, limit)
	}
	if err != nil {
		return false, m.broken(c, err)
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
		if !landing {
			m.handle(c, &comps[i])
		}
	}
	if landing {
		m.handleLanded(c, comps)
	}
	c.PostReceives()
	return left, nil
}

func (m *Module) broken(c *port.Channel, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("btl: %s channel: %w", c.Which(), err)
}

// handle processes one completion.
func (m *Module) handle(c *port.Channel, comp *fabric.Completion) {
	if comp.Op == fabric.OpSend {
		m.dirty = true
		m.sched.unblock()
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
