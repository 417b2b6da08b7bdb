package call

import "gobtl/btl"

// reserve keeps room for the calls of a stream that opens, if there is: the call that opens it is
// under way, and over before they are. One that is alone is let in whatever the bounds are. All
// streams together leave an eighth of Total to calls; but a peer that has none may have one as long
// as they are not twice what is allowed: those who have reserved all, and use none of it, keep
// nobody out.
func (n *Node) reserve(peer *btl.Endpoint, s *stream) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	c := n.caller(peer)
	total := max(n.cfg.Total-n.cfg.Total/8, streamCalls)
	totalBytes := totalFactor * max(n.cfg.RequestBytes, streamBytes)
	if c.reserved == 0 {
		total, totalBytes = 2*max(n.cfg.Total, streamCalls), 2*totalBytes
	}
	if c.running-1+streamCalls > max(n.cfg.Concurrent, streamCalls) ||
		n.total-1+streamCalls > total ||
		c.requestBytes+streamBytes > max(n.cfg.RequestBytes, streamBytes+streamHeadBytes) ||
		n.requestBytes+streamBytes > totalBytes {
		return false
	}
	n.hold(c, 1)
	// Its end has nothing that it could be refused for.
	s.free = [3]int{streamWindow, streamWindow, 1}
	return true
}

// unreserve gives up what was kept for a stream that is over. Its answers that are not accepted yet
// are the peer's from then on, as others are: who takes none opens no more streams for that.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.free, s.over = [3]int{}, true
	c := n.caller(peer)
	n.hold(c, -1)
	n.addSending(c, s.sending, s.answerBytes)
	n.forget(peer)
}

// streamRoom is what is kept for the calls of a stream, beyond what their peer may have. A call has
// its place until its answer is accepted, so the answers of a stream are bounded as its calls are.
// It is of Node.runMu.
type streamRoom struct {
	free        [3]int // pushes, pulls, ends that may begin
	sending     int    // of which the handlers have ended, and the answers are not accepted
	answerBytes int64  // of those answers
	over        bool
}

// answered counts answers.
func (r *streamRoom) answered(answers int, bytes int64) {
	r.sending += answers
	r.answerBytes += bytes
}

// place is that of a call among what is kept for a stream; without a stream it is none.
type place struct {
	stream *stream
	of     int // index of streamRoom.free
}

// lives says whether it is one, of a stream that is not over. The lock is held, as for the next
// two.
func (p place) lives() bool { return p.stream != nil && !p.stream.over }

// take reports false if nothing is left of it.
func (p place) take() bool {
	if p.stream == nil || p.stream.free[p.of] == 0 {
		return false
	}
	p.stream.free[p.of]--
	return true
}

func (p place) giveBack() { p.stream.free[p.of]++ }

// hold counts what is kept for a number of streams. The lock is held.
func (n *Node) hold(c *caller, streams int) {
	c.reserved += streams * streamCalls
	c.running += streams * streamCalls
	n.total += streams * streamCalls
	c.requestBytes += int64(streams) * streamBytes
	n.requestBytes += int64(streams) * streamBytes
}

// lends finds the calls of a stream for which room is kept, by a request: none if it is of none.
func (n *Node) lends(peer *btl.Endpoint, method uint16, request []byte) place {
	h, ok := getStreamHead(request)
	if !ok || h.op < streamPush || h.op > streamEnd || len(request) > streamMsgBytes ||
		h.op != streamPush && len(request) > streamHeadBytes {
		return place{}
	}
	s := n.streams.find(served{peer, h.id})
	if s == nil || s.method != method {
		return place{}
	}
	return place{s, int(h.op - streamPush)}
}
