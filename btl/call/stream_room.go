package call

import "gobtl/btl"

// reserve reserves room for the calls of a stream that opens, if there is any: the call that opens
// it is counted already, and ends before they do. A sole stream is accepted whatever the bounds
// are. All streams together leave an eighth of Total to calls. A peer without a stream may open one
// until twice that is reserved: so peers that reserve everything, and use nothing, do not lock
// others out.
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
	// A place is reserved for the stream's end, so that it cannot be refused.
	s.free = [3]int{streamWindow, streamWindow, 1}
	return true
}

// unreserve releases the reservation of a completed stream. Its answers that are not accepted yet
// count as ordinary answers to the peer from then on: so a peer that accepts none can open no more
// streams.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.free, s.over = [3]int{}, true
	c := n.caller(peer)
	n.hold(c, -1)
	n.addSending(c, s.sending, s.answerBytes)
	n.forget(peer)
}

// streamRoom is the reservation for the calls of a stream, beyond the bounds of their peer. A call
// holds its place until its answer is accepted, so the answers are bounded like the calls.
// Node.runMu guards it.
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

// place is the place of a call in a stream's reservation; without a stream it is no place.
type place struct {
	stream *stream
	of     int // index of streamRoom.free
}

// lives says whether p is a place of a stream that is not over. The caller holds the lock, as for
// the next two.
func (p place) lives() bool { return p.stream != nil && !p.stream.over }

// take takes the place; it returns false if none is left.
func (p place) take() bool {
	if p.stream == nil || p.stream.free[p.of] == 0 {
		return false
	}
	p.stream.free[p.of]--
	return true
}

func (p place) giveBack() { p.stream.free[p.of]++ }

// hold counts the reservations of a number of streams. The caller holds the lock.
func (n *Node) hold(c *caller, streams int) {
	c.reserved += streams * streamCalls
	c.running += streams * streamCalls
	n.total += streams * streamCalls
	c.requestBytes += int64(streams) * streamBytes
	n.requestBytes += int64(streams) * streamBytes
}

// lends finds the reserved place for a request that is a call of a stream; it is no place for
// others.
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
