package btl

import (
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/reliability"
)

// channel is one of the module's two queue pairs, with the batches on their way in and out.
type channel struct {
	m         *Module
	which     via
	ep        fabric.Endpoint
	caps      fabric.Caps
	name      []byte
	sourcer   fabric.Sourcer // nil where nobody knows where datagrams come from
	mtu       int
	batch     []fabric.Send // to be posted; its capacity never grows
	posted    int           // sends whose completion is due
	receiving int           // receive buffers posted
	total     uint64        // sends ever posted that complete later
	comps     []fabric.Completion
	repost    []fabric.Buf // receive buffers to be posted again
	idle      int          // polls since something arrived
	skipped   int          // passes since the latest poll
	polledAt  Time         // when that was
	left      bool         // the latest poll may have left something
	emptyAt   Time         // when a poll left nothing
	kept      bool         // the fabric could not take all of the batch at the end of the latest pass
	apart     bool         // packets of the batch are marked txApart
	withhold  bool         // one packet of the batch, if one suits
	// withholdFrom is a random number, which chooses where to look for it.
	withholdFrom uint32
}

// batchMax is the number of sends that a channel collects before they are posted.
const batchMax = 256

func (c *channel) open(m *Module, depth int, first fabric.Buf, mtu int) error {
	ep, err := m.dom.OpenEndpoint(fabric.EndpointConfig{
		TxDepth:         m.cfg.TxDepth,
		RxDepth:         depth,
		RecvBufferBytes: m.cfg.RecvBufferBytes,
	})
	if err != nil {
		return err
	}
	c.m, c.ep, c.caps, c.name = m, ep, ep.Caps(), ep.Name()
	c.sourcer, _ = ep.(fabric.Sourcer)
	if c.mtu = min(mtu, c.caps.MTUBytes); c.mtu < tinyBytesMin {
		return fmt.Errorf("%w: MTU of %d bytes, at least %d needed", ErrConfig, c.mtu, tinyBytesMin)
	}
	c.batch = make([]fabric.Send, 0, batchMax)
	// Of these a poll asks for PollBatch; pollLanding for all that can come.
	c.comps = make([]fabric.Completion, max(m.cfg.PollBatch, depth+c.caps.TxDepth))
	c.repost = make([]fabric.Buf, 0, depth)
	for i := range depth {
		c.repost = append(c.repost, first+fabric.Buf(i))
	}
	c.postReceives()
	if len(c.repost) == depth {
		return fmt.Errorf("%w: not one of %d receive buffers could be posted", ErrConfig, depth)
	}
	return nil
}

// room is the number of packets that the channel takes now.
func (c *channel) room() int {
	return min(cap(c.batch)-len(c.batch), c.caps.TxDepth-c.posted-len(c.batch))
}

// put adds a packet of size bytes in b to the batch. There must be room.
func (c *channel) put(b fabric.Buf, sizeBytes int, to fabric.Addr) {
	c.m.tx[b] |= txBusy
	s := c.next()
	s.To, s.Buf, s.Len = to, b, uint32(sizeBytes)
	s.Region, s.RegionLen, s.RegionOff = 0, 0, 0
}

// next adds a place to the batch, to be filled in field by field: a struct that is built elsewhere
// and copied costs as much as all the rest, for the processor waits for the fields to be written.
func (c *channel) next() *fabric.Send {
	n := len(c.batch)
	c.batch = c.batch[:n+1]
	return &c.batch[n]
}

// putSegment adds a send segment to the batch: its buffer, and what is to be gathered from
// registered memory.
func (c *channel) putSegment(t reliability.Token, to fabric.Addr) {
	c.m.tx[t] |= txBusy
	s := c.next()
	s.To = to
	c.m.segs[t].describe(t, s)
}

// post posts the batch. What the fabric cannot take now stays for the next pass; what it refuses
// is lost, as a packet can be, and comes again by its timer.
func (c *channel) post() {
	if c.withhold {
		c.withholdOne()
	}
	taken := 0
	for taken < len(c.batch) {
		end := len(c.batch)
		if c.apart {
			end = c.beside(taken)
		}
		n, err := c.ep.Post(c.batch[taken:end])
		c.noteAlone(c.batch[taken:end], n)
		c.sentAll(c.batch[taken : taken+n])
		taken += n
		if errors.Is(err, fabric.ErrAgain) {
			c.postOthers(taken)
			return
		}
		if err != nil && taken < len(c.batch) {
			c.refused(&c.batch[taken], err)
			taken++
		}
	}
	c.batch = c.batch[:copy(c.batch, c.batch[taken:])]
	c.apart = false
}

// setApart has the latest packet of the batch, a control packet in b, leave in a Post of its own. A
// provider makes one message of packets of a Post that follow each other, and a device may let that
// pass where it drops a single packet.
func (c *channel) setApart(b fabric.Buf) {
	c.m.tx[b] |= txApart
	c.apart = true
}

