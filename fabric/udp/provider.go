//go:build linux

package udp

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

const (
	defaultTxDepth = 4096
	defaultRxDepth = 4096
	maxDepth       = 1 << 16
)

// kernelRelease returns the kernel's version, for display.
var kernelRelease = sync.OnceValue(func() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
})

func (p provider) GetInfo(h fabric.Hints) ([]fabric.Info, error) {
	options := p.options
	if h.Provider != "" {
		var ok bool
		if options, ok = options.parseName(h.Provider); !ok {
			return nil, nil
		}
	}
	list, err := inet.Locals(h.Node)
	if err != nil {
		return nil, err
	}
	var infos []fabric.Info
	var unusable []error // addresses such as a tentative one of IPv6
	for i := range list {
		l := &list[i]
		if h.Domain != "" && h.Domain != l.Device {
			continue
		}
		have, err := probe(l, options)
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		infos = append(infos, newInfo(l, options, have, h.Node))
	}
	if len(infos) == 0 && len(unusable) > 0 {
		return nil, fmt.Errorf("%w: %w", fabric.ErrUnavailable, errors.Join(unusable...))
	}
	return infos, nil
}

func newInfo(l *inet.Local, o Options, have features, nodeText string) fabric.Info {
	format := "udp/ip4"
	if l.Version() == 6 {
		format = "udp/ip6"
	}
	return fabric.Info{
		Provider:    o.name(),
		Wire:        family,
		Version:     kernelRelease(),
		Fabric:      l.Network.String(),
		Domain:      l.Device,
		Node:        nodeText,
		Src:         l.Addr.String(),
		AddrFormat:  format,
		MTUBytes:    l.PayloadBytes(),
		InjectBytes: l.PayloadBytes(),
		TxDepth:     defaultTxDepth,
		RxDepth:     defaultRxDepth,
		IOVLimit:    2,
		Source:      true,
		CanWait:     true,
		Loopback:    true,
		Attrs: append(have.attrs(),
			recvAttr(0, have.recvBytes, l.PayloadBytes()), sendAttr(have.sendBytes)),
	}
}

// Open reads the host's addresses again, because the argument "info" might be outdated, or might
// not come from GetInfo.
func (p provider) Open(info fabric.Info, cfg fabric.DomainConfig) (fabric.Domain, error) {
	options, ok := p.options.parseName(info.Provider)
	if !ok {
		return nil, fmt.Errorf("%w: %q is no name of the udp provider", fabric.ErrNoProvider,
			info.Provider)
	}
	list, err := inet.Locals(info.Node)
	if err != nil {
		return nil, err
	}
	for i := range list {
		l := &list[i]
		if info.Domain != "" && info.Domain != l.Device || info.Src != "" && info.Src != l.Addr.String() {
			continue
		}
		return openDomain(l, options, info.Node, cfg)
	}
	return nil, fmt.Errorf("%w: no address for domain %q, node %q, source %q is up on this host",
		fabric.ErrNoProvider, info.Domain, info.Node, info.Src)
}

// newError makes the error of a system call.
func newError(op string, errno unix.Errno) error {
	return &fabric.Error{Provider: family, Op: op, Errno: int(errno), Text: errno.Error()}
}
