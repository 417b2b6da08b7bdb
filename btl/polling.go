package btl

import (
	"fmt"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
)

// The type "polling" is the state of a module's polls that is kept between calls of Progress.
type polling struct {
	fastLast      bool           // the latest call delivered a fragment early
	dataLast      bool           // the latest message came on the data channel
	found         bool           // this call has found a completion
	deliveredSeen uint64         // messages delivered when the data channel was last considered
	readier       fabric.Readier // set by ReadyFd
}

// receiveFirst polls the command channel, but skips some polls if the channel is idle and the
// latest message came on the data channel.
func (m *Module) receiveFirst(mayFast bool) (n int, fast bool, err error) {
	c := &m.all.Port.Command
	if mayFast && m.dataLast && m.all.Port.Data.Idle > 0 && c.Rests(m.all.Clock.Now) {
		return 0, false, nil
	}
	c.NoteIdle()
	more := true
	if mayFast && !m.rx.Direct.Plan.Due(c) {
		more, fast, err = m.takeFirst(c, &n)
	}
	if more && !fast && err == nil {
		_, err = m.poll(c, m.cfg.limits.PollBatch, &n)
	}
	if n > 0 {
		c.NoteFound()
		m.dataLast = false
	}
	return n, fast, err
}

// takeFirst polls channel c for one completion, and handles the completion. If a fragment has
// arrived in one packet, takeFirst usually calls the fragment's handler at once, and the next call
// of Progress updates the receive state. The fast receive is modelled on the usnic BTL of Open MPI
// (btl_usnic_component_progress, btl_usnic_recv_fast). The result "more" of takeFirst reports
// whether more completions might be available on channel c. The result "fast" reports whether the
// present Progress should end, and leave all remaining work to the next Progress.
func (m *Module) takeFirst(c *port.Channel, n *int) (more, fast bool, _ error) {
	got, err := c.Poll(m.all.Clock.Now, 1)
	if got == 0 && err == nil {
		return false, false, nil
	}
	if err != nil {
		return false, false, broken(c, err)
	}
	m.all.Rest.Interrupt()
	m.found = true
	m.rx.Waited(c.Queued)
	comp := &c.Completions[:got][0]
	if comp.Op == fabric.OpRecv {
		*n++
		m.fastLast = m.rx.ReceiveFast(c, comp)
	}
	if !m.fastLast {
		m.rx.Handle(c, comp)
		if len(c.Repost) > 0 {
			c.PostReceives()
		}
	}
	if m.all.Rest.AskEnded && m.all.Outbox.Due() {
		m.all.Outbox.FindRoom(true)
		m.callOut()
		m.fastLast = true
	}
	return true, m.fastLast, nil
}

// receiveAll polls the data channel, but skips some polls while the channel is idle.
func (m *Module) receiveAll(mayFast bool) (n int, fast bool, err error) {
	c := &m.all.Port.Data
	delivered := m.all.Count[CntDelivered]
	if delivered != m.deliveredSeen {
		m.dataLast = false
	}
	if !m.dataLast && c.Rests(m.all.Clock.Now) {
		m.deliveredSeen = delivered
		return 0, false, nil
	}
	more := true
	if m.rx.Direct.Plan.OneByOne(c.Idle > 0) {
		if c.Idle > 0 && mayFast && !m.rx.Direct.Plan.Armed {
			more, fast, err = m.takeFirst(c, &n)
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
	if m.deliveredSeen = m.all.Count[CntDelivered]; m.deliveredSeen != delivered {
		m.dataLast = true
	}
	return n, fast, err
}

// The method "poll" polls a channel for at most "limit" completions, handles them, and adds the
// number of received packets to *n. The result "more" of the method "poll" reports whether more
// completions might be available on the channel.
func (m *Module) poll(c *port.Channel, limit int, n *int) (more bool, err error) {
	var got int
	limit = m.rx.Arrivals.Packets(limit)
	landed := m.rx.Direct.Plan.Channel == c
	if landed {
		got, err = m.rx.Direct.PollChunks(limit)
		landed = m.rx.Direct.Plan.Memory != nil
	} else {
		got, err = c.Poll(m.all.Clock.Now, limit)
	}
	if err != nil {
		return false, broken(c, err)
	}
	left := c.Left
	if got > 0 {
		m.found = true
		m.all.Rest.Set(0)
	}
	comps := c.Completions[:got]
	m.rx.Waited(c.Queued)
	for i := range comps {
		if comps[i].Op == fabric.OpRecv {
			*n++
		}
		if !landed {
			m.rx.Handle(c, &comps[i])
		}
	}
	if landed {
		m.rx.Direct.HandleLanded(c, comps)
	}
	if len(c.Repost) > 0 {
		c.PostReceives()
	}
	return left, nil
}

func broken(c *port.Channel, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("btl: %s channel: %w", c.Which, err)
}
