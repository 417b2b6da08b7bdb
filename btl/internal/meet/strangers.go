package meet

import (
	"bytes"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/internal/cookie"
)

// Strangers decides the answers to Hellos from senders that have not proven that they receive
// at the addresses they claim. Strangers stores nothing about such a sender. The sender gets a
// cookie, which seals its address, and proves the address by returning the cookie with its next
// Hello.
//
//	Hello               -->  Retry: the address that it came from, a cookie for it
//	Hello with cookies  -->  each seals an address and a channel: the sender receives at both
type Strangers struct {
	jar   *cookie.Jar
	spent int    // Retries sent in that pass
	pass  uint64 // number of the latest progress pass with a Retry
	// refused holds the latest progress pass with a Reject, by channel and hash slot of the
	// address.
	refused [frag.ProbeCount][RejectPlaces]uint64
}

const (
	// CookieSlot is the resolution of a cookie's time stamp. A cookie is valid for one to two
	// such periods.
	CookieSlot = 4 * time.Second
	// retriesPerPass bounds the Retries in a progress pass, because Retries use the same
	// buffers as ACKs.
	retriesPerPass = port.ControlBuffers / 2
	// RejectPlaces bounds the Rejects in a progress pass, for each channel. An address is hashed
	// to one of RejectPlaces slots, to another slot in every progress pass. A sender that sends
	// Hellos without end therefore hardly keeps other senders from an answer.
	RejectPlaces = port.ControlBuffers / 8
)

// Init creates the keys that seal the cookies.
func (s *Strangers) Init(random func() uint64) { s.jar = cookie.New(random) }

// sealed returns the data that the cookie for a channel seals, given the Hello of its sender.
func sealed(hello *frag.Hello, p frag.Probe) cookie.For {
	return cookie.For{Channel: uint8(p), Incarnation: hello.Incarnation, Tag: hello.Tag}
}

// slot is the number of the CookieSlot period that contains an instant.
func slot(now Time) uint32 { return uint32(now / Time(CookieSlot)) }

// Claimed is the address that a Hello claims for a channel.
func Claimed(hello *frag.Hello, p frag.Probe) []byte {
	if p == frag.ProbeData {
		return hello.DataName
	}
	return hello.CommandName
}

// Unfit reports whether a Hello cannot begin a connection. The Hello may expect another
// incarnation of this side, or need features that this side lacks. If answer has a reason, it
// is the Reject to send; otherwise no packet is sent.
func Unfit(hello *frag.Hello, incarnation, features uint64) (answer frag.Reject, unfit bool) {
	answer.Nonce = hello.Nonce
	if hello.Expected != 0 && hello.Expected != incarnation {
		if hello.Incarnation != incarnation { // else an own Hello was sent back to this side
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

// Proves reports whether a Hello carries valid cookies for both addresses of its sender.
// Parameter source of Proves is the source address of the Hello, or empty if unknown.
func (s *Strangers) Proves(now Time, hello *frag.Hello, source []byte) bool {
	if len(source) > 0 && !bytes.Equal(source, Claimed(hello, hello.Probe)) {
		return false // the claimed address is not the source address
	}
	jar, at := s.jar, slot(now)
	return jar.Good(at, sealed(hello, frag.ProbeCommand), hello.CommandName, hello.CommandCookie) &&
		jar.Good(at, sealed(hello, frag.ProbeData), hello.DataName, hello.DataCookie)
}

// MayRetry reports whether an unproven Hello may be answered by a Retry in a progress pass. The
// Retry must not be longer than the Hello, and the number of Retries per progress pass is
// limited.
func (s *Strangers) MayRetry(pass uint64, toBytes, helloBytes int) bool {
	if s.pass != pass {
		s.pass, s.spent = pass, 0
	}
	return s.spent < retriesPerPass && frag.RetryBytes(toBytes, cookie.Bytes) <= helloBytes
}

// Retry returns the answer to a Hello that proves nothing, and counts the answer. The sender
// must repeat the Hello with the cookie in that answer. The cookie's memory is valid until the
// next call.
func (s *Strangers) Retry(now Time, hello *frag.Hello, to []byte) *frag.Retry {
	s.spent++
	return &frag.Retry{
		Nonce: hello.Nonce, Probe: hello.Probe, Addr: to,
		Cookie: s.jar.Bake(slot(now), sealed(hello, hello.Probe), to),
	}
}

// MayReject reports whether a Reject may be sent to an address in a progress pass, and counts the
// Reject. Each channel and hash slot allows one Reject per progress pass.
func (s *Strangers) MayReject(pass uint64, by frag.Probe, to []byte) bool {
	latest := s.rejectPlace(by, to, pass)
	if *latest == pass {
		return false
	}
	*latest = pass
	return true
}

// rejectPlace returns the hash slot of an address in a progress pass. Nobody outside can
// predict which addresses share a slot, and two addresses rarely share one in two successive
// passes.
func (s *Strangers) rejectPlace(by frag.Probe, to []byte, pass uint64) *uint64 {
	sum := s.jar.Bake(uint32(pass), cookie.For{Channel: uint8(by)}, to)
	return &s.refused[by][sum[len(sum)-1]%RejectPlaces]
}
