package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
)

// attemptDelay is the time after which Dial tries the next address of a host if the previous
// address has not answered (the Connection Attempt Delay of RFC 8305).
const attemptDelay = 250 * time.Millisecond

// Dial connects to the Node at an address, such as "server:4000" or "192.0.2.1:4000", and returns
// the Peer of the first address that answers. If the Node is already connected to an address, Dial
// returns the Peer of the existing connection.
//
// A host name can have several IPv4 and IPv6 addresses. Dial tries the addresses in turn, and
// starts the next attempt when the previous one has failed, or has had no answer for 250 ms. If a
// peer answers after Dial has returned, OnPeer is called, the peer stays connected, and the next
// Dial of its address returns this Peer.
//
// Each attempt has a time of its own for its answer: Config.Transport.HandshakeTimeout (3 s by
// default). If a peer keeps the connection request undecided (btl.Keep), its attempt lasts up to
// one minute longer. With Config.SharedMemory, the attempt for an address of this host begins with
// shared memory, which can take HandshakeTimeout and one second more, and continues with UDP. The
// end of ctx ends the whole Dial, with the error of ctx.
//
// If all attempts have failed, the error of Dial matches the error of each attempt:
//
//   - btl.ErrUnreachable if the peer has not answered in time. If the peer's host has reported by
//     ICMP that no socket is bound to the port, the attempt ends at once, and the error matches
//     syscall.ECONNREFUSED too. After ECONNREFUSED a program should wait before it dials again. On
//     Windows, Dial cannot detect that no socket is bound to the port.
//   - btl.ErrRefused if one of the two sides has refused the connection, mostly because that side
//     has reached a limit on connections, such as Config.Transport.PeersMax.
//   - btl.ErrVersion if the two sides have no common version of the protocol.
//
// Dial returns ErrAddress for a malformed address, ErrClosed after Close of the Node, or the error
// of the name look-up.
//
// In a MessageHandler or in OnPeer, Dial returns runner.ErrInHandler, because it would have to
// wait. In a Handler, Dial works.
func (n *Node) Dial(ctx context.Context, address string) (*Peer, error) {
	if ctx == nil {
		return nil, btl.ErrContext
	}
	if n.none() {
		return nil, ErrNode
	}
	if n.inRunnerCallback() {
		return nil, runner.ErrInHandler
	}
	targets, err := n.targets(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("gobtl: dial %s: %w", address, inner(err))
	}
	began := time.Now()
	p, err := n.race(ctx, targets)
	if err != nil {
		return nil, fmt.Errorf("gobtl: dial %s, given up after %v: %w", address,
			time.Since(began).Round(time.Millisecond), inner(err))
	}
	return p, nil
}

// The type "target" is one of the addresses that Dial tries.
type target struct {
	host    netip.Addr // invalid if the provider does not use UDP
	first   string     // address with the first port only; "" if host is invalid
	address string     // in the notation of btl.Module.Dial
}

// The method "targets" returns at least one target for an address, or an error, which is ErrAddress
// or the error of the name look-up.
func (n *Node) targets(ctx context.Context, address string) ([]target, error) {
	if !n.overUDP() {
		return []target{{address: address}}, n.checkMemory(address)
	}
	first, second, two := strings.Cut(address, ",")
	host, port, err := splitPort(first)
	switch {
	case err != nil:
		return nil, err
	case port == 0:
		return nil, fmt.Errorf("%w: port 0 of %q: a peer has a port of its own", ErrAddress, address)
	case host == "":
		host = "localhost"
	}
	found := []netip.Addr{}
	if number, err := netip.ParseAddr(host); err == nil {
		found = append(found, number)
	} else if found, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	targets := make([]target, len(found))
	for i, at := range found {
		at = at.Unmap()
		text := joinHostPort(at.String(), port)
		if two {
			text += "," + second
		}
		targets[i] = target{host: at, first: joinHostPort(at.String(), port), address: text}
	}
	return targets, nil
}

// The type "attempt" is the result of dialling one target.
type attempt struct {
	peer *Peer
	err  error
}

