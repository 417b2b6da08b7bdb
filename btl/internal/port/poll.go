package port

import (
	"time"

	"gobtl/fabric"
)

// Poll asks the fabric for up to limit completions and returns how many there are: see Completions.
func (c *Channel) Poll(now Time, limit int) (got int, err error) {
	got, err = c.ep.Poll(c.comps[:limit])
	if err == nil {
		c.NotePolled(now, got, got >= limit)
	}
	return got, err
}

// PollBehind asks the fabric for up to limit completions behind the first got ones of the same
// poll. NotePolled ends such a poll of several parts.
func (c *Channel) PollBehind(got, limit int) (int, error) {
	return c.ep.Poll(c.comps[got:][:limit])
}

// PollsMost is the number of completions that all PollBehind of one poll may bring together.
func (c *Channel) PollsMost() int { return len(c.comps) }

// Completions is what the latest poll has brought, the first got of them. They are valid until the
// next poll.
func (c *Channel) Completions(got int) []fabric.Completion { return c.comps[:got] }

// NotePolled notes that a poll has brought got completions, and may have left others.
func (c *Channel) NotePolled(now Time, got int, left bool) {
	c.left, c.queued = left, now.Sub(c.emptyAt)
	if got == 0 || !left && c.caps.PollsAll {
		c.emptyAt = now
	}
}

// Left says whether the latest poll may have left completions.
func (c *Channel) Left() bool { return c.left }

// Queued is for how long, at most, the packets of the latest poll may have waited to be read.
func (c *Channel) Queued() time.Duration { return c.queued }

// Idle is the number of polls since something arrived, as NoteIdle and NoteFound have counted them.
func (c *Channel) Idle() int { return c.idle }

// NoteIdle counts a poll that finds nothing, or is about to.
func (c *Channel) NoteIdle() { c.idle++ }

// NoteFound notes that something has arrived.
func (c *Channel) NoteFound() { c.idle = 0 }

// Rests says whether the channel need not be polled in this pass, if the latest message came by the
// other channel. Each empty poll of a socket is a system call, which delays messages of the other
// channel. But ACKs come by the command channel and resent packets by the data channel, so the
// passes without a poll are few in number, and short in time.
func (c *Channel) Rests(now Time) bool {
	if c.MayRest(now) {
		c.skipped++
		return true
	}
	c.skipped, c.polledAt = 0, now
	return false
}

// MayRest is Rests for a look that changes nothing.
func (c *Channel) MayRest(now Time) bool {
	const idlePolls = 16 // about a round trip, during which the next packet is likely
	const longest = 20 * time.Microsecond
	return c.idle >= idlePolls && c.posted == 0 && c.skipped+1 < c.p.cfg.IdlePollEvery &&
		now.Sub(c.polledAt) < longest
}

// Received notes that count receive buffers have come back with packets.
func (c *Channel) Received(count int) { c.receiving -= count }

// Return gives a receive buffer back, to be posted again.
func (c *Channel) Return(b fabric.Buf) { c.repost = append(c.repost, b) }

// PostReceives posts the receive buffers that are free again. What the fabric does not take is
// offered again in the next pass.
func (c *Channel) PostReceives() {
	if len(c.repost) == 0 { // inlined
		return
	}
	c.postReceives()
}

func (c *Channel) postReceives() {
	n, _ := c.ep.Recv(c.repost)
	c.receiving += n
	c.repost = c.repost[:copy(c.repost, c.repost[n:])]
}

// ReceivesPending is the number of receive buffers that wait to be posted.
func (c *Channel) ReceivesPending() int { return len(c.repost) }
