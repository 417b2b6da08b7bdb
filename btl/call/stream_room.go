package call

import "gobtl/btl"

// The method "reserve" reserves calls for a stream that a client opens, and returns true, or
// returns false if the limits do not allow the stream. The call that opens the stream does not use
// the reservation, and ends before the client makes the next call of the stream. If the Node has no
// running call, the stream is accepted regardless of the limits. One eighth of Total is reserved
// for calls outside of streams, and for the first stream of each peer. When the limit for all peers
// is reached, mayShare decides whether the host of the peer can have one more stream, so that the
// streams of one host do not exclude other hosts.
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
	if c.reserved > 0 {
		calls -= calls / 8
	}
	opens := min(c.counted.running, 1) // the call that opens the stream
	return mayShare(all.running-opens, host.running-opens, streamCalls, max(calls, streamCalls)) &&
		mayShare(all.requestBytes, host.requestBytes, streamBytes,
			totalFactor*max(n.cfg.RequestBytes, streamBytes))
}

// The method "unreserve" ends the reservation of a completed stream.
func (n *Node) unreserve(peer *btl.Endpoint, s *stream) {
	n.runMu.Lock()
	defer n.runMu.Unlock()
	s.free, s.over = [3]int{}, true
	c := n.callers[peer]
	n.hold(c, -1)
	n.add(c, s.load)
	n.forget(peer)
}

// streamRoom is the server's reservation of calls for a stream. A reservation is checked against
// the limits only when the stream is opened. Node.runMu guards all fields of streamRoom.
type streamRoom struct {
	load        // the stream's answers
	free [3]int // free places for pushes, pulls and ends
	over bool
}

// The type "place" is the place of one call in the reservation of a stream. The zero value of the
// type "place" means that a call uses no reservation.
type place struct {
	stream *stream
	of     int // index of streamRoom.free
}

// The method "lives" reports whether a place belongs to a stream that has not ended. The callers of
// the methods of the type "place" hold Node.runMu.
func (p place) lives() bool { return p.stream != nil && !p.stream.over }

// The method "take" occupies a place in a stream's reservation, and reports whether a place was
// free.
func (p place) take() bool {
	if p.stream == nil || p.stream.free[p.of] == 0 {
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