// The method "race" dials the targets at intervals of at most attemptDelay, and returns the peer
// that answers first. A peer that answers after the first peer stays connected, so that the next
// Dial of its address finds the connection.
func (n *Node) race(ctx context.Context, targets []target) (*Peer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan attempt, len(targets))
	next := time.NewTimer(attemptDelay)
	defer next.Stop()
	begun, over := 0, 0
	begin := func() {
		if begun < len(targets) {
			t := targets[begun]
			begun++
			next.Reset(attemptDelay)
			go func() {
				p, err := n.dial(ctx, t)
				ended <- attempt{p, err}
			}()
		}
	}
	begin()
	var errs []error
	for over < len(targets) {
		select {
		case <-next.C:
			begin()
		case a := <-ended:
			if a.err == nil {
				return a.peer, nil
			}
			over++
			errs = append(errs, a.err)
			begin()
		}
	}
	return nil, errors.Join(errs...)
}

// The method "dial" connects to one target.
func (n *Node) dial(ctx context.Context, t target) (*Peer, error) {
	l, err := n.linkTo(t.host)
	if err != nil {
		return nil, err
	}
	if n.sharesMemory() && l.isHere(t) {
		p, err := n.dialMemory(ctx, t, l)
		if err == nil {
			return p, nil
		}
		n.noMemory(t.address, err)
	}
	var asks sync.WaitGroup
	defer asks.Wait()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	if t.first != "" {
		asks.Go(func() { askRefusal(ctx, t.first, refuse) })
	}
	ep, err := l.run.Dial(ctx, t.address)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return l.peerOf(ep), nil
	case errors.Is(cause, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w: nobody listens at the port: %w", t.address, btl.ErrUnreachable,
			syscall.ECONNREFUSED)
	}
	if errors.Is(err, btl.ErrUnreachable) && t.first == t.address &&
		!strings.Contains(err.Error(), "but not by") { // else one of the ports answers
		return nil, fmt.Errorf("%s: %w (of the two ports of a Node, dial the lower one; or the program "+
			"there is stuck in a handler)", t.address, err)
	}
	return nil, fmt.Errorf("%s: %w", t.address, err)
}

// refusalDelay is the time for which Dial waits for the peer's answer before it tests whether any
// socket of the peer's host is bound to the port.
const refusalDelay = 10 * time.Millisecond

// askRefusal sends one byte, which no module accepts as a packet, to the port of a peer. If the
// peer's host reports by ICMP that no socket is bound to the port, askRefusal calls the function
// "refuse". askRefusal uses a connected socket of its own, because the kernel reports ICMP errors
// only to connected sockets. askRefusal returns when an ICMP error or a packet has arrived at its
// socket, or when ctx is cancelled.
func askRefusal(ctx context.Context, address string, refuse context.CancelCauseFunc) {
	select {
	case <-time.After(refusalDelay):
	case <-ctx.Done():
		return
	}
	probe, err := net.Dial("udp", address)
	if err != nil {
		return
	}
	defer func() { _ = probe.Close() }()
	defer context.AfterFunc(ctx, func() { _ = probe.SetReadDeadline(time.Unix(1, 0)) })()
	b := make([]byte, 1)
	if _, err = probe.Write(b); err == nil {
		_, err = probe.Read(b)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		refuse(err)
	}
}

// linkTo returns the link whose address the kernel would choose as the source address of packets to
// the given host. If no link has the chosen source address, or if the link has failed, linkTo opens
// a new link.
func (n *Node) linkTo(host netip.Addr) (*Link, error) {
	hints := fabric.Hints{Provider: n.cfg.Provider}
	var source netip.Addr
	if host.IsValid() {
		var err error
		if source, err = sourceFor(host); err != nil {
			return nil, err
		}
		hints.Node = source.String()
	}
	n.opening.Lock()
	defer n.opening.Unlock()
	n.mu.Lock()
	closed, links := n.closed, n.links
	n.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	for _, l := range links {
		switch {
		case l.host != source:
		case !l.ended():
			return l, nil
		default:
			n.abandon(l)
		}
	}
	return n.openLink(hints, "")
}

// sourceFor returns the source address that the kernel chooses for packets to another host.
// sourceFor sends no packet.
func sourceFor(host netip.Addr) (netip.Addr, error) {
	probe, err := net.Dial("udp", joinHostPort(host.String(), 9))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("there is no way to %s: %w", host, err)
	}
	defer func() { _ = probe.Close() }()
	local, err := netip.ParseAddrPort(probe.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	return local.Addr().Unmap(), nil
}
