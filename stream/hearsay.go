package stream

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"gobtl/internal/mono"
)

// A receiver sends one line to a Meeting, a TCP address at which peers exchange identities. The
// line names the two addresses of the receiver's module, and the sender begins a handshake with
// both. The handshake packets go to addresses that have not answered yet. If one of the two
// addresses belongs to a host other than the one that sent the line (hearsay), that address may be
// a victim's. All senders of an Engine together begin at most two handshakes a second with such
// addresses (hearsayEvery), and give up each handshake soon. One host may use only a part of this
// rate, so that a part is left for other hosts. The data address that a receiver sends when it
// accepts the sender counts as an address of its line.
//
// A receiver on a host with several networks may name an address that is not the source address of
// its connection to the Meeting. If the rate does not allow a handshake with such a receiver now,
// the receiver is asked to try again later. A process of the sender's own host may name any
// address, because it can send packets to this address itself. Lines that a forwarder on this host
// passes on (such as "ssh -R") are lines of this host, too.

const (
	// hearsayEvery is the average time between two handshakes by hearsay, and hearsayBurst is the
	// largest number of such handshakes at once.
	hearsayEvery = 500 * time.Millisecond
	hearsayBurst = 4
	// After a line of a host has begun a handshake by hearsay, hearsayAgain is the time until a line
	// of this host may begin the next handshake.
	hearsayAgain = hearsayBurst * hearsayEvery
	// If an address was named by a host that may not own it (hearsay), hearsayTime is the longest wait
	// for the answer to a handshake with this address. A handshake sends six rounds of Hellos in
	// hearsayTime.
	hearsayTime = time.Second
)

var (
	errHearsay = fmt.Errorf(
		"%w: no answer within %v from the address that another host gives", ErrTimeout, hearsayTime)
	errHearsays = fmt.Errorf("%w: too many receivers with an address of another host than their own",
		ErrTaken)
)

// hearsays limits the rate of handshakes by hearsay (with addresses that hosts other than their
// owners have named). The zero hearsays is ready for use.
type hearsays struct {
	spent int       // handshakes that count towards hearsayBurst
	since mono.Time // time from which spent decreases
	// last contains the newest handshakes. The next handshake replaces last[oldest].
	last   [hearsayBurst]hearsayLine
	oldest int
}

// hearsayLine is a line that has begun a handshake by hearsay (with an address that may belong to a
// different host).
type hearsayLine struct {
	from netip.Prefix
	at   mono.Time
}

// take counts one handshake by a line of the host from, and returns false if the rate does not
// allow one now.
func (h *hearsays) take(from netip.Prefix, now mono.Time) bool {
	for h.spent > 0 && now.Sub(h.since) >= hearsayEvery {
		h.since = h.since.Add(hearsayEvery)
		h.spent--
	}
	if h.spent >= hearsayBurst {
		return false
	}
	for _, l := range h.last {
		if l.from.IsValid() && l.from == from && now.Sub(l.at) < hearsayAgain {
			return false
		}
	}
	if h.spent == 0 {
		h.since = now
	}
	h.spent++
	h.last[h.oldest] = hearsayLine{from: from, at: now}
	h.oldest = (h.oldest + 1) % hearsayBurst
	return true
}

// allowHearsay reports whether an identity is known by hearsay (names an address that may belong to
// a different host). If no more handshakes by hearsay are allowed now, allowHearsay returns an
// error that wraps ErrTaken.
func (e *Engine) allowHearsay(id Identity) (hearsay bool, err error) {
	if id.from == "" {
		return false, nil
	}
	command, data, err := e.m.AddressesOf(id.Name)
	if err != nil {
		return false, lostError(err)
	}
	if !isHearsay(id.from, command, data) {
		return false, nil
	}
	if !e.hearsays.take(networkOf(id.from), e.now) {
		return true, errHearsays
	}
	return true, nil
}

// allowData reports whether the sender may send probes to the data address that the receiver has
// sent. If a host other than the owner of the address may have named it (hearsay), allowData marks
// the link.
func (k *link) allowData(data []byte) bool {
	if k.hearsay || k.from == "" || parseHost(k.from).IsLoopback() || k.ep.AtHost(data) {
		return true
	}
	k.hearsay = k.s.e.hearsays.take(networkOf(k.from), k.s.e.now)
	return k.hearsay
}

// isHearsay reports whether a line from the host from names an address that may belong to a
// different host (hearsay). The arguments command and data are the addresses that the line names.
func isHearsay(from, command, data string) bool {
	return !parseHost(from).IsLoopback() && (!isAt(command, from) || !isAt(data, from))
}

// isAt reports whether an address with a port belongs to a host.
func isAt(address, host string) bool {
	h, _, err := net.SplitHostPort(address)
	return err == nil && sameHost(h, host)
}

// sameHost reports whether two IP addresses in text form are equal, apart from their zones.
func sameHost(a, b string) bool {
	x := parseHost(a)
	return x.IsValid() && x == parseHost(b)
}

// parseHost returns an IP address without its zone, or the zero Addr if text is no IP address.
func parseHost(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// networkOf returns the IPv4 address of a host, or the first half of its IPv6 address. The owner of
// an IPv6 network can choose the second half freely.
func networkOf(host string) netip.Prefix {
	a := parseHost(host)
	p, _ := a.Prefix(min(a.BitLen(), 64)) // the zero Prefix for the zero Addr
	return p
}
