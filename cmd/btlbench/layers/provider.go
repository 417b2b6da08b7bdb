package layers

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// Choice is a provider with the reason of the choice, which is empty if the user has named the
// provider.
type Choice struct {
	Provider string `json:"provider"`
	Domain   string `json:"domain"`
	Reason   string `json:"reason"`
}

// ChooseProvider chooses a provider that matches the hints. For the command pair, the provider must
// reach endpoints on the same host.
func ChooseProvider(h fabric.Hints, pair bool) (Choice, error) {
	infos, err := fabric.GetInfo(h)
	if err != nil && !errors.Is(err, fabric.ErrNoProvider) {
		return Choice{}, err
	}
	infos = slices.DeleteFunc(infos, func(i fabric.Info) bool { return pair && !i.Loopback })
	n, reason := fabric.Choose(infos)
	switch {
	case n >= 0:
		return Choice{infos[n].Provider, infos[n].Domain, reason}, nil
	case h.Domain != "":
		return Choice{}, fmt.Errorf("--provider auto has no domain %q; see \"btlbench info\"", h.Domain)
	case h.Node != "":
		return Choice{}, fmt.Errorf("--provider auto has no local address %q; see \"btlbench info\"",
			h.Node)
	}
	return Choice{}, fmt.Errorf("%s; name one with --provider, see \"btlbench info\"", reason)
}

// NodeHint is the local address to bind, which is given by the user or derived from the control
// connection.
type NodeHint struct {
	addr  string
	named bool
}

// FindInfo finds the network of the provider at the local address, or at any address if the user
// has given none and the provider has no addresses of that form.
func FindInfo(cfg *Config, node NodeHint) (fabric.Info, error) {
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
	names := ProviderNames()
	if cfg.Domain != "" && slices.Contains(names, cfg.Provider) {
		return fabric.Info{}, fmt.Errorf("provider %q has no domain %q; see \"btlbench info\"",
			cfg.Provider, cfg.Domain)
	}
	return fabric.Info{}, fmt.Errorf("unknown provider %q%s; see \"btlbench info\"",
		cfg.Provider, plan.Suggestion(cfg.Provider, names))
}

// CheckNode returns an error if the address or device of the flag --node is not of this host. The
// error lists the addresses of this host.
func CheckNode(node string) error {
	if node == "" {
		return nil
	}
	infos, err := fabric.GetInfo(fabric.Hints{Provider: fabric.Sockets(), Node: node})
	switch {
	case len(infos) > 0:
		return nil
	case errors.Is(err, fabric.ErrBadName):
		return fmt.Errorf("--node: %w", err)
	case !isNumeric(node): // The name may be one of another provider, such as libfabric's.
		if infos, _ = fabric.GetInfo(fabric.Hints{Node: node}); len(infos) > 0 {
			return nil
		}
	}
	return fmt.Errorf("--node %s is not of this host, which has %s", node, hereText())
}

// isNumeric reports whether a text is an IP address, with ports or without.
func isNumeric(node string) bool {
	first, _, _ := strings.Cut(node, ",")
	if host, _, err := net.SplitHostPort(first); err == nil {
		first = host
	}
	_, err := netip.ParseAddr(first)
	return err == nil
}

// hereMax is the maximum number of addresses that an error lists.
const hereMax = 16

// hereText lists the addresses of this host with their devices, such as "127.0.0.1 (lo)".
func hereText() string {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: fabric.Sockets()})
	if err != nil {
		return "no address"
	}
	var list []string
	for i := range infos {
		if text := infos[i].Src + " (" + infos[i].Domain + ")"; !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	if more := len(list) - hereMax; more > 0 {
		list = append(list[:hereMax], fmt.Sprintf("%d others (\"btlbench info\")", more))
	}
	return strings.Join(list, ", ")
}

// ProviderNames lists the providers that can be used on this host, each once.
func ProviderNames() []string {
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

// The constants are the sizes of the IP and UDP headers before a datagram's payload.
const (
	udp4HeaderBytes = 20 + 8
	udp6HeaderBytes = 40 + 8
)

// datagramBytes is the payload of a datagram that fills the MTU of an interface. For a provider
// without IP datagrams, the payload is the MTU.
func datagramBytes(info *fabric.Info, mtuBytes int) int {
	if mtuBytes == 0 || !isUDP(info.Provider) {
		return mtuBytes
	}
	headerBytes := udp4HeaderBytes
	if isIPv6(info) {
		headerBytes = udp6HeaderBytes
	}
	return max(1, mtuBytes-headerBytes) // checkMTU reports a datagram that is too small.
}

// The constants are the bounds of a datagram: those of btl.Config.MTUBytes, and the smallest one of
// the raw layer.
const (
	mtuBytesMin = 512
	mtuBytesMax = 65507
	rawBytesMin = rawControlBytes + 8
)

// checkMTU returns an error that names the range if the flag --mtu is out of range for the layers
// of a side.
func checkMTU(info *fabric.Info, cfg *Config) error {
	low, over := mtuBytesMin, info.Provider
	if len(cfg.Layers) == 1 && cfg.Layers[0] == plan.LayerRaw {
		low = rawBytesMin
	}
	high := max(mtuBytesMax, info.MTUBytes)
	if isUDP(info.Provider) {
		high = mtuBytesMax + udp4HeaderBytes
		if isIPv6(info) {
			low, over = low+udp6HeaderBytes, over+" over IPv6"
		} else {
			low, over = low+udp4HeaderBytes, over+" over IPv4"
		}
	}
	if cfg.MTUBytes == 0 || cfg.MTUBytes >= low && cfg.MTUBytes <= high {
		return nil
	}
	return fmt.Errorf("--mtu %d is out of range: %d to %d bytes with %s", cfg.MTUBytes, low, high,
		over)
}

// isUDP reports whether the datagrams of a provider are UDP datagrams.
func isUDP(provider string) bool {
	return provider == "udp" || strings.HasPrefix(provider, "udp;") || provider == "net" ||
		provider == plan.ProviderOfiUDP || provider == plan.ProviderOffload
}

func isIPv6(info *fabric.Info) bool {
	if addr, err := netip.ParseAddr(info.Src); err == nil {
		return addr.Is6() && !addr.Is4In6()
	}
	return strings.Contains(info.AddrFormat, "6")
}

// NodeOr returns the address to bind that the user has given, or else the local address of the
// control connection.
func NodeOr(node string, local net.Addr) NodeHint {
	if node != "" {
		return NodeHint{node, true}
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok || tcp.IP.IsUnspecified() {
		return NodeHint{}
	}
	hint := NodeHint{addr: tcp.IP.String()}
	if tcp.Zone != "" {
		hint.addr += "%" + tcp.Zone
	}
	return hint
}
