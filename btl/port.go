package btl

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"gobtl/fabric"
)

// port is one Domain of a fabric with what this side has opened there: the memory of its packet
// buffers, the two channels, and the addresses of peers.
//
//	+------------------------- Domain --------------------------+
//	| arena: send | control | receive cmd | receive data | spare |
//	|              cmd channel      data channel                 |
//	|              addresses of peers                            |
//	+------------------------------------------------------------+
//
// The receive buffers change places with the spare ones as handlers keep what came in them.
type port struct {
	dom         fabric.Domain
	info        fabric.Info
	arena       fabric.Arena
	cmd         channel
	data        channel
	rxFirst     fabric.Buf    // buffers from here on are for receiving
	keeping     keeping       // of which some are kept
	mayCount    bool          // the fabric is reliable and ordered, and may be relied on
	inserted    int           // addresses inserted and not removed
	leaving     []leavingAddr // to be removed
	tender      fabric.Tender // nil where polls see everything
	tendedAt    Time
	rejectAddrs []fabric.Addr // addresses inserted for such answers, the oldest first
}

// rejectAddrsMax bounds the addresses that are kept inserted for Rejects and Retries on their way.
const rejectAddrsMax = 8

// open opens the channels of a module's port; the arena and what its size depends on are there.
func (p *port) open(m *Module) error {
	cfg := &m.cfg
	p.mayCount = p.info.Reliable && p.info.Ordered && cfg.Reliability == reliabilityAuto
	p.tender, _ = p.dom.(fabric.Tender)
	p.rejectAddrs = make([]fabric.Addr, 0, rejectAddrsMax)
	depth := cfg.recvDepth(p.info)
	p.rxFirst = fabric.Buf(cfg.SendBuffers + controlBuffers)
	p.cmd.which, p.data.which = viaCommand, viaData
	m.openKeeping(p.rxFirst, 2*depth, max(cfg.KeptPackets, 0))
	if err := p.cmd.open(m, depth, p.rxFirst, cfg.TinyBytes); err != nil {
		return fmt.Errorf("command channel: %w", err)
	}
	if err := p.data.open(m, depth, p.rxFirst+fabric.Buf(depth), cfg.MTUBytes); err != nil {
		return fmt.Errorf("data channel: %w", err)
	}
	return nil
}

// tendGap is from which time between two passes on a pass is one of few: the fabric counts on many.
const tendGap = time.Millisecond

// tend has the fabric look at what it looks at now and then only, by the number of polls.
func (p *port) tend(now Time) {
	if p.tender != nil && now > p.tendedAt {
		p.tendedAt = now
		p.tender.Tend()
	}
}

// post posts what the channels have collected, and the receive buffers that are free again.
func (p *port) post() {
	for _, c := range [...]*channel{&p.cmd, &p.data} {
		if len(c.batch) > 0 {
			c.post()
		}
		c.kept = len(c.batch) > 0
		if len(c.repost) > 0 {
			c.postReceives()
		}
	}
}

// pending says whether packets wait to be posted.
func (p *port) pending() bool { return len(p.cmd.batch) > 0 || len(p.data.batch) > 0 }

// wireName is what this port's fabric must have in common with its peers'.
func (p *port) wireName() string { return cmp.Or(p.info.Wire, p.info.Provider) }

// leavingAddr is an address that nothing is sent to any more, to be removed once the sends that
// were under way have completed: hardware may still read the peer's address handle. See
// fabric.Caps.RemoveCancels.
type leavingAddr struct {
	addr      fabric.Addr
	cmd, data lastSend
	cancelAt  Time // from then on Remove may cancel what still waits, if it can
}

// cancelAfter is how long sends to an address that was left may wait where Remove can cancel them.
// A peer that is alive takes them in that time; one that is dead takes nothing any more.
const cancelAfter = time.Second

// insert makes a peer's address known to the fabric.
func (p *port) insert(name []byte) (fabric.Addr, error) {
	a, err := p.dom.Insert(name)
	if err == nil {
		p.inserted++
	}
	return a, err
}

// removeAddr undoes an insert.
func (p *port) removeAddr(a fabric.Addr) {
	p.inserted--
	// An error could only mean that the address is unknown, which is what is wanted.
	_ = p.dom.Remove(a)
}

// leaveAddr has an address removed when it is safe.
func (p *port) leaveAddr(a fabric.Addr) { p.leaveAddrAt(a, p.cmd.m.now.Add(cancelAfter)) }

// leaveAddrAt is that, and says when what waits there still is given up.
func (p *port) leaveAddrAt(a fabric.Addr, cancelAt Time) {
	p.leaving = append(p.leaving, leavingAddr{a, p.cmd.lastSend(a), p.data.lastSend(a), cancelAt})
}

