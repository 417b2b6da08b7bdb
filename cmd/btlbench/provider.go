package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gobtl/fabric"
)

const (
	// providerAuto is the --provider that leaves the choice to fabric.Choose.
	providerAuto = "auto"
	// providerOffload is providerOfiUDP with segmentation offload on its socket.
	providerOfiUDP  = "ofi/udp"
	providerOffload = "ofi/udp+offload"
)

// choice is a provider and why it was chosen; the reason is empty when the user named it.
type choice struct {
	Provider string `json:"provider"`
	Domain   string `json:"domain"`
	Reason   string `json:"reason"`
}

// chooseProvider chooses among what the hints allow. For a pair the provider must reach this host
// itself.
func chooseProvider(h fabric.Hints, pair bool) (choice, error) {
	infos, err := fabric.GetInfo(h)
	if err != nil && !errors.Is(err, fabric.ErrNoProvider) {
		return choice{}, err
	}
	infos = slices.DeleteFunc(infos, func(i fabric.Info) bool { return pair && !i.Loopback })
	n, reason := fabric.Choose(infos)
	switch {
	case n >= 0:
		return choice{infos[n].Provider, infos[n].Domain, reason}, nil
	case h.Domain != "":
		return choice{}, fmt.Errorf("--provider auto has no domain %q; see \"btlbench info\"", h.Domain)
	case h.Node != "":
		return choice{}, fmt.Errorf("--provider auto has no local address %q; see \"btlbench info\"",
			h.Node)
	}
	return choice{}, fmt.Errorf("%s; name one with --provider, see \"btlbench info\"", reason)
}

// resolveProvider puts a name in the place of "auto", and keeps why.
func (f *runFlags) resolveProvider(pair bool) error {
	if f.Offload { // Validate has made sure that it fits.
		f.Provider, f.Offload = providerOffload, false
	}
	if f.Provider == providerAuto {
		c, err := chooseProvider(fabric.Hints{Domain: f.Domain, Node: f.Node}, pair)
		if err != nil {
			return err
		}
		f.Provider, f.ProviderReason = c.Provider, c.Reason
	}
	return nil
}

// nodeHint is the local address to bind: as the user named it, or as the control connection
// suggests it.
type nodeHint struct {
	addr  string
	named bool
}

// findInfo asks for the provider, first with the address to bind, then, if nobody insists on that,
// without: not every provider has addresses of that form.
func findInfo(cfg *sideConfig, node nodeHint) (fabric.Info, error) {
	hints := fabric.Hints{Provider: cfg.Provider, Domain: cfg.Domain, Node: node.addr}
	infos, err := fabric.GetInfo(hints)
	if node.addr != "" && (err != nil || len(infos) == 0) {
		hints.Node = ""
		infos, err = fabric.GetInfo(hints)
		if node.named && err == nil && len(infos) > 0 {
			return fabric.Info{}, fmt.Errorf("provider %q has no local address %q; see \"btlbench info\"",
				cfg.Provider, node.addr)
		}
	}
	if err == nil && len(infos) > 0 {
		return infos[0], nil
	}
	if errors.Is(err, fabric.ErrUnavailable) {
		return fabric.Info{}, err
	}
	names := providerNames()
	if cfg.Domain != "" && slices.Contains(names, cfg.Provider) {
		return fabric.Info{}, fmt.Errorf("provider %q has no domain %q; see \"btlbench info\"",
			cfg.Provider, cfg.Domain)
	}
	return fabric.Info{}, fmt.Errorf("unknown provider %q%s; see \"btlbench info\"",
		cfg.Provider, suggestion(cfg.Provider, names))
}

// providerNames lists the providers that can be used here, each once.
func providerNames() []string {
	infos, err := fabric.GetInfo(fabric.Hints{})
	if err != nil {
		return nil // Then there is none.
	}
	var names []string
	for i := range infos {
		if !slices.Contains(names, infos[i].Provider) {
			names = append(names, infos[i].Provider)
		}
	}
	return names
}

// What IP and UDP put before a datagram's payload.
const (
	udp4HeaderBytes = 20 + 8
	udp6HeaderBytes = 40 + 8
)

// datagramBytes is the payload of a datagram that fills an MTU as people know it, that of an
// interface. Where the provider's datagrams are not those of IP the two are the same.
func datagramBytes(info *fabric.Info, mtuBytes int) int {
	if mtuBytes == 0 || !isUDP(info.Provider) {
		return mtuBytes
	}
	headerBytes := udp4HeaderBytes
	if isIPv6(info) {
		headerBytes = udp6HeaderBytes
	}
	return max(1, mtuBytes-headerBytes) // Too small for anything, and reported as that.
}

// isUDP tells the providers whose datagrams are those of UDP, with all their variants.
func isUDP(provider string) bool {
	return provider == "udp" || strings.HasPrefix(provider, "udp;") ||
		provider == providerOfiUDP || provider == providerOffload
}

func isIPv6(info *fabric.Info) bool {
	if addr, err := netip.ParseAddr(info.Src); err == nil {
		return addr.Is6() && !addr.Is4In6()
	}
	return strings.Contains(info.AddrFormat, "6")
}
