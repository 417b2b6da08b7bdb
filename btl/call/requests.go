package call

import "gobtl/btl"

// Call copies a request. If the request is larger than a packet, the transport keeps the copy until
// the peer has acknowledged the request, even if the caller has stopped waiting. A Node counts the
// bytes of these requests, so that a peer that acknowledges slowly cannot make the Node store more
// and more requests. A call whose request would exceed a limit waits without a copy, because the
// function given to AwaitFor returns btl.ErrAgain. The Runner tries the waiting calls for each
// endpoint again.

// The type "unackedRequests" counts the bytes of the requests that were sent and have neither been
// acknowledged nor refused. Only the goroutine that drives the module may use it.
type unackedRequests struct {
	to      map[*btl.Endpoint]*askedPeer
	hosts   map[string]*askedHost
	counted int64 // sum of askedHost.counted
}

// The type "askedPeer" counts the unacknowledged requests to one peer. The state of a peer exists
// from its first large request until its endpoint has ended.
type askedPeer struct {
	host  *askedHost
	bytes int64
}

// The type "askedHost" counts the unacknowledged requests to all peers on one host.
type askedHost struct {
	name    string
	peers   int
	counted int64 // bytes that count towards the limit for all peers
}

// The method "more" returns by how much the counted bytes of a host change if the unacknowledged
// bytes of the peer change by the argument "bytes". The bytes of a peer do not count while they are
// at most smallBytes, so that one host with many peers cannot use up the limit for all peers with
// small requests.
func (p *askedPeer) more(bytes int64) int64 { return counted(p.bytes+bytes) - counted(p.bytes) }

func counted(bytes int64) int64 {
	if bytes <= smallBytes {
		return 0
	}
	return bytes
}

// mayAsk reports whether the limits on unacknowledged requests allow one more request of the given
// size to a peer. A request of at most packetBytesMin bytes counts towards no limit. A request to
// an ended endpoint is allowed, because it fails at once. A peer without unacknowledged requests is
// allowed a request of any size if its host has no counted requests.
func (n *Node) mayAsk(peer *btl.Endpoint, bytes int) bool {
	if bytes <= packetBytesMin || peer.Err() != nil {
		return true
	}
	p, more, most := n.asksOf(peer), int64(bytes), max(n.cfg.RequestBytes, unackedFree)
	if p.bytes > 0 && p.bytes+more > most {
		return false
	}
	return p.host.counted == 0 ||
		mayShare(n.asks.counted, p.host.counted, p.more(more), totalFactor*most)
}

// asksOf returns the state of a peer to which requests are sent, and makes the state if there is
// none.
func (n *Node) asksOf(peer *btl.Endpoint) *askedPeer {
	p := n.asks.to[peer]
	if p != nil {
		return p
	}
	if n.asks.to == nil {
		n.asks.to, n.asks.hosts = map[*btl.Endpoint]*askedPeer{}, map[string]*askedHost{}
	}
	name := n.hostOf(peer)
	h := n.asks.hosts[name]
	if h == nil {
		h = &askedHost{name: name}
		n.asks.hosts[name] = h
	}
	h.peers++
	p = &askedPeer{host: h}
	n.asks.to[peer] = p
	return p
}

// countRequest counts a request that is about to be sent. endRequest subtracts a request that the
// peer has acknowledged or refused, or that was not sent.
func (n *Node) countRequest(peer *btl.Endpoint, bytes int) {
	if bytes > packetBytesMin {
		n.addRequest(n.asksOf(peer), int64(bytes))
	}
}

func (n *Node) endRequest(peer *btl.Endpoint, bytes int) {
	if bytes <= packetBytesMin {
		return
	}
	n.addRequest(n.asksOf(peer), -int64(bytes))
	if peer.Err() != nil {
		n.forgetAsks(peer)
	}
}

func (n *Node) addRequest(p *askedPeer, bytes int64) {
	more := p.more(bytes)
	p.bytes += bytes
	p.host.counted += more
	n.asks.counted += more
}

// forgetAsks deletes the state of an ended endpoint, unless requests to it are unacknowledged.
func (n *Node) forgetAsks(peer *btl.Endpoint) {
	p := n.asks.to[peer]
	if p == nil || p.bytes > 0 {
		return
	}
	delete(n.asks.to, peer)
	if p.host.peers--; p.host.peers == 0 {
		delete(n.asks.hosts, p.host.name)
	}
}
