package stream

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gobtl/internal/mono"
)

// A receiver sends one identity line to a Meeting, a TCP address at which peers exchange
// identities. The receiver's identity line names the addresses of the command channel and the data
// channel of the receiver's module, and the sender begins a handshake with these two addresses. The
// handshake sends packets to addresses that are not validated yet. If an address does not belong to
// the host from which the identity line came, it could be the address of a victim. All senders of
// an Engine together begin at most two handshakes a second with addresses that may belong to a host
// other than the one that named them (otherHostEvery). A handshake with an address that may belong
// to a host other than the one that named it has a short time limit (otherHostTime). A single host
// can cause only a part of the handshakes that the rate limit permits, so that receivers on the
// remaining hosts can still connect. The sender checks the data address in a receiver's acceptance
// in the same way as the addresses in the receiver's identity line.
//
// A receiver on a host with several networks may name an address that is not the source address of
// its connection to the Meeting. If the rate limit does not allow a handshake with the receiver at
// present, the sender asks the receiver to try again later. The rate limit does not apply to a
// process on the sender's own host, because the process could itself send packets to any address.
// Identity lines that a forwarder on this host (such as "ssh -R") passes on count as lines of this
// host.

const (
	// otherHostEvery is the minimum average time between two handshakes with addresses that possibly
	// belong to a host other than the one that named them. otherHostBurst is the largest number of
	// rate-limited handshakes that can begin at the same time.
	otherHostEvery = 500 * time.Millisecond
	otherHostBurst = 4
	// otherHostAgain is the minimum time between two handshakes with addresses that the same host has
	// named and possibly does not own.
	otherHostAgain = otherHostBurst * otherHostEvery
	// otherHostTime is the longest wait for the answer to a handshake with an address that possibly
	// does not belong to the host that named it. Within otherHostTime, a handshake sends its Hello
	// packets six times.
	otherHostTime = time.Second
)

var (
	errOtherHost = fmt.Errorf(
		"%w: no answer within %v from the address that another host gives", ErrTimeout, otherHostTime)
	errOtherHosts = fmt.Errorf("%w: too many receivers with an address of another host than their own",
		ErrTaken)
	errNotProven = fmt.Errorf("%w: the port is named by another line, which is not proven yet",
		ErrTaken)
)

// otherHosts limits the rate of handshakes with addresses that may belong to a host other than the
// one that named them. The zero otherHosts is ready for use.
type otherHosts struct {
	spent int       // handshakes that count towards otherHostBurst
	since mono.Time // time from which spent decreases
	// The field "last" contains the newest handshakes. The next handshake replaces last[oldest].
	last   [otherHostBurst]otherHostLine
	oldest int
}

// otherHostLine records a receiver's identity line that has caused a handshake with an address that
// may belong to a different host.
type otherHostLine struct {
	from netip.Prefix
	at   mono.Time
}

// take decides whether the rate limit allows one handshake, which an identity line from the given
// host has caused. If the rate limit allows the handshake, take counts the handshake and returns
// true, and otherwise returns false.
func (h *otherHosts) take(from netip.Prefix, now mono.Time) bool {
	for h.spent > 0 && now.Sub(h.since) >= otherHostEvery {
		h.since = h.since.Add(otherHostEvery)
		h.spent--
	}
	if h.spent >= otherHostBurst {
		return false
	}
	for _, l := range h.last {
		if l.from.IsValid() && l.from == from && now.Sub(l.at) < otherHostAgain {
			return false
		}
	}
	if h.spent == 0 {
		h.since = now
	}
	h.spent++
	h.last[h.oldest] = otherHostLine{from: from, at: now}
	h.oldest = (h.oldest + 1) % otherHostBurst
	return true
}

// allowOtherHost reports whether an identity names an address that possibly belongs to a host other
// than the one from which the identity came. A handshake with an address of a host other than the
// one that named it counts towards the rate limit. If the rate limit does not allow a handshake
// with an address of another host at present, allowOtherHost returns an error that wraps ErrTaken.
func (e *Engine) allowOtherHost(id Identity) (otherHost bool, err error) {
	if otherHost, err = e.ofOtherHost(id); err != nil || !otherHost {
		return false, err
	}
	if !e.otherHosts.take(networkOf(id.from), e.now) {
		return true, errOtherHosts
	}
	return true, nil
}