// removeAddrs removes the addresses whose last sends have completed. It counts completions, which
// is exact where the sends of a queue complete in order. Where one can wait while later ones to
// other peers complete (fabric/shm), an address may leave before its last send has completed, or
// wait for another peer's; such a fabric allows both, and what a peer that stands still would keep
// for ever it gives back when the address is removed.
func (p *port) removeAddrs() {
	cancels := p.cmd.caps.RemoveCancels && p.data.caps.RemoveCancels
	n := 0
	for i := range p.leaving {
		l := &p.leaving[i]
		cmd, data := p.cmd.hasGone(&l.cmd, l.addr), p.data.hasGone(&l.data, l.addr)
		if cmd && data || cancels && p.cmd.m.now >= l.cancelAt {
			p.removeAddr(l.addr)
			if cancels {
				p.forgetAnswers(l.addr)
			}
		} else {
			p.leaving[n] = *l
			n++
		}
	}
	p.leaving = p.leaving[:n]
}

// giveUp ends what waits in the fabric for an address that was left, which its owner is about to
// insert again: from then on no Remove would be the last one while he goes on connecting there. The
// peer is told by the Hello that comes what it may miss by that.
func (p *port) giveUp(name []byte) {
	if len(p.leaving) == 0 || p.cmd.posted+p.data.posted == 0 ||
		!p.cmd.caps.RemoveCancels || !p.data.caps.RemoveCancels {
		return
	}
	p.post() // the last word, for a peer that does take something
	a, err := p.insert(name)
	if err != nil {
		return
	}
	for i := range p.leaving {
		if p.leaving[i].addr == a {
			p.leaving[i].cancelAt = 0
		}
	}
	p.removeAddrs()
	p.removeAddr(a)
}

// forgetAnswers removes an address that is kept for answers too: else the fabric would not let go
// of what is under way to it.
func (p *port) forgetAnswers(to fabric.Addr) {
	kept := p.rejectAddrs[:0]
	for _, a := range p.rejectAddrs {
		if a != to {
			kept = append(kept, a)
		} else {
			p.removeAddr(a)
		}
	}
	p.rejectAddrs = kept
}

// insertForAnswer makes the address of somebody known who is answered and not remembered. The
// oldest of a few such addresses leaves when another one comes.
func (p *port) insertForAnswer(name []byte) (fabric.Addr, error) {
	to, err := p.insert(name)
	if err != nil {
		return 0, err
	}
	if len(p.rejectAddrs) == cap(p.rejectAddrs) {
		p.leaveAddr(p.rejectAddrs[0])
		p.rejectAddrs = p.rejectAddrs[:copy(p.rejectAddrs, p.rejectAddrs[1:])]
	}
	p.rejectAddrs = append(p.rejectAddrs, to)
	return to, nil
}

// checkAddrs compares the addresses that are inserted with those of endpoints and others.
func (p *port) checkAddrs(endpoints int) error {
	switch {
	case p.inserted != 2*endpoints+len(p.leaving)+len(p.rejectAddrs):
		return fmt.Errorf("%d addresses inserted by %d endpoints, %d leaving, %d for Rejects",
			p.inserted, endpoints, len(p.leaving), len(p.rejectAddrs))
	case len(p.rejectAddrs) > rejectAddrsMax:
		return fmt.Errorf("%d addresses for Rejects, at most %d", len(p.rejectAddrs), rejectAddrsMax)
	}
	return nil
}

// checkPosted proves that the channels count the buffers that the fabric has, or is about to get.
func (m *Module) checkPosted(c *checker) error {
	if m.closed {
		return nil
	}
	with := 0
	for _, ch := range [...]*channel{&m.cmd, &m.data} {
		if ch.posted < 0 || ch.posted+len(ch.batch) > ch.caps.TxDepth || len(ch.batch) > batchMax {
			return fmt.Errorf("%s channel: %d sends posted, %d to be posted, at most %d", ch.label(),
				ch.posted, len(ch.batch), ch.caps.TxDepth)
		}
		with += ch.posted + len(ch.batch)
		for i := range ch.batch {
			if b := ch.batch[i].Buf; int(b) >= len(m.tx) || m.tx[b]&txBusy == 0 {
				return fmt.Errorf("%s channel: buffer %d to be posted is not busy", ch.label(), b)
			}
		}
	}
	if with != c.busy {
		return fmt.Errorf("%d buffers on the wire, %d sends posted or to be posted", c.busy, with)
	}
	return nil
}

// checkReceives proves that every receive buffer is posted or about to be.
func (m *Module) checkReceives(c *checker) error {
	if m.closed {
		return nil
	}
	first := m.rxFirst
	for _, ch := range [...]*channel{&m.cmd, &m.data} {
		here := ch.receiving + len(ch.repost)
		if ch == m.deferred.on && m.deferred.pending {
			here++
		}
		depth := cap(ch.repost)
		if here != depth || ch.receiving < 0 {
			return fmt.Errorf("%s channel: %d receive buffers posted, %d to be posted, of %d", ch.label(),
				ch.receiving, len(ch.repost), depth)
		}
		for _, b := range ch.repost {
			if b < first || int(b-first) >= len(m.keeping.refs) || c.seen[b] ||
				m.keeping.refs[b-first] != 0 {
				return fmt.Errorf("%s channel: buffer %d to be posted is none, kept, or there twice",
					ch.label(), b)
			}
			c.seen[b] = true
		}
	}
	for _, ch := range [...]*channel{&m.cmd, &m.data} {
		for _, b := range ch.repost {
			c.seen[b] = false
		}
	}
	return errors.Join(m.keeping.check(first, c), m.keeping.arrivals.check(m))
}
