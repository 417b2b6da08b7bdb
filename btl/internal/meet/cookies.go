package meet

import (
	"bytes"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/internal/cookie"
)

// Strangers decides how to answer Hellos from senders whose addresses are not validated. Strangers
// stores nothing about a sender whose address is not validated. Strangers sends the sender of a
// Hello a cookie, which contains a message authentication code of the sender's address. By
// returning the cookie in its next Hello, the sender proves that it receives packets at the address
// for which the cookie was made.
type Strangers struct {
	jar   *cookie.Jar
	pass  uint64 // number of the latest poll with a Retry
	spent int    // number of Retries sent in poll pass
	// The field "retried" counts the Retries of the present poll for each hash value of a channel and
	// an address.
	retried [retryPlaces]uint8
	// For each channel and each hash value of an address, the field "refused" contains the number of
	// the poll in which the latest Reject was sent.
	refused [frag.ProbeCount][RejectPlaces]uint64
}

const (
	// CookieSlot is the resolution of a cookie's time stamp. A cookie is valid for a time between
	// CookieSlot and twice CookieSlot.
	CookieSlot = 4 * time.Second
	// retriesPerPass is the maximum number of Retries in one poll. The number of Retries is limited
	// because Retries use the same buffers as ACKs.
	retriesPerPass = port.ControlBuffers / 2
	// In one poll, at most retriesOfPlace Retries are sent for each hash value of a channel and an
	// address. Each poll uses a different hash function.
	retryPlaces    = 64
	retriesOfPlace = 4
	// RejectPlaces is the maximum number of Rejects on each channel in one poll. Each address is
	// hashed to one of RejectPlaces slots, by a hash function that is different in every poll.
	RejectPlaces = port.ControlBuffers / 8
)

// Init creates the keys for the message authentication codes of cookies.
func (s *Strangers) Init(random func() uint64) { s.jar = cookie.New(random) }

// The function "sealed" returns the data that a cookie for the sender of a Hello authenticates, in
// addition to the address.
func sealed(hello *frag.Hello, p frag.Probe) cookie.For {
	return cookie.For{Channel: uint8(p), Incarnation: hello.Incarnation, Tag: hello.Tag}
}

func slot(now Time) uint32 { return uint32(now / Time(CookieSlot)) }

// Claimed returns the address that a Hello claims for a channel.
func Claimed(hello *frag.Hello, p frag.Probe) []byte {
	if p == frag.ProbeData {
		return hello.DataName
	}
	return hello.CommandName
}

// Unfit reports whether a Hello cannot begin a connection, because it expects a different
// incarnation of this side or needs features that this side lacks. If the result "answer" of Unfit
// has a Reason, the caller sends it as a Reject, and otherwise the caller sends nothing.
func Unfit(hello *frag.Hello, incarnation, features uint64) (answer frag.Reject, unfit bool) {
	answer.Nonce = hello.Nonce
	if hello.Expected != 0 && hello.Expected != incarnation {
		if hello.Incarnation != incarnation { // otherwise a Hello of this side was sent back
			answer.Reason = frag.RejectStale
		}
		return answer, true
	}
	if hello.Critical != 0 || hello.Required&^features != 0 || hello.Overhead != 0 {
		answer.Reason = frag.RejectFeature
		return answer, true
	}
	return answer, false
}

// Proves reports whether a Hello contains valid cookies for its sender's two addresses (command
// channel and data channel). The argument "source" of Proves is the source address of the Hello, or
// empty if the source address is unknown.
func (s *Strangers) Proves(now Time, hello *frag.Hello, source []byte) bool {
	if len(source) > 0 && !bytes.Equal(source, Claimed(hello, hello.Probe)) {
		return false // the claimed address is not the source address
	}
	jar, at := s.jar, slot(now)
	return jar.Good(at, sealed(hello, frag.ProbeCommand), hello.CommandName, hello.CommandCookie) &&
		jar.Good(at, sealed(hello, frag.ProbeData), hello.DataName, hello.DataCookie)
}

// MayRetry reports whether the limits allow a Retry as the answer to a Hello from an address that
// is not validated, and counts this Retry. The limits forbid a Retry that is longer than the Hello.
// The number of Retries in one poll is limited, both in total and for each address.
func (s *Strangers) MayRetry(pass uint64, by frag.Probe, to []byte, helloBytes int) bool {
	if s.pass != pass {
		s.pass, s.spent, s.retried = pass, 0, [retryPlaces]uint8{}
	}
	if s.spent >= retriesPerPass || frag.RetryBytes(len(to), cookie.Bytes) > helloBytes {
		return false
	}
	sent := &s.retried[s.place(by, to, pass)%retryPlaces]
	if *sent >= retriesOfPlace {
		return false
	}
	*sent++
	s.spent++
	return true
}

// Retry returns the answer to a Hello without valid cookies. The sender of the Hello must repeat
// the Hello with the cookie of the Retry. The memory of the returned cookie is valid until the next
// call of Retry.
func (s *Strangers) Retry(now Time, hello *frag.Hello, to []byte) *frag.Retry {
	return &frag.Retry{
		Nonce: hello.Nonce, Probe: hello.Probe, Addr: to,
		Cookie: s.jar.Bake(slot(now), sealed(hello, hello.Probe), to),
	}
}

// MayReject reports whether the limits allow a Reject to an address in the given poll, and counts
// this Reject. On each channel, at most one Reject per poll is allowed for all addresses with the
// same hash value.
func (s *Strangers) MayReject(pass uint64, by frag.Probe, to []byte) bool {
	latest := &s.refused[by][s.place(by, to, pass)%RejectPlaces]
	if *latest == pass {
		return false
	}
	*latest = pass
	return true
}

// The method "place" returns the hash of an address and a channel, by the hash function of the
// given poll.
func (s *Strangers) place(by frag.Probe, to []byte, pass uint64) uint8 {
	sum := s.jar.Bake(uint32(pass), cookie.For{Channel: uint8(by)}, to)
	return sum[len(sum)-1]
}
