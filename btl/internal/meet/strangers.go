package meet

import (
	"bytes"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/frag"
	"gobtl/internal/cookie"
)

// Strangers decides the answers to Hellos of senders that have not proven to receive at the
// addresses that they claim. Strangers keeps no state of such a sender. A sender gets a cookie, a
// sealed note of its address, and sends it back with its next Hello: that is the proof.
//
//	Hello               -->  Retry: the address that it came from, a cookie for it
//	Hello with cookies  -->  each seals an address and a channel: the sender receives at both
type Strangers struct {
	jar   *cookie.Jar
	spent int    // Retries of the pass
	pass  uint64 // that this is of
	// refused is the latest pass with a Reject, by channel and place.
	refused [frag.ProbeCount][RejectPlaces]uint64
}

const (
	// CookieSlot is the time that a cookie tells apart: it is good for one to two of them.
	CookieSlot = 4 * time.Second
	// retriesPerPass bounds the answers to strangers, for which there are no more buffers than for
	// ACKs.
	retriesPerPass = port.ControlBuffers / 2
	// RejectPlaces bounds the Rejects of a pass, by each channel. An address has one place, another
	// one in every pass, so that a stranger that asks without end keeps hardly anybody else from an
	// answer.
	RejectPlaces = port.ControlBuffers / 8
)

// Init makes the keys of the cookies.
func (s *Strangers) Init(random func() uint64) { s.jar = cookie.New(random) }

// sealed is what a cookie is for that the sender of a Hello shows, or is given, for a channel.
func sealed(hello *frag.Hello, p frag.Probe) cookie.For {
	return cookie.For{Channel: uint8(p), Incarnation: hello.Incarnation, Tag: hello.Tag}
}

// slot is the slot of time of an instant.
func slot(now Time) uint32 { return uint32(now / Time(CookieSlot)) }

// Claimed is the address that a Hello tells for a channel.
func Claimed(hello *frag.Hello, p frag.Probe) []byte {
	if p == frag.ProbeData {
		return hello.DataName
	}
	return hello.CommandName
}

// Unfit says whether a Hello can be no beginning of a connection: it is for another life than the
// own incarnation, or needs what the own features lack. The answer refuses it if it has a reason;
// else nothing is said.
func Unfit(hello *frag.Hello, incarnation, features uint64) (answer frag.Reject, unfit bool) {
	answer.Nonce = hello.Nonce
	if hello.Expected != 0 && hello.Expected != incarnation {
		if hello.Incarnation != incarnation { // else it is this side's own, which somebody sends back
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

// Proves says whether a Hello shows that its sender receives at both its addresses: with a cookie
// for each. Source is where it came from, empty if that is not known.
func (s *Strangers) Proves(now Time, hello *frag.Hello, source []byte) bool {
	if len(source) > 0 && !bytes.Equal(source, Claimed(hello, hello.Probe)) {
		return false // the cookie is not for where it comes from now
	}
	jar, at := s.jar, slot(now)
	return jar.Good(at, sealed(hello, frag.ProbeCommand), hello.CommandName, hello.CommandCookie) &&
		jar.Good(at, sealed(hello, frag.ProbeData), hello.DataName, hello.DataCookie)
}

// MayRetry says whether an unproven Hello may be answered by a Retry in a pass: the answer must not
// be longer than the Hello, and answers are rate-limited.
func (s *Strangers) MayRetry(pass uint64, toBytes, helloBytes int) bool {
	if s.pass != pass {
		s.pass, s.spent = pass, 0
	}
	return s.spent < retriesPerPass && frag.RetryBytes(toBytes, cookie.Bytes) <= helloBytes
}

// Retry is the answer to a Hello that proves nothing, at an address, and counts it: the Hello is to
// be said again with the cookie, which is valid until the next call.
func (s *Strangers) Retry(now Time, hello *frag.Hello, to []byte) *frag.Retry {
	s.spent++
	return &frag.Retry{
		Nonce: hello.Nonce, Probe: hello.Probe, Addr: to,
		Cookie: s.jar.Bake(slot(now), sealed(hello, hello.Probe), to),
	}
}

// MayReject says whether a Hello that came by a channel may be refused at an address in a pass, and
// counts that: at most one of a channel and place is.
func (s *Strangers) MayReject(pass uint64, by frag.Probe, to []byte) bool {
	latest := s.rejectPlace(by, to, pass)
	if *latest == pass {
		return false
	}
	*latest = pass
	return true
}

// rejectPlace is the place of an address in a pass. Nobody outside can know which addresses share
// one, and those that do hardly share one again.
func (s *Strangers) rejectPlace(by frag.Probe, to []byte, pass uint64) *uint64 {
	sum := s.jar.Bake(uint32(pass), cookie.For{Channel: uint8(by)}, to)
	return &s.refused[by][sum[len(sum)-1]%RejectPlaces]
}
