package peer

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// helloCredit is the number of credits in a Hello. A peer gets most of its credits with the first
// ACK. Before the first ACK, a peer has almost no credits, because its address is possibly not
// validated.
const helloCredit = 1

// handshakeHost gives package meet access to the module, and carries out the decisions that meet
// makes in handshakes.
type handshakeHost struct{ all *Services }

// OpenHandshakes initializes the module's handshakes with the contents of this side's Hello
// packets. The argument "told" of OpenHandshakes contains those addresses of this side's two
// channels that are announced to peers.
func (all *Services) OpenHandshakes(told [2][]byte) {
	cfg := &all.Config
	all.Handshakes.Init(&all.Peers, handshakeHost{all}, &frag.Hello{
		CommandName: told[0], DataName: told[1], Label: []byte(cfg.Label),
		Features:   all.Links.features(),
		WindowPkts: uint32(all.Rules.WindowPackets), FragBytesMax: cfg.FragmentBytesMax,
		AckDelayUs: uint32(all.Rules.AckDelay.Microseconds()),
		AwayMs:     uint32(cfg.Away.Milliseconds()),
		MTUBytes:   uint16(all.Port.Data.MTUBytes), CommandBytes: uint16(all.Port.Command.MTUBytes),
		Credit: helloCredit, VersionMin: frag.Version, VersionMax: frag.Version,
	}, all.Config.Random, all.Config.HandshakeTimeout)
}

func (h handshakeHost) Clock() *mono.Time {
	unpaused, _ := h.all.Clock.Times()
	return unpaused
}

func (h handshakeHost) Pass() uint64 { return h.all.Clock.Pass }

func (h handshakeHost) Make(cmd, data []byte, tinyBytes, mtuBytes int) (*Endpoint, error) {
	return h.all.NewEndpoint(cmd, data, tinyBytes, mtuBytes)
}

