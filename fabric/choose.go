package fabric

import (
	"slices"
	"strings"
)

// The names of hardware providers follow the slash after a family's name. The providers psm and
// psm3 are left out, because they can also run over any kernel socket, and their name does not tell
// whether hardware is in use.
var hardware = []string{"cxi", "efa", "opx", "psm2", "verbs", "usnic", "gni", "bgq"}

// Verbs devices whose names begin with softwareDevices have no hardware. The devices rxe and siw
// are the kernel's emulations of RDMA over Converged Ethernet and of iWARP, which are slower than
// the kernel's sockets.
var softwareDevices = []string{"rxe", "siw"}

// Choose picks the provider that a program should use when its user names none, and says why, in a
// sentence for people. RDMA hardware comes first, then the kernel's UDP, then that of Go's
// package net, then libfabric's. It
// returns the index in infos, which are as GetInfo lists them; -1 if none of them is a network.
// Providers for tests and for one host alone are never picked; but the reason tells where peers on
// this host could use shared memory.
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

// isHardware reports whether a provider uses hardware of its own instead of the kernel's network.
// Reliable endpoints do not count, because a user must ask for them by name.
func isHardware(info Info) bool {
	_, name, ok := strings.Cut(info.Provider, "/")
	if !ok || info.Reliable || !slices.Contains(hardware, name) {
		return false
	}
	return !slices.ContainsFunc(softwareDevices, func(prefix string) bool {
		return strings.HasPrefix(info.Domain, prefix)
	})
}
