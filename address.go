package gobtl

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"gobtl/fabric"
)

// hostsMax is the maximum number of local addresses at which one Node listens. The Node opens a
// module, with its own buffers and sockets, for each of these addresses.
const hostsMax = 32

// localHosts holds the local addresses that a text such as ":4000" or "eth0:4000" stands for.
type localHosts struct {
	hosts []string // numeric, with zones; those that other hosts reach first
	port  uint16   // 0 means that the system chooses
}

// splitPort splits "host:port" into host and port. For an invalid text, splitPort returns
// ErrAddress.
func splitPort(text string) (host string, port uint16, err error) {
	if _, rest, ok := strings.Cut(text, "://"); ok {
		return "", 0, fmt.Errorf("%w: %q: an address has no scheme: write %q", ErrAddress, text,
			strings.TrimRight(rest, "/"))
	}
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		if i := strings.LastIndexByte(text, ':'); i > 0 && is6(text[:i]) {
			return "", 0, fmt.Errorf("%w: %q: an IPv6 address stands in brackets: write %q", ErrAddress,
				text, "["+text[:i]+"]"+text[i:])
		}
		return "", 0, fmt.Errorf("%w: %q has no port: want something like \"server:4000\" or \":4000\"",
			ErrAddress, text)
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || number == 65535 {
		return "", 0, fmt.Errorf("%w: port %q of %q: want a number up to 65534, for the next port is "+
			"used as well", ErrAddress, digits, text)
	}
	return host, uint16(number), nil
}

// is6 reports whether a text is an IPv6 address.
func is6(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

// localAddresses returns the addresses of this host that the argument "text" stands for, and at
// which a Node listens over the provider.
func localAddresses(provider, text string) (localHosts, error) {
	host, port, err := splitPort(text)
	if err != nil {
		return localHosts{}, err
	}
	names := []string{host}
	if isName(host) {
		found, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
		if err != nil {
			return localHosts{}, fmt.Errorf("%w: %q is no device and no host: %w", ErrAddress, host, err)
		}
		names = nil
		for _, addr := range found {
			names = append(names, addr.Unmap().String())
		}
	}
	local := localHosts{port: port}
	seen := map[string]bool{}
	for _, name := range names {
		infos, _ := fabric.GetInfo(fabric.Hints{Provider: provider, Node: name})
		for _, info := range infos {
			if !seen[info.Src] {
				seen[info.Src] = true
				local.hosts = append(local.hosts, info.Src)
			}
		}
	}
	switch {
	case len(local.hosts) == 0:
		return localHosts{}, fmt.Errorf("%w: %q is not an address of this host, or its device is down",
			ErrAddress, host)
	case len(local.hosts) > hostsMax:
		return localHosts{}, fmt.Errorf("%w: %q stands for %d addresses of this host, at most %d: name "+
			"a device or an address", ErrAddress, text, len(local.hosts), hostsMax)
	}
	return local, nil
}

// isName reports whether the text "host" is a DNS name. An IP address, the name of a network
// device, and the word "localhost" do not count as DNS names.
func isName(host string) bool {
	if host == "" || host == "localhost" {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	_, err := net.InterfaceByName(host)
	return err != nil
}

// freePort returns a number p for which the UDP ports p and p+1 of a host are both free at present.
func freePort(host string) (uint16, error) {
	var last error
	for range portTries {
		first, err := net.ListenPacket("udp", joinHostPort(host, 0))
		if err != nil {
			return 0, err
		}
		addr, _ := netip.ParseAddrPort(first.LocalAddr().String())
		_ = first.Close()
		if addr.Port() == 65535 {
			continue
		}
		second, err := net.ListenPacket("udp", joinHostPort(host, addr.Port()+1))
		if err == nil {
			_ = second.Close()
			return addr.Port(), nil
		}
		last = err
	}
	return 0, last
}

func joinHostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// shortAddress removes the second channel's port from a transport address if this port is the first
// channel's port plus one, so that "192.0.2.1:4000,4001" becomes "192.0.2.1:4000".
func shortAddress(address string) string {
	first, second, ok := strings.Cut(address, ",")
	if !ok {
		return address
	}
	_, digits, err := net.SplitHostPort(first)
	if err != nil {
		return address
	}
	port, err := strconv.Atoi(digits)
	if err != nil || second != strconv.Itoa(port+1) {
		return address
	}
	return first
}
