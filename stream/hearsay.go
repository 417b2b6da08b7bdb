package stream

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"gobtl/internal/mono"
)

// A receiver sends one line to a Meeting, a TCP address at which peers exchange identities. The
// line names the address of the receiver, and the sender begins a handshake with this address. The
// handshake packets go to an address that has not answered yet. If the line came from another host
// than the one that it names (hearsay), the address may be that of a victim. All senders of an
// Engine together begin few handshakes by hearsay, and give each up soon.
//
// A receiver of a host with several networks may name another address than that of its connection
// to the Meeting. Such a receiver that comes too early is asked to come again.

const (
	// hearsayEvery is the average time between two handshakes by hearsay, and hearsayBurst is the
	// largest number of such handshakes at once.
	hearsayEvery = 500 * time.Millisecond
	hearsayBurst = 4
	// hearsayTime is the longest wait for the answer to a handshake by hearsay. A handshake sends
	// six rounds of Hellos in hearsayTime.
	hearsayTime = time.Second
)

var (
	errHearsay = fmt.Errorf(
		"%w: no answer within %v from the address that another host gives", ErrTimeout, hearsayTime)
	errHearsays = fmt.Errorf("%w: too many receivers with an address of another host than their own",
		ErrTaken)
)

// hearsays limits the rate of handshakes by hearsay. The zero hearsays is ready for use.
type hearsays struct {
	spent int       // handshakes that count towards hearsayBurst
	since mono.Time // time from which spent decreases
}

// take counts one handshake, and returns false if the rate does not allow one now.
func (h *hearsays) take(now mono.Time) bool {
	for h.spent > 0 && now.Sub(h.since) >= hearsayEvery {
		h.since = h.since.Add(hearsayEvery)
		h.spent--
	}
	switch {
	case h.spent >= hearsayBurst:
		return false
	case h.spent == 0:
		h.since = now
	}
	h.spent++
	return true
}

// allowHearsay reports whether an identity is known by hearsay. If no more handshakes by hearsay
// are allowed now, allowHearsay returns an error that wraps ErrTaken.
func (e *Engine) allowHearsay(id Identity) (hearsay bool, err error) {
	if id.from == "" {
		return false, nil
	}
	address, err := e.m.AddressOf(id.Name)
	if err != nil {
		return false, lostError(err)
	}
	if host, _, err := net.SplitHostPort(address); err == nil && sameHost(host, id.from) {
		return false, nil
	}
	if !e.hearsays.take(e.now) {
		return true, errHearsays
	}
	return true, nil
}

// sameHost reports whether two IP addresses in text form are equal, apart from their zones.
func sameHost(a, b string) bool {
	x, err := netip.ParseAddr(a)
	y, e := netip.ParseAddr(b)
	return err == nil && e == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}
