package btl

// flushing is the list of pending calls of Endpoint.Flush and Endpoint.Fence.
type flushing struct {
	flushes fifo[flush]
	fences
}

// fences counts the calls of Endpoint.Fence, and those that are complete.
type fences struct{ set, met uint32 }

// Fence orders sends to the peer: fragments given to Send from now on leave only after all earlier
// ones are done. A message is done when it is acknowledged, a put when its bytes are in place, a
// get or atomic operation when its answer has arrived. Fence does not block; until the earlier
// fragments are done SendImmediate returns ErrAgain. Without a fence, operations and messages may
// overtake each other. now is the present instant.
func (ep *Endpoint) Fence(now Time) {
	m := ep.m
	m.at(now)
	if ep.err != nil {
		return
	}
	if ep.pack.open() && ep.state == stateConnected {
		m.overtook(ep, m.sealPack(ep))
	}
	sent := ep.sentUntil()
	ep.flushes.push(flush{
		fence: true, fences: ep.fences.set, after: ep.lastQueued(), until: sent, sent: sent,
		open: ep.pack.open(),
	})
	ep.fences.set++
	ep.checkFlushed()
	m.askFlush(ep)
	m.sched.rearm(ep)
}

// fenced says whether a fragment that is sent now would wait for an earlier fence.
func (x *fences) fenced() bool { return x.met != x.set }

// behindFence says whether a fragment has to wait for an earlier fence.
func (x *fences) behindFence(f *Fragment) bool { return int32(f.fence-x.met) > 0 }

// pushAnswer adds an answer to a queue, ahead of fragments that wait for a fence: a fence of the
// peer's may wait for this answer.
func (x *fences) pushAnswer(q *fragmentList, f *Fragment) {
	if f.fence = x.met; q.last == nil || !x.behindFence(q.last) {
		q.push(f)
		return
	}
	var behind *Fragment
	for l := q.first; !x.behindFence(l); l = l.next {
		behind = l
	}
	q.insert(f, behind)
}

// lastBefore returns, for each of the endpoint's queues, the last fragment with at most that many
// fences before it.
func (ep *Endpoint) lastBefore(fences uint32) (last [2]*Fragment) {
	for k, q := range [...]*fragmentList{&ep.small.queue, &ep.large.queue} {
		for f := q.first; f != nil && int32(f.fence-fences) <= 0; f = f.next {
			last[k] = f
		}
	}
	return last
}
