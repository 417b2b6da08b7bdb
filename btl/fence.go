package btl

// flushing is the calls of Endpoint.Flush and Endpoint.Fence that wait.
type flushing struct {
	flushes fifo[flush]
	fences
}

// fences are the calls of Endpoint.Fence, and how many of them are over.
type fences struct{ set, met uint32 }

// Fence orders what is sent to the peer: nothing that is given to Send from now on leaves before
// everything that was given to it before is done. Of messages that means acknowledged, of puts that
// they are in place, of gets and atomic operations that their answers are here. Calls do not wait;
// meanwhile SendImmediate returns ErrAgain. Without a fence operations may overtake each other, as
// messages do. now is the present instant.
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

// fenced says whether something that is sent now waits for an earlier fence.
func (x *fences) fenced() bool { return x.met != x.set }

// behindFence says whether a fragment has to wait for an earlier fence.
func (x *fences) behindFence(f *Fragment) bool { return int32(f.fence-x.met) > 0 }

// pushAnswer adds an answer to a queue, in front of what waits for a fence: the peer may have a
// fence of its own, which waits for this answer.
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

// lastBefore returns the fragments that stand last in the endpoint's queues of those with so many
// fences before them, or fewer.
func (ep *Endpoint) lastBefore(fences uint32) (last [2]*Fragment) {
	for k, q := range [...]*fragmentList{&ep.small.queue, &ep.large.queue} {
		for f := q.first; f != nil && int32(f.fence-fences) <= 0; f = f.next {
			last[k] = f
		}
	}
	return last
}
