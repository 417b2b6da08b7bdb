package net

import (
	"errors"
	"fmt"
	"runtime"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

const (
	// The constant "family" is the name of the provider.
	family = "net"
	wire   = "udp"

	defaultTxDepth = 4096
	defaultRxDepth = 4096
	maxDepth       = 1 << 16
)

func init() { fabric.Register(provider{}) }

// The type "provider" implements fabric.Provider.
type provider struct{}

func (provider) Family() string { return family }

// GetInfo implements fabric.Provider. GetInfo omits local addresses to which no socket can be
// bound, such as tentative IPv6 addresses.
func (provider) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	if h.Provider != "" && h.Provider != family && h.Provider != family+"/" {
		return nil, nil
	}
	list, err := inet.Locals(h.Node)
	if err != nil {
		return nil, err
	}
	var infos []fabric.Info
	var unusable []error
	for i := range list {
		l := &list[i]
		if h.Domain != "" && h.Domain != l.Device {
			continue
		}
		s, err := openSocket(l, 0, fabric.EndpointConfig{})
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		infos = append(infos, newInfo(l, h.Node, s.recvBytes))
		_ = s.conn.Close()
	}
	if len(infos) == 0 && len(unusable) > 0 {
		return nil, fmt.Errorf("%w: %w", fabric.ErrUnavailable, errors.Join(unusable...))
	}
	return infos, nil
}

// Open implements fabric.Provider. Open reads the host's addresses again, because the argument
// "info" might be outdated, or might not come from GetInfo.
func (provider) Open(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	if info.Provider != family {
		return nil, fmt.Errorf("%w: %q is not %q", fabric.ErrNoProvider, info.Provider, family)
	}
	list, err := inet.Locals(info.Node)
	if err != nil {
		return nil, err
	}
	for i := range list {
		l := &list[i]
		if (info.Domain == "" || info.Domain == l.Device) &&
			(info.Src == "" || info.Src == l.Addr.String()) {
			return openDomain(l, info.Node, cfg)
		}
	}
	return nil, fmt.Errorf("%w: no address for domain %q, node %q, source %q is up on this host",
		fabric.ErrNoProvider, info.Domain, info.Node, info.Src)
}

func newInfo(l *inet.Local, nodeText string, recvBytes int) fabric.Info {
	format := "udp/ip4"
	if l.Version() == 6 {
		format = "udp/ip6"
	}
	whole := "datagrams stay whole"
	if len(dontFragment(l.Version())) == 0 {
		whole = "the system may cut datagrams into fragments"
	}
	return fabric.Info{
		Provider:    family,
		Wire:        wire,
		Version:     runtime.Version(),
		Fabric:      l.Network.String(),
		Domain:      l.Device,
		Node:        nodeText,
		Src:         l.Addr.String(),
		AddrFormat:  format,
		MTUBytes:    l.PayloadBytes(),
		InjectBytes: l.PayloadBytes(),
		TxDepth:     defaultTxDepth,
		RxDepth:     defaultRxDepth,
		IOVLimit:    1,
		Source:      true,
		CanWait:     true,
		Loopback:    true,
		Attrs: []fabric.Attr{
			{Name: "sockets", Value: "Go's package net, a system call for each datagram"},
			{Name: "path mtu", Value: whole},
			{Name: "receive buffer", Value: fmt.Sprintf("%d bytes as the system counts", recvBytes)},
		},
	}
}