// NewEndpoint makes an endpoint and inserts the peer's two addresses into the fabric. NewEndpoint
// returns ErrRefused if the module already has PeersMax endpoints, and ErrBadName if the fabric
// rejects an address.
func (all *Services) NewEndpoint(cmd, data []byte, tinyBytes, mtuBytes int) (*Endpoint, error) {
	if all.Peers.Full() {
		all.Timers.Watches.AskSilent(liveness.Places, nil)
		return nil, fmt.Errorf("%w on this side: all of PeersMax (%d) are taken", errs.ErrRefused,
			all.Config.PeersMax)
	}
	cmdAddr, err := all.Port.Insert(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: command channel: %w", errs.ErrBadName, err)
	}
	dataAddr, err := all.Port.Insert(data)
	if err != nil {
		all.Port.Remove(cmdAddr)
		return nil, fmt.Errorf("%w: data channel: %w", errs.ErrBadName, err)
	}
	ep := all.owner.NewEndpoint()
	ep.All, ep.large = all, &noLarge
	ep.route = route{cmdAddr: cmdAddr, dataAddr: dataAddr}
	ep.agreeSizes(&all.Port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.Life.Begin(all.Clock.Unpaused)
	all.Handshakes.Enter(ep, string(cmd))
	ep.small.Init(ep, all.Sender.quantum())
	ep.Snd.Init(ep.ID.Slot(), seq.Num(all.Config.Random()), all.Rules.WindowPackets)
	ep.Rcv.Begin(ep)
	ep.Rcv.Init(0, all.Rules.WindowPackets)
	return ep, nil
}

func (h handshakeHost) Adopt(ep *Endpoint, data []byte, named *frag.Name) error {
	all := h.all
	dataAddr, err := all.Port.Insert(data)
	if err != nil {
		return fmt.Errorf("%w: data channel: %w", errs.ErrBadName, err)
	}
	h.leaveAddr(ep.dataAddr)
	ep.dataAddr = dataAddr
	tinyBytes, mtuBytes := ep.Tiny(), ep.MTU()
	if named != nil {
		tinyBytes, mtuBytes = int(named.CommandBytes), int(named.MTUBytes)
	}
	ep.agreeSizes(&all.Port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.asking, ep.Rcv.Selective = false, false
	return nil
}

// Move replaces the peer's addresses in an endpoint by the addresses of the module whose Name is
// the argument "to".
func (h handshakeHost) Move(ep *Endpoint, to *frag.Name) error {
	all := h.all
	if to.Provider != all.Port.WireName() {
		return errs.ErrBadName
	}
	cmdAddr, err := all.Port.Insert(to.Command)
	if err != nil {
		return err
	}
	h.leaveAddr(ep.cmdAddr)
	ep.cmdAddr = cmdAddr
	return h.Adopt(ep, to.Data, to)
}

func (h handshakeHost) Bind(ep *Endpoint, head *frag.Header, hello *frag.Hello) {
	all := h.all
	ep.Life.Grant(max(0, min(time.Duration(hello.AwayMs)*time.Millisecond,
		all.Config.Limits.AwayMax)))
	ep.agreeSizes(&all.Port, int(hello.CommandBytes), int(hello.MTUBytes), hello.FragBytesMax)
	_, first := ep.Snd.Window()
	window := min(all.Rules.WindowPackets, 1<<(bits.Len32(hello.WindowPkts)-1))
	ep.Snd.Init(ep.ID.Slot(), first, window)
	ep.Rcv.Init(head.Seq, all.Rules.WindowPackets)
	ep.Asm.Init(all.Pool)
	all.Links.beginLink(ep, hello)
}

func (h handshakeHost) Connected(ep *Endpoint, earlier []*Endpoint) {
	all := h.all
	ep.Life.Answered(all.Clock.Unpaused) // the peer has answered at its address
	ep.Life.BeginChannels(all.Clock.Unpaused, ep.Numbers.Latest())
	all.Credits.JoinHost(&ep.Rcv.Receiver, all.Peers.HostOf(ep.ID.Addr))
	ep.joined = true
	all.Sender.sortQueues(ep)
	for _, of := range earlier {
		all.Endings.End(of, EventFailed, errs.ErrPeerRestarted)
	}
	all.Count[stats.CntPeersConnected]++
	if ep.ID.Counted {
		all.Count[stats.CntPeersReliable]++
	}
	all.Outbox.note(ep, EventConnected, nil)
	ep.Rcv.AskAck(all.Clock.Now, 0) // gives the peer its credits
	all.Acks.Owe(&ep.Rcv, all.Clock.Now)
	all.Sched.Rearm(ep)
	if ep.Closing {
		all.Endings.beginClose(ep)
	}
	all.Dirty = true
}

func (h handshakeHost) Settled(ep *Endpoint, confirmed, unheard bool) {
	all := h.all
	if unheard {
		ep.Snd.Unheard()
		all.Sched.Rearm(ep)
	}
	all.Timers.Watches.Resume(ep)
	all.Links.settleLink(ep, confirmed)
}

func (h handshakeHost) Restarted(ep *Endpoint) {
	ep.Life.BeginAgain()
}

func (h handshakeHost) Supersede(old *Endpoint) { h.all.Timers.Watches.Supersede(old) }

// Merge moves the connection state of the half-open endpoint "half" to the endpoint ep of the same
// peer. The send queues of the endpoint ep stay unchanged.
func (h handshakeHost) Merge(ep, half *Endpoint) {
	h.all.Timers.Watches.Take(ep, half)
	h.leaveAddr(ep.cmdAddr)
	h.leaveAddr(ep.dataAddr)
	ep.Numbers = half.Numbers // a packet number must not repeat under one tag
	ep.route = half.route
	ep.Snd, ep.Asm = half.Snd, half.Asm
	ep.Rcv.Take(&half.Rcv)
	ep.Flushes.Renumber(ep.SentUntil())
	ep.link = half.link
}

// leaveAddr makes the port remove a peer's address when the last sends to this address have
// completed.
func (h handshakeHost) leaveAddr(a fabric.Addr) {
	h.all.Port.RemoveLater(a, h.all.Clock.Now.Add(port.CancelAfter))
}

func (h handshakeHost) End(ep *Endpoint, why meet.Why, r frag.Reject) {
	switch why {
	case meet.WhyMadeRoom:
		h.all.Endings.End(ep, EventClosed, errs.ErrPeerClosed)
	case meet.WhyRestarted:
		h.all.Endings.End(ep, EventFailed, errs.ErrPeerRestarted)
	case meet.WhyRejected:
		h.all.Endings.End(ep, EventFailed, whyRejected(r))
	case meet.WhyMisled:
		h.all.Endings.End(ep, EventFailed, fmt.Errorf("%w: the peer names a module on another host, "+
			"or of another provider, or was named by another module itself", errs.ErrBadName))
	case meet.WhyUnanswered:
		h.all.Endings.End(ep, EventFailed, h.whyNot(ep))
	}
}

func (h handshakeHost) SetTimer(ep *Endpoint, after time.Duration) {
	h.all.Timers.Watches.Set(ep, after)
}
func (h handshakeHost) Usable(ep *Endpoint) bool { return ep.usable() == nil }

func (h handshakeHost) Quiet(ep *Endpoint) time.Duration {
	return ep.Life.Quiet(h.all.Clock.Unpaused)
}

func (h handshakeHost) Heard(ep *Endpoint, by frag.Probe, answers bool) {
	ep.Life.Heard(h.all.Clock.Unpaused, int(by))
	if answers {
		ep.Life.AnsweredBy(int(by), h.all.Clock.Unpaused)
	}
}

func (h handshakeHost) Early(ep *Endpoint) { ep.Life.Early() }

func (h handshakeHost) Takes(ep *Endpoint) { h.all.Timers.Watches.Takes(ep) }

func (h handshakeHost) Ask(hello *frag.Hello, id uint64) meet.Answer {
	return h.all.owner.Ask(hello, id)
}

func (h handshakeHost) Shut() bool { return h.all.Draining }
func (h handshakeHost) Full() bool { return h.all.Outbox.full(h.all.Config.PeersMax) }

func (h handshakeHost) AskSilent() { h.all.Timers.Watches.AskSilent(liveness.Places, nil) }

func (h handshakeHost) AskSilentOf(few []*Endpoint) { h.all.Timers.Watches.AskSilentOf(few, nil) }

func (h handshakeHost) AskSilentHosts(holds func(*Endpoint) bool) bool {
	return h.all.Timers.Watches.AskSilent(liveness.PlacesOfHosts, holds)
}

// whyRejected returns the error of an endpoint whose handshake the peer has answered with a Reject.
func whyRejected(r frag.Reject) error {
	switch r.Reason {
	case frag.RejectVersion:
		return fmt.Errorf("%w: it speaks %d to %d, this side %d", errs.ErrVersion, r.VersionMin,
			r.VersionMax,
			frag.Version)
	case frag.RejectStale:
		return errs.ErrStale
	case frag.RejectOwner:
		return &errs.RefusedError{Code: r.Code}
	case frag.RejectFeature:
		return fmt.Errorf("%w: it does not have what this side needs", errs.ErrVersion)
	case frag.RejectCrowded:
		return fmt.Errorf("%w at the peer: too many from this address", errs.ErrRefused)
	case frag.RejectAddress:
		return fmt.Errorf("%w at the peer: it cannot send to this side's addresses",
			errs.ErrRefused)
	}
	return fmt.Errorf("%w at the peer: its tables are full", errs.ErrRefused)
}

// whyNot returns the error of an endpoint whose handshake has timed out. The error text of a
// handshake time-out says on which channels an answer has arrived, because it is possible that a
// firewall on the path passes only one of the two ports.
func (h handshakeHost) whyNot(ep *Endpoint) error {
	hs := ep.ID.Handshake
	if code, ok := hs.Later(); ok {
		return &errs.RefusedError{Code: code, Later: true}
	}
	command := h.all.Port.FormatName([]byte(ep.ID.Addr)) + " (command channel)"
	data := h.all.Port.FormatName([]byte(hs.DataName)) + " (data channel)"
	const both = "both ports must pass"
	byCommand, byData := hs.HeardBy(frag.ProbeCommand), hs.HeardBy(frag.ProbeData)
	switch {
	case byCommand && byData:
		return fmt.Errorf("%w: %s and %s answer, but the handshake was not finished within %v",
			errs.ErrUnreachable, command, data, h.all.Config.HandshakeTimeout)
	case byCommand:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", errs.ErrUnreachable, command,
			data, both)
	case byData:
		return fmt.Errorf("%w: it answers by %s but not by %s: %s", errs.ErrUnreachable, data,
			command, both)
	}
	return fmt.Errorf("%w: neither %s nor %s answers", errs.ErrUnreachable, command, data)
}
