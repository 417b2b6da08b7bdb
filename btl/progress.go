package btl

import (
	"fmt"
	"time"

	"gobtl/fabric"
)

// Progress does one pass: it receives what has arrived, expires timers, sends again what is due,
// sends what is new, acknowledges, and calls handlers and OnDone functions. now must not go back:
// an instant before the latest that the module was given counts as that one. It returns the number
// of packets received; it never blocks. The first call of the arrival of a fragment of one packet
// does nothing but deliver it (fast receive); the next call catches up.
//
// An error means that the fabric is broken: the module can only be closed.
func (m *Module) Progress(now Time) (int, error) {
	if m.inProgress {
		return 0, ErrReentrant
	}
	if m.closed {
		return 0, ErrClosed
	}
	m.inProgress = true
	m.at(now)
	m.beginPass(m.fastLast)
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

func (m *Module) progress() (int, error) {
	m.pass++
	m.stats.counters[CntPasses]++
	m.finishDeferred()
	if m.packs > 0 {
		m.sendPacks()
	}
	mayFast := !m.fastLast
	m.fastLast = false
	n, fast, err := m.receiveFirst(mayFast)
	if fast || err != nil {
		return n, err
	}
	// A pass that ends early leaves nothing to be called out.
	got, fast, err := m.receiveAll(mayFast && !m.outbox.due())
	n += got
	if fast || err != nil {
		return n, err
	}
	m.callOut()
	m.expire(n > 0)
	m.sendAgain()
	m.serve()
	m.acknowledge()
	m.cmd.flush()
	m.data.flush()
	m.cmd.postReceives()
	m.data.postReceives()
	m.callOut()
	if len(m.leaving) > 0 {
		m.removeAddrs()
	}
	if n > 0 {
		m.dirty = true
	}
	if m.dirty && (n == 0 || m.now.Sub(m.publishedAt) >= publishEvery) {
		m.publish()
	}
	return n, nil
}

// receiveFirst polls the command channel, unless it rests. A tiny fragment that comes first may be
// delivered fast.
func (m *Module) receiveFirst(mayFast bool) (n int, fast bool, err error) {
	c := &m.cmd
	if mayFast && m.dataLast && m.data.idle > 0 && c.rests() {
		return 0, false, nil
	}
	c.idle++
	more := true
	if mayFast {
		more, fast, err = m.pollFirst(c, &n)
	}
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.PollBatch, &n)
	}
	if n > 0 {
		c.idle, m.dataLast = 0, false
	}
	return n, fast, err
}

// pollFirst takes one completion from a channel. If it is a fragment of one packet for a handler,
// it is delivered at once and its book-keeping left for the next pass: usnic's fast receive path
// (btl_usnic_component_progress, btl_usnic_recv_fast). more says that there may be others.
func (m *Module) pollFirst(c *channel, n *int) (more, fast bool, err error) {
	got, err := c.ep.Poll(c.comps[:1])
	c.left = got > 0
	if err != nil || got == 0 {
		c.emptyAt = m.now
		return false, false, m.broken(c, err)
	}
	m.unread = m.now.Sub(c.emptyAt)
	comp := &c.comps[0]
	if comp.Op == fabric.OpRecv {
		*n++
		if m.receiveFast(c, comp) {
			m.fastLast = true
			return true, true, nil
		}
	}
	m.handle(c, comp)
	c.postReceives()
	return true, false, nil
}

// rests says whether the channel need not be polled in this pass, if the latest message came by the
// other one: each empty poll of a socket is a system call, by which messages of the other one are
// late. So a channel by which nothing comes is polled only now and then. But ACKs come by the one,
// and what is sent again by the other: so passes without a poll are few in number, and in time.
func (c *channel) rests() bool {
	const idlePolls = 16 // about a round trip, during which the next packet is likely
	const longest = 20 * time.Microsecond
	if c.idle >= idlePolls && c.posted == 0 && c.skipped+1 < c.m.cfg.IdlePollEvery &&
		c.m.now.Sub(c.polledAt) < longest {
		c.skipped++
		return true
	}
	c.skipped, c.polledAt = 0, c.m.now
	return false
}

