package stream

import (
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// Parsing a letter (control message in JSON) takes up to 40 ns for each byte, and any connected
// peer can send letters. To limit the time for parsing, each endpoint and each host has a bound for
// the number of bytes of letters that this side parses. Because each letter also takes time that
// does not depend on its size, and a packet can carry hundreds of empty letters, a letter counts as
// letterWork bytes plus its size. A stream needs about 12 KiB of letters until its start. In the
// unreliable mode, a receiver also answers a probe of the datagram size about once a second (see
// pathsize.go), by a letter of about 86 bytes. If an endpoint exceeds its own bound, this side
// counts the endpoint in Refusals.Letters, and ends the connection without parsing the letter. If a
// letter exceeds the bound of its sender's host, this side counts the letter in Refusals.Letters,
// and drops it.

const (
	// letterBurst is the number of bytes of letters that an endpoint may send at once, and
	// letterPerSecond is the number of bytes of letters that it may send in each following second.
	// With each stream that the program of this side opens, the burst of every endpoint grows by
	// letterPerStream bytes.
	letterBurst     = 256 << 10
	letterPerSecond = 64 << 10
	letterPerStream = 16 << 10
	// letterWork is the number of bytes that is added to the size of each letter before the letter is
	// counted.
	letterWork = 64
	// For each open link to an endpoint, the rate of the endpoint is higher by letterPerLink bytes a
	// second.
	letterPerLink = 256
	// All endpoints of a host together may send letterHostShare times as much as one endpoint. The
	// bound of a host outlives its endpoints, so that a peer cannot send another burst by opening a
	// new connection.
	letterHostShare = 4
	// letterHostsMax is the largest number of hosts whose bounds are kept, unless more hosts have open
	// links.
	letterHostsMax = 1024
)

// letterTime returns the time in which an endpoint without links may send the given number of
// bytes.
func letterTime(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / letterPerSecond
}

// The type "letters" limits the number of bytes of letters (control messages in JSON) that are
// parsed.
type letters struct {
	opened    uint64 // number of streams that the program has opened
	endpoints map[*btl.Endpoint]*letterBound
	// The map "partners" has, for each endpoint, the number of receivers whose streams have begun plus
	// the number of links that are ready.
	partners map[*btl.Endpoint]int
	hosts    map[letterHost]*letterBound
	parsed   uint64 // number of letters that were parsed
}

// A host has one bound for its endpoints without links, and a second bound for its endpoints with
// links that are not ready, so that letters of endpoints without links cannot prevent the
// handshakes of receivers on the same host.
type letterHost struct {
	host   string
	linked bool
}

// letterBound is the limit on the letters of an endpoint or of a host (a token bucket). If no
// further letter arrives, the peer may send a whole burst again from the time "free" on.
type letterBound struct {
	free   mono.Time
	opened uint64 // letters.opened at the latest letter
	links  int    // open links to the endpoint, or to all endpoints of the host if not "linked"
	// If no further letter arrives, the letters that the endpoint has sent as a partner do not exceed
	// its rate from the time "partner" on.
	partner mono.Time
}

// The method "time" returns the time in which the peer may send the given number of bytes. The
// argument "share" of the method "time" is 1 for an endpoint, and letterHostShare for a host.
func (b *letterBound) time(bytes, share int) time.Duration {
	perSecond := share*letterPerSecond + b.links*letterPerLink
	return time.Duration(bytes) * time.Second / time.Duration(perSecond)
}

// The method "spend" counts a letter, and reports whether the letter is within the bound. The
// argument "burst" of the method "spend" is the time of the largest burst.
func (b *letterBound) spend(l *letters, now mono.Time, cost, burst time.Duration) bool {
	b.free -= mono.Time(l.opened-b.opened) * mono.Time(letterTime(letterPerStream))
	b.opened = l.opened
	b.free = max(b.free, now)
	if b.free.Sub(now)+cost > burst {
		return false
	}
	b.free = b.free.Add(cost)
	return true
}

// A letterVerdict says what the engine does with a letter.
type letterVerdict uint8

const (
	mayParse letterVerdict = iota
	mustDrop               // the host of the endpoint is beyond its bound
	mustEnd                // the endpoint is beyond its own bound
)

// The method "judge" counts a letter from an endpoint. The argument "bytes" is the size of the
// letter plus letterWork. The argument "streams" is the number of streams of the program. The
// argument "partner" says that a stream of the program is connected to the endpoint. Until the
// connection of a partner ends (see end), its letters do not count towards the bound of its host,
// so that other endpoints of the host cannot cause the loss of these letters. An endpoint whose
// only links are not ready is not a partner, because a host can cause any number of such links by
// identity lines to a Meeting. Each open link to a host adds letterPerStream to the burst of the
// host's endpoints with links.
func (l *letters) judge(ep *btl.Endpoint, now mono.Time, bytes, streams int,
	partner bool,
) letterVerdict {
	one, all := l.bounds(ep, now)
	burst := letterBurst + streams*letterPerStream
	hostBurst := letterHostShare * burst
	if one.links > 0 {
		hostBurst += all.links * letterPerStream
		all = l.host(letterHost{ep.PeerHost(), true}, now)
	}
	switch {
	case !one.spend(l, now, one.time(bytes, 1), one.time(burst, 1)):
		return mustEnd
	case partner:
		one.partner = max(one.partner, now).Add(one.time(bytes, 1))
	case !all.spend(l, now, all.time(bytes, letterHostShare), all.time(hostBurst, letterHostShare)):
		return mustDrop
	}
	l.parsed++
	return mayParse
}

// The method "join" counts an open link in the bounds of its endpoint and host.
func (l *letters) join(k *link, now mono.Time) {
	one, all := l.bounds(k.ep, now)
	k.bounds = [2]*letterBound{one, all}
	for _, b := range k.bounds {
		b.links++
	}
}

// The method "leave" ends the counting of a link.
func (l *letters) leave(k *link) {
	for _, b := range k.bounds {
		if b != nil {
			b.links--
		}
	}
	k.bounds = [2]*letterBound{}
}

// The method "partner" adds the argument "more" (1 or -1) to the number of streams with an
// endpoint.
func (l *letters) partner(ep *btl.Endpoint, more int) {
	if l.partners == nil {
		l.partners = make(map[*btl.Endpoint]int)
	}
	if l.partners[ep] += more; l.partners[ep] == 0 {
		delete(l.partners, ep)
	}
}

// The method "bounds" returns the bound of an endpoint, and the bound of its host for endpoints
// without links.
func (l *letters) bounds(ep *btl.Endpoint, now mono.Time) (one, all *letterBound) {
	if l.endpoints == nil {
		l.endpoints = make(map[*btl.Endpoint]*letterBound)
		l.hosts = make(map[letterHost]*letterBound)
	}
	one = l.endpoints[ep]
	if one == nil {
		one = &letterBound{opened: l.opened}
		l.endpoints[ep] = one
	}
	return one, l.host(letterHost{ep.PeerHost(), false}, now)
}

// The method "host" returns a bound of a host.
func (l *letters) host(host letterHost, now mono.Time) *letterBound {
	b := l.hosts[host]
	if b == nil {
		l.forget(now)
		b = &letterBound{opened: l.opened}
		l.hosts[host] = b
	}
	return b
}

// The method "end" removes the bound of an endpoint. Letters that the endpoint has sent as a
// partner beyond its rate count towards the bound of its host, so that a partner cannot send
// another burst by opening a new connection.
func (l *letters) end(ep *btl.Endpoint, now mono.Time) {
	b := l.endpoints[ep]
	if b == nil {
		return
	}
	delete(l.endpoints, ep)
	if owed := b.partner.Sub(now); owed > 0 {
		all := l.host(letterHost{ep.PeerHost(), true}, now)
		all.free = max(all.free, now).Add(owed / letterHostShare)
	}
}

// forget makes room for the bound of one more host. forget removes the bounds of hosts that may
// send a whole burst again, and if too many bounds remain, the bounds of any other hosts without
// open links.
func (l *letters) forget(now mono.Time) {
	if len(l.hosts) < letterHostsMax {
		return
	}
	for host, b := range l.hosts {
		if b.free <= now && b.links == 0 {
			delete(l.hosts, host)
		}
	}
	for host, b := range l.hosts {
		if len(l.hosts) < letterHostsMax {
			return
		}
		if b.links == 0 {
			delete(l.hosts, host)
		}
	}
}

// errLetters is the error of the streams with a peer that sends too many letters.
var errLetters = fmt.Errorf("%w: more control messages than %d bytes and %d bytes a second "+
	"(each counts %d more)", ErrPeerFailed, letterBurst, letterPerSecond, letterWork)

// endLetters ends the connection to an endpoint that sends too many letters, and the streams with
// this endpoint.
func (e *Engine) endLetters(ep *btl.Endpoint) {
	e.refused.Letters++
	for _, s := range e.sending {
		for _, k := range s.links {
			if k.ep == ep {
				k.fail(errLetters)
			}
		}
	}
	for _, r := range e.receiving {
		if r.ep == ep {
			r.fail(errLetters)
		}
	}
	ep.Abort()
}
