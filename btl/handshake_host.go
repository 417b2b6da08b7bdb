package btl

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// helloCredit is the number of credits in a Hello. Peers get most of their credits with the first
// ACK, so that peers with unproven addresses have almost no credits.
const helloCredit = 1

// handshakeHost is the module as package meet uses it, and carries out the decisions of the
// handshakes.
type handshakeHost struct{ m *Module }

// openHandshakes initializes the module's handshakes with the contents of this side's Hello
// packets.
func (m *Module) openHandshakes() {
	m.handshakes.Init(&m.peers, handshakeHost{m}, &frag.Hello{
		CommandName: m.told[0], DataName: m.told[1], Label: []byte(m.cfg.Label), Features: m.features(),
		WindowPkts: uint32(m.rules.WindowPackets), FragBytesMax: m.cfg.FragmentBytesMax,
		AckDelayUs: uint32(m.rules.AckDelay.Microseconds()), AwayMs: uint32(m.cfg.Away.Milliseconds()),
		MTUBytes: uint16(m.port.Data.MTUBytes()), CommandBytes: uint16(m.port.Command.MTUBytes()),
		Credit: helloCredit, VersionMin: frag.Version, VersionMax: frag.Version,
	}, m.cfg.Random, m.cfg.HandshakeTimeout)
}

func (h handshakeHost) Now() Time    { return h.m.clock.Unpaused }
func (h handshakeHost) Pass() uint64 { return h.m.pass }

