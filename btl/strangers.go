package btl

import (
	"bytes"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/cookie"
)

// strangers answers Hellos from addresses at which nobody has proven to receive. It keeps nothing
// of them: what it must know again later it gives them to bring back, sealed.
//
//	Hello               -->  Retry: the address that it came from, a cookie for it
//	Hello with cookies  -->  each seals an address and a channel: the sender receives at both
type strangers struct {
	jar   *cookie.Jar
	seen  [fabric.MaxNameBytes]byte // where the Hello came from that is being looked at
	spent int                       // Retries of the pass
	pass  uint64                    // that this is of
	// refused is the latest pass with a Reject, by channel and place.
	refused [frag.ProbeCount][rejectPlaces]uint64
}

const (
	// cookieSlot is the time that a cookie tells apart: it is good for one to two of them.
	cookieSlot = 4 * time.Second
	// retriesPerPass bounds the answers to strangers, for which there are no more buffers than for
	// ACKs.
	retriesPerPass = port.ControlBuffers / 2
	// rejectPlaces bounds the Rejects of a pass, by each channel: an address has one place, another
	// one in every pass, so that who asks without end keeps hardly anybody else from his answer.
	rejectPlaces = port.ControlBuffers / 8
)

// sealed is what a cookie is for that the sender of a Hello shows, or is given, for a channel.
func sealed(hello *frag.Hello, p frag.Probe) cookie.For {
	return cookie.For{Channel: uint8(p), Incarnation: hello.Incarnation, Tag: hello.Tag}
}

// slotNow is the present slot of time.
func (m *Module) slotNow() uint32 { return uint32(m.nowUnpaused / Time(cookieSlot)) }

// sourceOf is the address from which a datagram came, where the fabric knows it; else none. It is
// valid until the next call.
func (m *Module) sourceOf(c *port.Channel, comp *fabric.Completion) []byte {
	return c.AppendSource(m.strangers.seen[:0], comp)
}

// claimed is the address that a Hello tells for a channel.
func claimed(hello *frag.Hello, p frag.Probe) []byte {
	if p == frag.ProbeData {
		return hello.DataName
	}
	return hello.CommandName
}

// proves says whether a Hello shows that its sender receives at both its addresses: with a cookie
// for each. source is where it came from, if that is known.
func (m *Module) proves(hello *frag.Hello, source []byte) bool {
	if len(source) > 0 && !bytes.Equal(source, claimed(hello, hello.Probe)) {
		return false // the cookie is not for where it comes from now
	}
	jar, now := m.strangers.jar, m.slotNow()
	return jar.Good(now, sealed(hello, frag.ProbeCommand), hello.CommandName, hello.CommandCookie) &&
		jar.Good(now, sealed(hello, frag.ProbeData), hello.DataName, hello.DataCookie)
}

// retry answers a Hello that proves nothing, with no more bytes than it has: it is to be said again
// with the cookie. It returns whether it does: there is a bound to it.
func (m *Module) retry(c *port.Channel, hello *frag.Hello, to []byte, sizeBytes int) bool {
	s := &m.strangers
	if s.pass != m.pass {
		s.pass, s.spent = m.pass, 0
	}
	if s.spent >= retriesPerPass || frag.RetryBytes(len(to), cookie.Bytes) > sizeBytes {
		return false
	}
	addr, err := m.port.InsertForAnswer(m.now, to)
	if err != nil {
		return false
	}
	s.spent++
	return m.sendRetry(c, addr, hello.Tag, &frag.Retry{
		Nonce: hello.Nonce, Probe: hello.Probe, Addr: to,
		Cookie: s.jar.Bake(m.slotNow(), sealed(hello, hello.Probe), to),
	})
}

// reject refuses a Hello with a nonce, no longer than the Hello: at most one of a channel and place
// in a pass.
func (m *Module) reject(c *port.Channel, to []byte, tag uint64, version uint8, r frag.Reject) {
	latest := m.strangers.rejectPlace(c.Which(), to, m.pass)
	if *latest == m.pass {
		return
	}
	*latest = m.pass
	r.VersionMin, r.VersionMax = frag.Version, frag.Version
	if addr, err := m.port.InsertForAnswer(m.now, to); err == nil {
		m.sendReject(c, addr, tag, version, r)
	}
}

// rejectPlace is the place of an address in a pass. Nobody outside can know which addresses share
// one, and those that do hardly share one again.
func (s *strangers) rejectPlace(by via, to []byte, pass uint64) *uint64 {
	sum := s.jar.Bake(uint32(pass), cookie.For{Channel: uint8(by)}, to)
	return &s.refused[by][sum[len(sum)-1]%rejectPlaces]
}
