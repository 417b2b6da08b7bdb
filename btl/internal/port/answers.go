package port

import (
	"time"

	"gobtl/fabric"
)

// answerBound limits the answers to addresses that are not validated. If an address is forged and
// its host does not exist, the kernel can keep each answer to this address in the socket's send
// buffer for seconds. If answers to forged addresses filled the send buffer, no packet could be
// sent to any peer.
type answerBound struct {
	backlogger fabric.Backlogger // nil if the provider does not know the use of the send buffer
	askedAt    Time              // time of the latest call of Backlog
	crowded    bool              // at the time askedAt, the send buffer was crowded
	answeredAt Time              // time of the latest answer while the send buffer was crowded
}

const (
	// The send buffer is crowded if more than 1/crowdedPart of it is in use. The answers that are sent
	// in one poll use less than 1/crowdedPart of the send buffer, even if the send buffer has only 400
	// KB.
	crowdedPart = 4
	// While the send buffer is crowded, answers to addresses that are not validated are sent one by
	// one, with a pause of crowdedPause. In the three seconds for which Linux tries to resolve the
	// link address of a host, 60 answers are sent, which use less than 50 KB of the send buffer.
	// Answers are not stopped completely, because the send buffer can be crowded by packets to
	// connected peers, and new peers need answers even while the send buffer is crowded.
	crowdedPause = 50 * time.Millisecond
)

// MayAnswer reports whether the limit on answers allows an answer, through the channel and at the
// time "now", to an address that is not validated, and counts this answer. The argument "now" of
// MayAnswer is the time of the present poll. MayAnswer queries the provider once in a poll.
func (c *Channel) MayAnswer(now Time) bool {
	a := &c.answers
	if a.backlogger == nil {
		return true
	}
	if now != a.askedAt {
		used, size := a.backlogger.Backlog()
		a.askedAt, a.crowded = now, used > size/crowdedPart
	}
	if a.crowded {
		if now.Sub(a.answeredAt) < crowdedPause {
			return false
		}
		a.answeredAt = now
	}
	return true
}
