package call

import (
	"gobtl/btl"
	"gobtl/internal/byhost"
)

// Call copies a request. The transport keeps the copy of a request that is larger than a packet
// until the peer has acknowledged the request, even if the caller has stopped waiting. A Node
// counts the bytes of unacknowledged requests, so that a peer that acknowledges slowly cannot make
// the Node store more and more requests. If a request would exceed a limit, the function given to
// AwaitFor returns btl.ErrAgain before it copies the request, and the Runner calls this function
// again later.

// The type "unackedRequests" counts the bytes of the requests that were sent and have neither been
// acknowledged nor refused. Only the goroutine that drives the module may use the type
// "unackedRequests".
type unackedRequests struct {
	hostOf func(*btl.Endpoint) string // Endpoint.PeerHost
	most   int64                      // unacknowledged bytes to one peer
	bound  byhost.Bound               // for all peers
	// The field "to" contains the Holder of a peer (the count of its unacknowledged bytes) from the
	// first large request to the peer until its endpoint has ended.
	to map[*btl.Endpoint]*byhost.Holder
}

// newUnackedRequests returns counts with a limit of "most" bytes for one peer, and of
// totalFactor*most bytes for all peers together. The requests to a peer do not count towards the
// limit for all peers while they have at most smallBytes.
func newUnackedRequests(most int64) unackedRequests {
	return unackedRequests{
		hostOf: (*btl.Endpoint).PeerHost, most: most,
		bound: byhost.NewBound(totalFactor*most, smallBytes),
	}
}

// mayAsk reports whether the limits on unacknowledged requests allow one more request of the given
// size to a peer. A request of at most packetBytesMin bytes counts towards no limit. A request to
// an ended endpoint is allowed, because it fails at once. The unacknowledged requests to one peer
// have at most u.most bytes, but a single request may be larger. Within the limit for one peer, a
// request is allowed while the peer's host has not used its share of the limit for all peers.
func (u *unackedRequests) mayAsk(peer *btl.Endpoint, bytes int) bool {
	if bytes <= packetBytesMin || peer.Err() != nil {
		return true
	}
	h := u.holder(peer)
	if h.Held() > 0 && h.Held()+int64(bytes) > u.most {
		return false
	}
	return u.bound.MayAdd(h, int64(bytes))
}

// holder returns the Holder of a peer, and makes it before the first large request to the peer.
func (u *unackedRequests) holder(peer *btl.Endpoint) *byhost.Holder {
	h := u.to[peer]
	if h == nil {
		if u.to == nil {
			u.to = make(map[*btl.Endpoint]*byhost.Holder)
		}
		h = new(byhost.Holder)
		u.bound.Enter(h, u.hostOf(peer))
		u.to[peer] = h
	}
	return h
}

// The method "begin" counts a request that is about to be sent. The method "end" subtracts a
// request that the peer has acknowledged or refused, or that was not sent.
func (u *unackedRequests) begin(peer *btl.Endpoint, bytes int) {
	if bytes > packetBytesMin {
		u.bound.Add(u.holder(peer), int64(bytes))
	}
}

func (u *unackedRequests) end(peer *btl.Endpoint, bytes int) {
	if bytes <= packetBytesMin {
		return
	}
	u.bound.Add(u.holder(peer), -int64(bytes))
	if peer.Err() != nil {
		u.forget(peer)
	}
}

// The method "forget" deletes the state of an ended endpoint, unless requests to it are
// unacknowledged.
func (u *unackedRequests) forget(peer *btl.Endpoint) {
	if h := u.to[peer]; h != nil && h.Held() == 0 {
		u.bound.Leave(h)
		delete(u.to, peer)
	}
}