// Make makes an endpoint and inserts the peer's two addresses into the fabric. Make returns
// ErrRefused if there are PeersMax endpoints, and ErrBadName for an address that the fabric
// rejects.
func (h handshakeHost) Make(cmd, data []byte, tinyBytes, mtuBytes int) (*Endpoint, error) {
	m := h.m
	if m.peers.Full() {
		m.watches.AskSilent(func(*Endpoint) bool { return true })
		return nil, fmt.Errorf("%w on this side: all of PeersMax (%d) are taken", ErrRefused,
			m.cfg.PeersMax)
	}
	cmdAddr, err := m.port.Insert(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: command channel: %w", ErrBadName, err)
	}
	dataAddr, err := m.port.Insert(data)
	if err != nil {
		m.port.Remove(cmdAddr)
		return nil, fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	ep := &Endpoint{m: m}
	ep.route = route{cmdAddr: cmdAddr, dataAddr: dataAddr}
	ep.agreeSizes(&m.port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.life.Begin(m.clock.Unpaused)
	m.handshakes.Enter(ep, string(cmd))
	ep.initFlows()
	first := m.cfg.Random()
	ep.snd.Init(ep.id.Slot, seq.Num(first), m.rules.WindowPackets)
	ep.fragIDs.Init(uint32(first >> 32))
	ep.rcv.Of = ep
	ep.rcv.Init(0, m.rules.WindowPackets)
	return ep, nil
}

func (h handshakeHost) Adopt(ep *Endpoint, data []byte, named *frag.Name) error {
	m := h.m
	dataAddr, err := m.port.Insert(data)
	if err != nil {
		return fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	h.leaveAddr(ep.dataAddr)
	ep.dataAddr = dataAddr
	tinyBytes, mtuBytes := ep.tiny, ep.mtu
	if named != nil {
		tinyBytes, mtuBytes = int(named.CommandBytes), int(named.MTUBytes)
	}
	ep.agreeSizes(&m.port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.asking, ep.rcv.Selective = false, false
	return nil
}

// Move inserts the addresses of another module, and removes the earlier addresses of the endpoint.
func (h handshakeHost) Move(ep *Endpoint, to *frag.Name) error {
	m := h.m
	if to.Provider != m.port.WireName() {
		return ErrBadName
	}
	cmdAddr, err := m.port.Insert(to.Command)
	if err != nil {
		return err
	}
	h.leaveAddr(ep.cmdAddr)
	ep.cmdAddr = cmdAddr
	return h.Adopt(ep, to.Data, to)
}

func (h handshakeHost) Bind(ep *Endpoint, head *frag.Header, hello *frag.Hello) {
	m := h.m
	ep.life.Grant(max(0, min(time.Duration(hello.AwayMs)*time.Millisecond, m.cfg.limits.AwayMax)))
	ep.agreeSizes(&m.port, int(hello.CommandBytes), int(hello.MTUBytes), hello.FragBytesMax)
	_, first := ep.snd.Window()
	window := min(m.rules.WindowPackets, 1<<(bits.Len32(hello.WindowPkts)-1))
	ep.snd.Init(ep.id.Slot, first, window)
	ep.rcv.Init(head.Seq, m.rules.WindowPackets)
	ep.asm.Init(m.pool)
	m.beginLink(ep, hello)
}

func (h handshakeHost) Connected(ep *Endpoint, earlier []*Endpoint) {
	m := h.m
	ep.life.Answered(m.clock.Unpaused) // the peer has proven its address
	ep.life.BeginChannels(m.clock.Unpaused, ep.numbers.Latest())
	m.credits.Join()
	ep.joined = true
	m.sortQueues(ep)
	for _, of := range earlier {
		m.end(of, EventFailed, ErrPeerRestarted)
	}
	m.stats.counters[CntPeersConnected]++
	if ep.id.Counted {
		m.stats.counters[CntPeersReliable]++
	}
	m.outbox.note(ep, EventConnected, nil)
	ep.rcv.AskAck(m.clock.Now, 0) // gives the peer its credits
	m.acks.Owe(&ep.rcv, m.clock.Now)
	m.sched.arm(ep)
	if ep.closing {
		m.beginClose(ep)
	}
	m.dirty = true
}

func (h handshakeHost) Settled(ep *Endpoint, confirmed, unheard bool) {
	m := h.m
	if unheard {
		ep.snd.Unheard()
		m.sched.rearm(ep)
	}
	m.watches.Resume(ep)
	m.beginPath(ep)
	if confirmed && ep.watches() { // an earlier ACK may have come too early
		ep.rcv.AskAck(m.clock.Now, 0)
		m.acks.Owe(&ep.rcv, m.clock.Now)
		m.watches.AskMissed(ep)
	}
}

func (h handshakeHost) Restarted(ep *Endpoint) {
	ep.life.BeginAgain()
}

func (h handshakeHost) Supersede(old *Endpoint) { h.m.watches.Supersede(old) }

// Merge moves the connection state of half, another endpoint of the same peer, to ep. The endpoint
// ep keeps its own queues of fragments to send.
func (h handshakeHost) Merge(ep, half *Endpoint) {
	h.m.watches.Take(ep, half)
	h.leaveAddr(ep.cmdAddr)
	h.leaveAddr(ep.dataAddr)
	ep.numbers = half.numbers // a packet number must not repeat under one tag
	ep.route = half.route
	ep.snd, ep.rcv.Receiver, ep.asm = half.snd, half.rcv.Receiver, half.asm
	ep.flushes.Renumber(ep.sentUntil())
	ep.link = half.link
}

// leaveAddr makes the port remove a peer's address when the last sends to this address have
// completed.
func (h handshakeHost) leaveAddr(a fabric.Addr) {
	h.m.port.Leave(a, h.m.clock.Now.Add(port.CancelAfter))
}

func (h handshakeHost) End(ep *Endpoint, why meet.Why, r frag.Reject) {
	switch why {
	case meet.WhyMadeRoom:
		h.m.end(ep, EventClosed, ErrPeerClosed)
	case meet.WhyRestarted:
		h.m.end(ep, EventFailed, ErrPeerRestarted)
	case meet.WhyRejected:
		h.m.end(ep, EventFailed, whyRejected(r))
	case meet.WhyMisled:
		h.m.end(ep, EventFailed, fmt.Errorf("%w: the peer names a module on another host, or of "+
			"another provider, or was named by another module itself", ErrBadName))
	case meet.WhyUnanswered:
		h.m.end(ep, EventFailed, h.whyNot(ep))
	}
}

func (h handshakeHost) SetTimer(ep *Endpoint, after time.Duration) { h.m.watches.Set(ep, after) }
func (h handshakeHost) Usable(ep *Endpoint) bool                   { return ep.usable() == nil }
func (h handshakeHost) Quiet(ep *Endpoint) time.Duration           { return ep.life.Quiet(h.Now()) }

func (h handshakeHost) Heard(ep *Endpoint, by frag.Probe, answers bool) {
	ep.life.Heard(h.Now(), int(by))
	if answers {
		ep.life.AnsweredBy(int(by), h.Now())
	}
}

func (h handshakeHost) Early(ep *Endpoint) { ep.life.Early() }

func (h handshakeHost) Takes(ep *Endpoint) { h.m.watches.Takes(ep) }

func (h handshakeHost) Ask(hello *frag.Hello, id uint64) (answer meet.Answer) {
	m := h.m
	if m.admission == nil {
		return answer
	}
	v := m.admission(Request{
		Address: m.port.FormatName(hello.CommandName),
		Command: hello.CommandName, Data: hello.DataName,
		Label: hello.Label, Incarnation: hello.Incarnation, m: m, id: id,
	})
	if answer, err := v.answer(m.port.WireName()); err == nil {
		return answer
	}
	return meet.Answer{Reject: frag.Reject{Reason: frag.RejectOwner}}
}

func (h handshakeHost) Shut() bool { return h.m.closed || h.m.draining }
func (h handshakeHost) Full() bool { return h.m.outbox.full(h.m.cfg.PeersMax) }

func (h handshakeHost) AskSilent(holds func(*Endpoint) bool) { h.m.watches.AskSilent(holds) }

// whyRejected returns the endpoint's error after the peer has answered the handshake with a Reject.
func whyRejected(r frag.Reject) error {
	switch r.Reason {
	case frag.RejectVersion:
		return fmt.Errorf("%w: it speaks %d to %d, this side %d", ErrVersion, r.VersionMin, r.VersionMax,
			frag.Version)
	case frag.RejectStale:
		return ErrStale
	case frag.RejectOwner:
		return &RefusedError{Code: r.Code}
	case frag.RejectFeature:
		return fmt.Errorf("%w: it does not have what this side needs", ErrVersion)
	case frag.RejectCrowded:
		return fmt.Errorf("%w at the peer: too many from this address", ErrRefused)
	case frag.RejectAddress:
		return fmt.Errorf("%w at the peer: it cannot send to this side's addresses", ErrRefused)
	}
	return fmt.Errorf("%w at the peer: its tables are full", ErrRefused)
}

// whyNot returns the endpoint's error after its handshake has timed out. The text of the error
// names the channels with and without an answer, because a firewall on the path may pass only one
// of the two ports.
func (h handshakeHost) whyNot(ep *Endpoint) error {
	hs := ep.id.Handshake()
	if code, ok := hs.Later(); ok {
		return &RefusedError{Code: code, Later: true}
	}
	command := h.m.port.FormatName([]byte(ep.id.Addr)) + " (command channel)"
	data := h.m.port.FormatName([]byte(hs.DataName())) + " (data channel)"
	const both = "both ports must pass"
	byCommand, byData := hs.HeardBy(frag.ProbeCommand), hs.HeardBy(frag.ProbeData)
	switch {
	case byCommand && byData:
		return fmt.Errorf("%w: %s and %s answer, but the handshake was not finished within %v",
			ErrUnreachable, command, data, h.m.cfg.HandshakeTimeout)
	case byCommand:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", ErrUnreachable, command, data, both)
	case byData:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", ErrUnreachable, data, command, both)
	}
	return fmt.Errorf("%w: neither %s nor %s answers", ErrUnreachable, command, data)
}
