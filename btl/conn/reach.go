package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gobtl/btl"
)

// DialContext opens a Conn to the service with the empty name at the module with the given address.
// DialContext has the signature of net.Dialer.DialContext, for http.Transport and similar types.
// The second argument of DialContext, the network, is ignored. The host of the address can be a DNS
// name. If a DNS name has several addresses, DialContext tries them one after the other until a
// module answers. DialContext gives up each address except the last shortly after
// btl.Config.HandshakeTimeout, even if the module at the address keeps the request (btl.Keep). The
// attempt at the last address can take as long as ctx allows. If a module answers after DialContext
// has given up its address, the module's endpoint stays connected.
func (n *Node) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{Address: address}, Err: err}
	}
	if ctx == nil {
		return fail(btl.ErrContext)
	}
	addresses, err := lookUp(ctx, address)
	if err != nil {
		return fail(err)
	}
	ep, err := n.reach(ctx, addresses)
	if err != nil {
		return fail(err)
	}
	c, err := n.Dial(ctx, ep, "")
	if err != nil {
		return nil, err // The result must not be a nil *Conn.
	}
	return c, nil
}

// The method "reach" tries the addresses one after the other, and returns the endpoint of the first
// module that answers.
func (n *Node) reach(ctx context.Context, addresses []string) (*btl.Endpoint, error) {
	var errs []error
	for i, a := range addresses {
		dial := n.reachSoon
		if i == len(addresses)-1 {
			dial = n.r.Dial
		}
		ep, err := dial(ctx, a)
		if err == nil {
			return ep, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// reachSoon connects to an address, but gives up when reachGrace has passed after the module's
// HandshakeTimeout. The handshake usually times out earlier, and reachSoon then returns the more
// detailed error of the handshake.
func (n *Node) reachSoon(ctx context.Context, address string) (*btl.Endpoint, error) {
	timeout := n.m.Config().HandshakeTimeout
	limited, cancel := context.WithTimeout(ctx, timeout+reachGrace)
	defer cancel()
	ep, err := n.r.Dial(limited, address)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %s has not let this side connect within %v", btl.ErrUnreachable,
			address, timeout)
	}
	return ep, err
}

// reachGrace is the time for which reachSoon waits for the handshake's error after the
// HandshakeTimeout.
const reachGrace = 100 * time.Millisecond

// lookUp resolves the host name of an address, and returns at least one address or an error.
func lookUp(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return []string{address}, nil // The fabric reports the error.
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{address}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, len(found))
	for i, a := range found {
		addresses[i] = net.JoinHostPort(a.Unmap().String(), port)
	}
	return addresses, nil
}
