package fabric

import (
	"slices"
	"strings"
)

// The providers of hardware, by the name that follows a family's slash. Those that run over any
// kernel socket beside their own hardware (psm, psm3) are not here: their name does not tell what
// is below them.
var hardware = []string{"cxi", "efa", "opx", "psm2", "verbs", "usnic", "gni", "bgq"}

// softwareDevices begin the names of verbs devices without hardware: RDMA over Converged Ethernet
// and iWARP as the kernel emulates them, slower than the sockets below them.
var softwareDevices = []string{"rxe", "siw"}

// Choose picks the provider that a program should use when its user names none, and says why, in a
// sentence for people. RDMA hardware comes first, then the kernel's UDP, then libfabric's UDP. It
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

// sharedMemory is the provider for one host.
const sharedMemory = "shm"

func chooseNetwork(infos []Info) (chosen int, reason string) {
	if i := slices.IndexFunc(infos, isHardware); i >= 0 {
		_, device, _ := strings.Cut(infos[i].Provider, "/")
		return i, "RDMA hardware: " + device + " device " + infos[i].Domain
	}
	for _, c := range []struct{ name, reason string }{
		{"udp", "no RDMA hardware here; the kernel's UDP, called directly"},
		{"ofi/udp", "no RDMA hardware here, and no udp provider; libfabric's UDP"},
	} {
		i := slices.IndexFunc(infos, func(info Info) bool { return info.Provider == c.name })
		if i >= 0 {
			return i, c.reason
		}
	}
	return -1, "no provider here reaches a network"
}

// isHardware tells a device of its own from what runs over the kernel's network. Reliable endpoints
// are for those who ask for them by name.
func isHardware(info Info) bool {
	_, name, ok := strings.Cut(info.Provider, "/")
	if !ok || info.Reliable || !slices.Contains(hardware, name) {
		return false
	}
	return !slices.ContainsFunc(softwareDevices, func(prefix string) bool {
		return strings.HasPrefix(info.Domain, prefix)
	})
}
