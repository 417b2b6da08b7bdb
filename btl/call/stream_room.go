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

// unreserve gives up what was kept for a stream that is over.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.free = [3]int{}
	n.hold(n.caller(peer), -1)
	n.forget(peer)
}

// hold counts what is kept for a number of streams. The lock is held.
func (n *Node) hold(c *caller, streams int) {
	c.reserved += streams * streamCalls
	c.running += streams * streamCalls
	n.total += streams * streamCalls
	c.requestBytes += int64(streams) * streamBytes
	n.requestBytes += int64(streams) * streamBytes
}

// lends finds the calls of a stream for which room is kept, by a request: nil if it is of none.
func (n *Node) lends(peer *btl.Endpoint, method uint16, request []byte) *int {
	h, ok := getStreamHead(request)
	if !ok || h.op < streamPush || h.op > streamEnd || len(request) > streamMsgBytes ||
		h.op != streamPush && len(request) > streamHeadBytes {
		return nil
	}
	s := n.streams.find(served{peer, h.id})
	if s == nil || s.method != method {
		return nil
	}
	return &s.free[h.op-streamPush]
}
