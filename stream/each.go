package stream

import (
	"errors"

	"gobtl/fabric"
)

// The methods of this file send over a fabric with a flow control for each receiver, such as shared
// memory (Info.Reliable). On a fabric with a flow control for each receiver, the queue of a
// receiver that does not read becomes full, and Post returns ErrAgain only for datagrams to the
// receiver with the full queue. A receiver with a full queue does not delay the stream to the
// remaining receivers:
//
//   - The sender goes at the speed of its fastest receiver. When the fabric has accepted the whole
//     batch for one receiver, the sender does not send the rest of the batch to the receivers whose
//     queues are full.
//   - The fabric may accept sends to a receiver with a full queue, and complete them only when the
//     receiver reads. The incomplete sends to one receiver can occupy only a part of the send
//     buffers (see the method "share").
//   - The sender copies the payload to send buffers, so that an incomplete send does not keep a
//     region of the ring in use.

const (
	// The number of incomplete sends to one receiver is at most 1/eachPart of the number of free send
	// buffers. A batch uses at most 1/eachPart of the free send buffers.
	eachPart = 4
	// The incomplete sends to all receivers of one stream together use at most eachMax send buffers.
	eachMax = txBuffers / 2
	// The queue of a receiver counts as full after stuckTries successive calls of postTo in which the
	// fabric accepted no datagram to the receiver. Successive calls of postTo for a receiver are in
	// separate calls of the engine's Progress. Each call of Progress polls up to pollBatch
	// completions, so that stuckTries calls can poll the completions of all send buffers.
	stuckTries = 1 + (txBuffers+pollBatch-1)/pollBatch
)

// postEach posts the batch to each receiver. postEach returns true when the batch is done, and
// returns false when a later call must post the rest of the batch.
func (c *caster) postEach() bool {
	whole, behind, full := c.joined(), false, true
	for _, k := range c.targets {
		if k.state == linkReady && k.posted < len(c.batch) {
			if c.postTo(k); c.s.state == stateDone {
				return false
			}
		}
		switch {
		case k.state != linkReady:
		case k.posted >= len(c.batch):
			whole = true
		default:
			behind, full = true, full && k.stuck >= stuckTries
		}
	}
	if behind && (!whole || !full) {
		return false
	}
	for _, k := range c.targets {
		if k.state == linkReady {
			c.s.stats.FullDrops += uint64(len(c.batch) - k.posted)
		}
	}
	return true
}

// The method "joined" reports whether a receiver has joined the stream after the destinations of
// the present batch were chosen.
func (c *caster) joined() bool {
	n := 0
	for _, k := range c.s.links {
		if k.state == linkReady && k.hasAddr {
			n++
		}
	}
	for _, k := range c.targets {
		if k.state == linkReady {
			n--
		}
	}
	return n > 0
}

// postTo posts datagrams of the batch to the receiver k, until the fabric accepts no more.
func (c *caster) postTo(k *link) {
	before := k.posted
	end := min(len(c.batch), k.posted+c.share(k))
	for k.posted < end && k.state == linkReady {
		n := c.aim(k, c.batch[k.posted:end])
		if n == 0 {
			break
		}
		n, err := c.postAimed(k, c.batch[k.posted:k.posted+n])
		k.posted += n
		if errors.Is(err, fabric.ErrAgain) {
			break
		}
		if err != nil {
			k.posted++
			if c.s.stats.SendErrors++; c.refused(err, k) {
				return
			}
		}
	}
	if k.stuck++; k.posted > before {
		k.stuck = 0
	}
}

// The method "share" returns how many datagrams the sender may post to the receiver k before an
// earlier send to k completes. If no send to the receiver is incomplete, "share" returns at least
// 1.
func (c *caster) share(k *link) int {
	most := min(len(c.port.txBuf)/eachPart, eachMax/len(c.targets))
	if k.underWay == 0 {
		most = max(most, 1)
	}
	return max(0, most-k.underWay)
}
