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
	hostOf  func(*btl.Endpoint) string // Endpoint.PeerHost
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
// size to a peer. The argument "most" is the limit for one peer. A request of at most
// packetBytesMin bytes counts towards no limit. A request to an ended endpoint is allowed, because
// it fails at once. A peer without unacknowledged requests is allowed a request of any size if its
// host has no counted requests, or if the limit for all peers has room for "most" bytes.
func (u *unackedRequests) mayAsk(peer *btl.Endpoint, bytes int, most int64) bool {
	if bytes <= packetBytesMin || peer.Err() != nil {
		return true
	}
	p, more := u.peer(peer), int64(bytes)
	if p.bytes > 0 && p.bytes+more > most {
		return false
	}
	more = min(p.more(more), most) // a larger one could wait for ever
	return p.host.counted == 0 || mayShare(u.counted, p.host.counted, more, totalFactor*most)
}

// The method "peer" returns the state of a peer to which requests are sent, and makes the state if
// there is none.
func (u *unackedRequests) peer(ep *btl.Endpoint) *askedPeer {
	p := u.to[ep]
	if p != nil {
		return p
	}
	if u.to == nil {
		u.to, u.hosts = map[*btl.Endpoint]*askedPeer{}, map[string]*askedHost{}
	}
	name := u.hostOf(ep)
	h := u.hosts[name]
	if h == nil {
		h = &askedHost{name: name}
		u.hosts[name] = h
	}
	h.peers++
	p = &askedPeer{host: h}
	u.to[ep] = p
	return p
}

// The method "begin" counts a request that is about to be sent. The method "end" subtracts a
// request that the peer has acknowledged or refused, or that was not sent.
func (u *unackedRequests) begin(peer *btl.Endpoint, bytes int) {
	if bytes > packetBytesMin {
		u.add(u.peer(peer), int64(bytes))
	}
}

func (u *unackedRequests) end(peer *btl.Endpoint, bytes int) {
	if bytes <= packetBytesMin {
		return
	}
	u.add(u.peer(peer), -int64(bytes))
	if peer.Err() != nil {
		u.forget(peer)
	}
}

func (u *unackedRequests) add(p *askedPeer, bytes int64) {
	more := p.more(bytes)
	p.bytes += bytes
	p.host.counted += more
	u.counted += more
}

// The method "forget" deletes the state of an ended endpoint, unless requests to it are
// unacknowledged.
func (u *unackedRequests) forget(peer *btl.Endpoint) {
	p := u.to[peer]
	if p == nil || p.bytes > 0 {
		return
	}
	delete(u.to, peer)
	if p.host.peers--; p.host.peers == 0 {
		delete(u.hosts, p.host.name)
	}
}
