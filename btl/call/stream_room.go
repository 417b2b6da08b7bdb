package call

import "gobtl/btl"

// The method "reserve" reserves calls for a stream that a client opens, and returns true, or
// returns false if the limits do not allow the stream. The call that opens the stream does not use
// the reservation, and ends before the client makes the next call of the stream. If the Node has no
// running call, and no unacknowledged answer of an ended stream, the stream is accepted regardless
// of the limits. One eighth of Total is reserved for calls outside of streams, and for the first
// stream of each peer. When the limit for all peers is reached, mayShare decides whether the host
// of the peer can have one more stream, so that the streams of one host do not exclude other hosts.
// When a peer opens a stream, up to streamCalls calls and answers of its ended streams do not
// count, because the last answers of an honest peer's latest stream are often unacknowledged at
// that time. Because some calls of ended streams do not count, the calls of all peers can exceed
// the limit by one stream.
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

// mayReserve reports whether the limits for all peers together allow a peer to open one more
// stream.
func (n *Node) mayReserve(c *caller) bool {
	all, host, calls := &n.counted, &c.host.counted, n.cfg.Total
	if c.reserved > 0 || c.ended > streamCalls {
		calls -= calls / 8
	}
	opens := min(c.counted.running, 1) // the call that opens the stream
	free := opens + min(c.ended, streamCalls)
	return mayShare(all.inTotal()-free, host.inTotal()-free, streamCalls,
		max(calls, streamCalls)) &&
		mayShare(all.requestBytes, host.requestBytes, streamBytes,
			totalFactor*max(n.cfg.RequestBytes, streamBytes))
}

// The method "unreserve" ends the reservation of a completed stream. The calls and answers of the
// completed stream that have not ended still count towards the limits, because a client that
// accepts no answers could otherwise open one stream after the other.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.over = true
	c := n.callers[peer]
	n.hold(c, -1)
	c.streamed.add(s.load)
	n.add(c, load{ended: s.settle()})
	n.forget(peer)
}

// The method "settle" counts the calls and answers of an ended stream that have not ended, and
// returns the change of this count. The count is at most streamCalls, the number of calls that were
// reserved for the stream. An answer occupies the place of its call until the transport has
// accepted the answer, and is unacknowledged afterwards. The calling function holds Node.runMu.
func (r *streamRoom) settle() (change int) {
	left := 2*streamWindow + 1 + r.unacked
	for _, free := range r.free {
		left -= free
	}
	left = min(left, streamCalls)
	change, r.left = left-r.left, left
	return change
}

// streamRoom is the server's reservation of calls for a stream. A reservation is checked against
// the limits only when the stream is opened. No call gets a place after the end of the stream.
// Node.runMu guards all fields of streamRoom.
type streamRoom struct {
	load        // the stream's answers
	free [3]int // free places for pushes, pulls and ends
	over bool   // the stream has ended
	left int    // the part of caller.ended that belongs to the stream
}

// The type "place" identifies one of the concurrent calls that are reserved for a stream. With the
// zero value of the type "place", a call does not use the calls reserved for a stream.
type place struct {
	stream *stream
	of     int // index of streamRoom.free
}

// The method "take" occupies a place in a stream's reservation, and reports whether a place was
// free. The callers of the methods of the type "place" hold Node.runMu.
func (p place) take() bool {
	if p.stream == nil || p.stream.over || p.stream.free[p.of] == 0 {
		return false
	}
	p.stream.free[p.of]--
	return true
}

func (p place) giveBack() { p.stream.free[p.of]++ }

// The method "hold" adds the reservations of the given number of streams to the counts of running
// calls and request bytes, or subtracts them if the number is negative. The calling function holds
// runMu.
func (n *Node) hold(c *caller, streams int) {
	c.reserved += streams * streamCalls
	n.add(c, load{running: streams * streamCalls, requestBytes: int64(streams) * streamBytes})
}

// The method "lends" returns the reserved place of a request that belongs to an open stream, and
// the zero place for a request that does not belong to an open stream.
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