// receiveAll polls the data channel, unless it rests.
func (m *Module) receiveAll(mayFast bool) (n int, fast bool, err error) {
	c := &m.data
	delivered := m.stats.counters[CntDelivered]
	if delivered != m.delivered {
		m.dataLast = false
	}
	if !m.dataLast && c.rests() {
		m.delivered = delivered
		return 0, false, nil
	}
	more := true
	if l := &m.landing; l.tag == 0 && (c.idle > 0 || l.ended) {
		// A lone packet is delivered, and answered, before the poll that finds nothing behind it. And
		// behind the first packet of a large fragment the others can land already.
		l.ended = false
		if c.idle > 0 && mayFast && !l.told {
			more, fast, err = m.pollFirst(c, &n)
		} else {
			more, err = m.poll(c, 1, &n)
		}
	}
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.PollBatch, &n)
	}
	if n > 0 {
		c.idle = 0
	} else {
		c.idle++
	}
	if m.delivered = m.stats.counters[CntDelivered]; m.delivered != delivered {
		m.dataLast = true
	}
	return n, fast, err
}

// poll takes a batch of completions from a channel and handles them; *n counts the packets. more
// says that there may be others.
func (m *Module) poll(c *channel, limit int, n *int) (more bool, err error) {
	var got int
	landing := c == &m.data && m.landing.lander != nil
	if landing {
		got, err = m.pollLanding(c, limit)
		landing = m.landing.mem != nil
	} else {
		got, err = c.ep.Poll(c.comps[:limit])
	}
	if err != nil {
		return false, m.broken(c, err)
	}
	comps := c.comps[:got]
	m.unread = m.now.Sub(c.emptyAt)
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
	c.postReceives()
	c.left = got >= limit
	if got == 0 || !c.left && c.caps.PollsAll {
		c.emptyAt = m.now
	}
	return c.left, nil
}

func (m *Module) broken(c *channel, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("btl: %s channel: %w", c.label(), err)
}

func (c *channel) label() string {
	if c == &c.m.cmd {
		return "command"
	}
	return "data"
}

// handle books one completion.
func (m *Module) handle(c *channel, comp *fabric.Completion) {
	if comp.Op == fabric.OpSend {
		c.posted--
		m.dirty, m.starved = true, false
		if comp.Errno != 0 {
			m.stats.counters[CntSendCompletionErrors]++
			m.breakOff(comp.Buf)
		}
		m.txDone(comp.Buf)
		return
	}
	c.receiving--
	m.receive(c, comp)
	c.repost = append(c.repost, comp.Buf)
}

// Deadline is the instant by which Progress must be called again even if nothing arrives: at or
// before now if there is work to do, Never if there is none. Work that lacks a buffer, or room in a
// channel, waits for the packet or the completion that brings it.
func (m *Module) Deadline() Time {
	if m.deferred.pending || len(m.cmd.batch) > 0 || len(m.data.batch) > 0 ||
		m.early.count+m.ready.count > 0 && !m.starved ||
		m.seg.ResendsWaiting() > 0 && m.data.room() > 0 || m.outbox.due() {
		return m.now
	}
	d := m.seg.Deadline().Min(m.timers.Deadline())
	if m.draining && len(m.slots) > len(m.freeSlots) {
		d = d.Min(m.drainUntil)
	}
	if ep := m.acks.first; ep != nil && len(m.freeCtl) > 0 {
		if c, _ := ep.ackPath(); c.room() > 0 {
			d = d.Min(ep.rcv.AckDue())
		}
	}
	return d
}

// publish lets other goroutines see the counters.
func (m *Module) publish() {
	s := &m.stats
	s.Endpoints = uint64(len(m.slots) - len(m.freeSlots))
	s.SendBuffersFree = uint64(len(m.freeSegs))
	s.InFlight = uint64(m.seg.InFlight())
	s.CreditsGranted = uint64(m.credits.Granted())
	again := m.seg.Counts()
	s.counters[CntSpurious], s.counters[CntThrottled] = again.Spurious, again.Throttled
	m.pub.store(s)
	m.dirty, m.publishedAt = false, m.now
}
