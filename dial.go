package gobtl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// attemptDelay is the time after which Dial tries the next address of a host while the one before
// has not answered: the Connection Attempt Delay of RFC 8305.
const attemptDelay = 250 * time.Millisecond

// Dial connects to the Node at an address, "server:4000" or "192.0.2.1:4000". A host's name may
// stand for several addresses, of IPv4 and IPv6: each is tried, the next one when the one before
// has failed or not answered for 250 ms, and the first that answers is the peer's. One that answers
// later, or after ctx has ended, stays connected: OnPeer is told, and the next Dial of that address
// returns it. If there is a connection to that address already, it is the one. Nobody answers:
// btl.ErrUnreachable after Config.Transport.HandshakeTimeout, 3 s by default. Other errors:
// ErrAddress, that of the look-up, ErrClosed, that of ctx.
func (n *Node) Dial(ctx context.Context, address string) (*Peer, error) {
	if ctx == nil {
		return nil, btl.ErrContext
	}
	targets, err := n.targets(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("gobtl: dial %s: %w", address, err)
	}
	began := time.Now()
	p, err := n.race(ctx, targets)
	if err != nil {
		return nil, fmt.Errorf("gobtl: dial %s, given up after %v: %w", address,
			time.Since(began).Round(time.Millisecond), err)
	}
	return p, nil
}

// target is one address of a host that is dialled.
type target struct {
	host    netip.Addr // invalid if the provider is not udp
	address string     // in the notation of btl.Module.Dial
}

// targets returns what an address stands for, at least one.
func (n *Node) targets(ctx context.Context, address string) ([]target, error) {
	if n.cfg.Provider != "udp" {
		return []target{{address: address}}, nil
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
		targets[i] = target{host: at, address: text}
	}
	return targets, nil
}

// attempt is how the dialling of one target has ended.
type attempt struct {
	peer *Peer
	err  error
}

// race dials targets one after the other, attemptDelay apart, and returns the first that answers.
// One that answers later stays connected, for the next Dial.
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

// dial connects to one target.
func (n *Node) dial(ctx context.Context, t target) (*Peer, error) {
	l, err := n.linkTo(t.host)
	if err != nil {
		return nil, err
	}
	ep, err := l.run.Dial(ctx, t.address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.address, err)
	}
	return l.peerOf(ep), nil
}

// linkTo returns the link by which this host reaches another one: that of the address from which
// the kernel would send. It is opened if there is none, or if its network has broken.
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
	return n.openLink(hints)
}

// sourceFor is the address of this host from which the kernel sends to another one. Nothing is
// sent.
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