// beside is up to where the batch may be posted at once, from a place on.
func (c *channel) beside(from int) int {
	for i := from; i < len(c.batch); i++ {
		if c.m.tx[c.batch[i].Buf]&txApart != 0 {
			return max(i, from+1)
		}
	}
	return len(c.batch)
}

// noteAlone marks the segments that have left with no other packet to the same peer beside them: of
// sends the fabric has taken the first n.
func (c *channel) noteAlone(sends []fabric.Send, n int) {
	if n == 0 || c.m.info.Reliable {
		return
	}
	before := fabric.AddrUnknown
	last := len(sends) - 1
	for i := range sends[:n] {
		s := &sends[i]
		if s.To != before && (i == last || sends[i+1].To != s.To) && int(s.Buf) < len(c.m.segs) {
			c.m.segs[s.Buf].alone = true
		}
		before = s.To
	}
}

// postOthers goes on behind a send that the fabric cannot take now, batch[at]. A fabric that keeps
// what a peer does not take may have no more room for that one alone: then others are not kept
// waiting behind it, but nothing passes what goes to the same peer.
func (c *channel) postOthers(at int) {
	batch, kept := c.batch, 0
	for i := at; i < len(batch); {
		end := i
		for c.m.info.Reliable && i > at && end < len(batch) && !goesTo(batch[:kept], batch[end].To) {
			end++
		}
		n, err := 0, fabric.ErrAgain
		if end > i {
			n, err = c.ep.Post(batch[i:end])
			c.sentAll(batch[i : i+n])
		}
		if i += n; n > 0 && (i == end || err == nil) {
			continue
		}
		if errors.Is(err, fabric.ErrAgain) {
			batch[kept] = batch[i]
			kept++
		} else {
			c.refused(&batch[i], err)
		}
		i++
	}
	c.batch = batch[:kept]
}

// lastSend is up to where sends may be under way to an address that nothing is sent to any more.
type lastSend struct {
	mark  uint64 // as of channel.taken
	waits bool   // one was in the batch at the latest look
}

func (c *channel) lastSend(to fabric.Addr) lastSend {
	return lastSend{c.taken(), goesTo(c.batch, to)}
}

// hasGone says whether the last send to an address has completed. One that waits may be passed by
// others: then it is a later one than it was.
func (c *channel) hasGone(l *lastSend, to fabric.Addr) bool {
	if l.waits {
		if l.waits = goesTo(c.batch, to); l.waits {
			l.mark = c.taken()
		}
	}
	return c.posted == 0 && len(c.batch) == 0 || c.total-uint64(c.posted) >= l.mark
}

// goesTo says whether one of some sends goes to an address.
func goesTo(sends []fabric.Send, to fabric.Addr) bool {
	for i := range sends {
		if sends[i].To == to {
			return true
		}
	}
	return false
}

// postOne is post for a batch of one.
func (c *channel) postOne() {
	taken, err := c.ep.Post(c.batch)
	switch {
	case taken == 1:
		c.noteAlone(c.batch, 1)
		c.sent(&c.batch[0])
	case errors.Is(err, fabric.ErrAgain):
		return
	default:
		c.refused(&c.batch[0], err)
	}
	c.batch = c.batch[:0]
}

// refused books a send that the fabric will never take.
func (c *channel) refused(s *fabric.Send, err error) {
	c.m.stats.counters[CntPostErrors]++
	c.m.pathRefused(s, err)
	c.m.breakOff(s.Buf)
	c.m.txDone(s.Buf)
}

// sentAll is sent for several.
func (c *channel) sentAll(sends []fabric.Send) {
	m, inject := c.m, c.caps.InjectBytes
	for i := range sends {
		s := &sends[i]
		// As it mostly is: done with, and not acknowledged meanwhile.
		if w := &m.tx[s.Buf]; *w == txBusy && int(s.Len+s.RegionLen) <= inject &&
			int(s.Buf) < len(m.segs) {
			*w = 0
			continue
		}
		c.sent(s)
	}
}

// sent books a send that the fabric has taken.
func (c *channel) sent(s *fabric.Send) {
	if int(s.Len+s.RegionLen) <= c.caps.InjectBytes {
		c.m.txDone(s.Buf)
	} else {
		c.posted++
		c.total++
	}
}

// taken counts the sends that will complete, up to the last one of the batch.
func (c *channel) taken() uint64 { return c.total + uint64(len(c.batch)) }

// postReceives posts the receive buffers that are free again.
func (c *channel) postReceives() {
	if len(c.repost) == 0 {
		return
	}
	n, _ := c.ep.Recv(c.repost) // what is not taken is offered again in the next pass
	c.receiving += n
	c.repost = c.repost[:copy(c.repost, c.repost[n:])]
}