// ofOtherHost reports whether an identity names an address that possibly belongs to a host other
// than the one from which the identity came.
func (e *Engine) ofOtherHost(id Identity) (bool, error) {
	if id.from == "" {
		return false, nil
	}
	command, data, err := e.m.AddressesOf(id.Name)
	if err != nil {
		return false, lostError(err)
	}
	return namesOtherHost(id.from, command, data), nil
}

// contend decides between a receiver's identity and existing links to the same module whose address
// is not validated yet. Possibly a different host has caused the existing link, by an identity line
// that names the module with a wrong data address or a wrong key. If the receiver's identity came
// from the host that it names, contend ends the incomplete handshakes that other hosts have caused
// with wrong addresses of the module (see displace). If unvalidated links remain, contend returns
// an error that wraps ErrTaken, so that the receiver tries again later. When a handshake with the
// right addresses is complete, the module itself soon refuses a wrong key.
func (s *Sender) contend(id Identity) error {
	otherHost, err := s.e.ofOtherHost(id)
	if err != nil {
		return err
	}
	if !otherHost {
		s.e.displace(id.Name)
	}
	for _, k := range s.links {
		if k.state < linkWelcomed && (k.otherHost || id.from != "") && k.ep.IsModule(id.Name) {
			return errNotProven
		}
	}
	return nil
}

// displace ends the incomplete handshakes with the given module that a different host has caused by
// naming the module with wrong addresses. A handshake with the right addresses is not ended,
// because it completes.
func (e *Engine) displace(module []byte) {
	for _, s := range e.sending {
		for _, k := range s.links {
			if k.state == linkConnecting && k.otherHost && k.ep.IsModule(module) &&
				!bytes.Equal(k.name, module) {
				k.abandon(RefusedTaken, errTaken)
			}
		}
	}
}

// linkTo returns the sender's link to the receiver with the given identity, or nil.
func (s *Sender) linkTo(id Identity) *link {
	for _, k := range s.links {
		if k.state != linkDone && k.to == id.Key && bytes.Equal(k.name, id.Name) {
			return k
		}
	}
	return nil
}

// again handles a repeated identity of the link's receiver, because a different host has possibly
// copied the identity and sent it first. If the repeated identity came from the host that it names,
// the time limits for addresses of other hosts no longer apply to the link. If probes have begun,
// the limit for probes still applies, because the data address can be that of a third host.
func (k *link) again(id Identity) error {
	if !k.otherHost || k.state >= linkProving {
		return nil
	}
	otherHost, err := k.s.e.ofOtherHost(id)
	if err == nil && !otherHost {
		k.otherHost, k.from = false, id.from
	}
	return err
}

// allowData reports whether the rate limit allows probes to the data address that the receiver has
// sent. If the data address possibly belongs to a host other than the receiver's host, allowData
// sets the field otherHost of the link.
func (k *link) allowData(data []byte) bool {
	if k.otherHost || k.from == "" || parseHost(k.from).IsLoopback() || k.ep.AtHost(data) {
		return true
	}
	k.otherHost = k.s.e.otherHosts.take(networkOf(k.from), k.s.e.now)
	return k.otherHost
}

// namesOtherHost reports whether an identity line from the given host names an address that may
// belong to a different host. The arguments "command" and "data" of namesOtherHost are the two
// addresses in the identity line.
func namesOtherHost(from, command, data string) bool {
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

// parseHost returns an IP address without its zone, or the zero Addr if the argument "text" is no
// IP address.
func parseHost(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// networkOf returns the IPv4 address of a host, or the first half of its IPv6 address. The owner of
// an IPv6 network can choose the second half of an address freely.
func networkOf(host string) netip.Prefix {
	a := parseHost(host)
	p, _ := a.Prefix(min(a.BitLen(), 64)) // the zero Prefix for the zero Addr
	return p
}
