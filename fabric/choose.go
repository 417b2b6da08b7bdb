package fabric

import (
	"slices"
	"strings"
)

// hardware lists the names of libfabric's providers for network hardware, without the family name
// and the slash at the beginning. The names psm and psm3 are not in the list, because these
// providers can run over kernel sockets, too.
var hardware = []string{"cxi", "efa", "opx", "psm2", "verbs", "usnic", "gni", "bgq"}

// softwareDevices lists the beginnings of the names of verbs devices that are implemented in
// software. The devices rxe and siw are the kernel's emulations of RDMA over Converged Ethernet and
// of iWARP, which are slower than kernel sockets.
var softwareDevices = []string{"rxe", "siw"}

// Choose selects the provider for a program whose user has not named a provider, and returns a
// sentence that tells the user the reason. Choose prefers RDMA hardware, then the kernel's UDP,
// then the provider on Go's package net, then libfabric's software providers. Choose returns an
// index into infos, which must be in the order of GetInfo, or -1 if no provider reaches a network.
// Choose never selects a provider that is made for tests or connects only processes of one host. If
// peers on this host could use shared memory, the returned reason mentions it.
func Choose(infos []Info) (chosen int, reason string) {
	chosen, reason = chooseNetwork(infos)
	if slices.ContainsFunc(infos, func(info Info) bool { return info.Provider == sharedMemory }) {
		reason += "; for peers that are all on this host, of this user, and see the same /dev/shm, " +
			sharedMemory + " is faster: shared memory"
	}
	return chosen, reason
}

// sharedMemory is the name of the provider for a single host.
const sharedMemory = "shm"

// Sockets returns the name of the provider of UDP sockets that is registered in this program, "udp"
// or else "net". If neither of the two is registered, Sockets returns "udp", so that the error of a
// later call names this provider.
func Sockets() string { return socketsOf(Families()) }

func socketsOf(families []string) string {
	if !slices.Contains(families, "udp") && slices.Contains(families, "net") {
		return "net"
	}
	return "udp"
}

// OverSockets reports whether a provider uses UDP sockets of the kernel, whose addresses are IP
// addresses and ports. OverSockets also returns true for the variants of a provider on UDP sockets.
func OverSockets(provider string) bool {
	family := FamilyOf(provider)
	return family == "udp" || family == "net"
}

func chooseNetwork(infos []Info) (chosen int, reason string) {
	if i := slices.IndexFunc(infos, isHardware); i >= 0 {
		_, device, _ := strings.Cut(infos[i].Provider, "/")
		return i, "RDMA hardware: " + device + " device " + infos[i].Domain
	}
	for _, c := range []struct{ name, reason string }{
		{"udp", "no RDMA hardware here; the kernel's UDP, called directly"},
		{"net", "no RDMA hardware here, and no udp provider; UDP by Go's package net"},
		{"ofi/udp", "no RDMA hardware here, and no udp or net provider; libfabric's UDP"},
	} {
		i := slices.IndexFunc(infos, func(info Info) bool { return info.Provider == c.name })
		if i >= 0 {
			return i, c.reason
		}
	}
	return -1, "no provider here reaches a network"
}

// isHardware reports whether a provider uses network hardware instead of the kernel's network.
// Providers of reliable endpoints do not count as hardware, because they are used only if the user
// names them.
func isHardware(info Info) bool {
	_, name, ok := strings.Cut(info.Provider, "/")
	if !ok || info.Reliable || !slices.Contains(hardware, name) {
		return false
	}
	return !slices.ContainsFunc(softwareDevices, func(prefix string) bool {
		return strings.HasPrefix(info.Domain, prefix)
	})
}
