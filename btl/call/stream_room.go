package call

import "gobtl/btl"

// reserve reserves calls for a stream that a client opens. reserve returns false if the limits do
// not allow the stream. The call that opens the stream is counted outside of the reservation, and
// ends before any reserved call begins. The only stream of a Node is accepted regardless of the
// limits. All streams together leave an eighth of Total to other calls. When streams use seven
// eighths of Total, a peer without a stream may still open a stream if its host may have more calls
// and bytes (mayShare), so that unused streams of one host do not exclude other hosts.
func (n *Node) reserve(peer *btl.Endpoint, s *stream) bool {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	c := n.caller(peer)
	if c.running-1+streamCalls > max(n.cfg.Concurrent, streamCalls) ||
		c.requestBytes+streamBytes > max(n.cfg.RequestBytes, streamBytes+streamHeadBytes) ||
		!n.mayReserve(c) {
		return false
	}
	n.hold(c, 1)
	s.free = [3]int{streamWindow, streamWindow, 1}
	return true
}

// mayReserve reports whether the limits for all peers together allow one more stream of a peer.
func (n *Node) mayReserve(c *caller) bool {
	all, host, cfg := &n.load, &c.host.load, &n.cfg
	totalBytes := totalFactor * max(cfg.RequestBytes, streamBytes)
	if c.reserved > 0 {
		return all.running-1+streamCalls <= max(cfg.Total-cfg.Total/8, streamCalls) &&
			all.requestBytes+streamBytes <= totalBytes
	}
	return mayShare(all.running-1, host.running-1, streamCalls, max(cfg.Total, streamCalls)) &&
		mayShare(all.requestBytes, host.requestBytes, streamBytes, totalBytes)
}

// unreserve ends the reservation of a completed stream.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.free, s.over = [3]int{}, true
	c := n.callers[peer]
	n.hold(c, -1)
	n.add(c, load{sending: s.sending, answerBytes: s.answerBytes})
	n.forget(peer)
}

// streamRoom is a stream's reservation of calls, which do not count towards the limits of the
// peer. Node.runMu guards all fields.
type streamRoom struct {
	free        [3]int // free places for pushes, pulls and ends
	sending     int    // answers of handlers, not accepted yet
	answerBytes int64  // bytes of these answers
	over        bool
}

// The method answered adds to the number and the bytes of answers that the transport has
// not accepted.
func (r *streamRoom) answered(answers int, bytes int64) {
	r.sending += answers
	r.answerBytes += bytes
}

// place is one call in the reservation of a stream. The zero value stands for a call without a
// reservation.
type place struct {
	stream *stream
	of     int // index of streamRoom.free
}

// lives reports whether p belongs to a stream that has not ended. The callers of the methods
// lives, take and giveBack hold runMu.
func (p place) lives() bool { return p.stream != nil && !p.stream.over }

// take starts to use a reserved call.
func (p place) take() bool {
	if p.stream == nil || p.stream.free[p.of] == 0 {
		return false
	}
	p.stream.free[p.of]--
	return true
}

func (p place) giveBack() { p.stream.free[p.of]++ }

// hold adds the reservations of the given number of streams to the counts of all peers, or
// removes reservations if the number is negative. The caller holds runMu.
func (n *Node) hold(c *caller, streams int) {
	c.reserved += streams * streamCalls
	n.add(c, load{running: streams * streamCalls, requestBytes: int64(streams) * streamBytes})
}

// The method lends returns the reserved call for a request of a stream, or the zero value
// for a request of no stream.
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
