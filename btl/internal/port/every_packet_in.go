package port

import (
	"time"

	"gobtl/fabric"
)

// Poll asks the fabric for at most "limit" completions, writes them to the field Completions, and
// returns their number. Poll returns the errors of the provider unchanged.
func (c *Channel) Poll(now Time, limit int) (got int, err error) {
	got, err = c.Endpoint.Poll(c.Completions[:limit])
	if err == nil {
		c.NotePolled(now, got, got >= limit)
	}
	return got, err
}

// PollBehind continues a poll that has so far returned "got" completions, and asks the fabric for
// at most "limit" more completions. At the end of a poll that consists of several calls, the caller
// must call NotePolled.
func (c *Channel) PollBehind(got, limit int) (int, error) {
	return c.Endpoint.Poll(c.Completions[got:][:limit])
}

// PollsMost returns the maximum number of completions of a poll, including those of PollBehind.
func (c *Channel) PollsMost() int { return len(c.Completions) }

// NotePolled records that a poll has returned "got" completions. The argument "left" of NotePolled
// says whether more completions are possibly pending.
func (c *Channel) NotePolled(now Time, got int, left bool) {
	c.Left, c.Queued = left, now.Sub(c.emptyAt)
	if got == 0 || !left && c.Caps.PollsAll {
		c.emptyAt = now
	}
}

// NoteIdle counts a poll that has found no packet.
func (c *Channel) NoteIdle() { c.Idle++ }

// NoteFound records that a poll has found a packet.
func (c *Channel) NoteFound() { c.Idle = 0 }

// Rests reports whether the next poll of the channel can be skipped, and counts the skipped polls.
// Polls are skipped because each empty poll of a socket is a system call, which delays the messages
// of the second channel. The number of skipped polls and the time without a poll are limited,
// because ACKs, which arrive on the command channel, and retransmissions, which arrive on the data
// channel, must not wait long.
func (c *Channel) Rests(now Time) bool {
	if c.MayRest(now) {
		c.skipped++
		return true
	}
	c.skipped, c.polledAt = 0, now
	return false
}

// MayRest returns the same result as Rests, but counts nothing.
func (c *Channel) MayRest(now Time) bool {
	const idlePolls = 16 // about a round trip, during which the next packet is likely
	const longest = 20 * time.Microsecond
	return c.Idle >= idlePolls && c.Posted == 0 && c.skipped+1 < c.p.cfg.IdlePollEvery &&
		now.Sub(c.polledAt) < longest
}

// Received records that the fabric has returned "count" receive buffers, which contain packets.
func (c *Channel) Received(count int) { c.receiving -= count }

// Return returns a receive buffer to the channel, so that PostReceives posts the buffer again.
func (c *Channel) Return(b fabric.Buf) { c.Repost = append(c.Repost, b) }

// PostReceives posts the free receive buffers. If the fabric cannot take some of the receive
// buffers at present, the next call of PostReceives tries again to post these buffers.
func (c *Channel) PostReceives() {
	n, _ := c.Endpoint.Recv(c.Repost)
	c.receiving += n
	c.Repost = c.Repost[:copy(c.Repost, c.Repost[n:])]
}
