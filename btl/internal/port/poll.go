package port

import (
	"time"

	"gobtl/fabric"
)

// Poll asks the fabric for up to limit completions, and returns their number. Completions returns
// the completions of the poll. The errors of Poll are those of the provider.
func (c *Channel) Poll(now Time, limit int) (got int, err error) {
	got, err = c.ep.Poll(c.comps[:limit])
	if err == nil {
		c.NotePolled(now, got, got >= limit)
	}
	return got, err
}

// PollBehind continues a poll that has returned got completions, and asks the fabric for up to
// limit further completions. NotePolled must be called at the end of a poll that consists of
// several calls.
func (c *Channel) PollBehind(got, limit int) (int, error) {
	return c.ep.Poll(c.comps[got:][:limit])
}

// PollsMost is the maximum number of completions of a poll with all its calls of PollBehind.
func (c *Channel) PollsMost() int { return len(c.comps) }

// Completions returns the first got completions of the latest poll. The slice is valid until the
// next poll.
func (c *Channel) Completions(got int) []fabric.Completion { return c.comps[:got] }

// NotePolled records that a poll has returned got completions. The argument left of NotePolled is
// true if more completions may be pending.
func (c *Channel) NotePolled(now Time, got int, left bool) {
	c.left, c.queued = left, now.Sub(c.emptyAt)
	if got == 0 || !left && c.caps.PollsAll {
		c.emptyAt = now
	}
}

// Left reports whether completions may be pending after the latest poll.
func (c *Channel) Left() bool { return c.left }

// Queued is the longest time that a packet of the latest poll may have waited to be polled.
func (c *Channel) Queued() time.Duration { return c.queued }

// Idle is the number of polls since a packet arrived, as counted by NoteIdle and NoteFound.
func (c *Channel) Idle() int { return c.idle }

// NoteIdle counts a poll that finds no packet.
func (c *Channel) NoteIdle() { c.idle++ }

// NoteFound records that a poll has found a packet.
func (c *Channel) NoteFound() { c.idle = 0 }

// Rests reports whether the channel need not be polled now, and counts the skipped polls. Each
// empty poll of a socket is a system call that delays the messages of the other channel. The
// number of skipped polls and the time without a poll are limited, because ACKs arrive on the
// command channel and retransmissions on the data channel.
func (c *Channel) Rests(now Time) bool {
	if c.MayRest(now) {
		c.skipped++
		return true
	}
	c.skipped, c.polledAt = 0, now
	return false
}

// MayRest returns what Rests would return, without changing any state.
func (c *Channel) MayRest(now Time) bool {
	const idlePolls = 16 // about a round trip, during which the next packet is likely
	const longest = 20 * time.Microsecond
	return c.idle >= idlePolls && c.posted == 0 && c.skipped+1 < c.p.cfg.IdlePollEvery &&
		now.Sub(c.polledAt) < longest
}

// Received records that the fabric has returned count receive buffers with packets.
func (c *Channel) Received(count int) { c.receiving -= count }

// Return hands back a receive buffer, which PostReceives will post again.
func (c *Channel) Return(b fabric.Buf) { c.repost = append(c.repost, b) }

// PostReceives posts the free receive buffers. The next call of PostReceives tries again to post
// buffers that the fabric could not take.
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
