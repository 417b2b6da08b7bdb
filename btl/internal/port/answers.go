package port

import (
	"time"

	"gobtl/fabric"
)

// answerBound limits the answers to addresses that have not been proven. The kernel may keep each
// such answer in the socket's send buffer for seconds, because the host of a forged address may not
// exist. A full send buffer would stop the packets to all peers.
type answerBound struct {
	backlogger fabric.Backlogger // nil if the provider does not know the use of the send buffer
	askedAt    Time              // time of the latest call of Backlog
	crowded    bool              // then more than a part of the send buffer was in use
	answeredAt Time              // time of the latest answer while the send buffer was crowded
}

const (
	// The send buffer is crowded if more than one of crowdedPart parts of it is in use. The answers of
	// one pass use less than another such part, even of a send buffer of 400 KB.
	crowdedPart = 4
	// While the send buffer is crowded, answers to unproven addresses leave one by one, with a pause
	// of crowdedPause. In the three seconds for which Linux looks for a host, these are 60 answers,
	// which use less than 50 KB of the send buffer. The packets to connected peers can also crowd the
	// send buffer, and newcomers must then still get answers.
	crowdedPause = 50 * time.Millisecond
)

// MayAnswer reports whether an answer to an unproven address may be sent on the channel now, and
// counts the answer. The argument "now" of MayAnswer is the time of the present pass. MayAnswer
// asks the provider once in a pass.
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
