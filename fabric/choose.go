package fabric

import (
	"slices"
	"strings"
)

// The variable "hardware" lists the names of libfabric's providers for network hardware, without
// the prefix "ofi/". The list of hardware providers does not contain psm and psm3, because psm and
// psm3 can run over kernel sockets.
var hardware = []string{"cxi", "efa", "opx", "psm2", "verbs", "usnic", "gni", "bgq"}

// softwareDevices lists the name prefixes of verbs devices that are implemented in software. The
// devices rxe and siw are the kernel's emulations of RDMA over Converged Ethernet and of iWARP,
// which are slower than kernel sockets.
var softwareDevices = []string{"rxe", "siw"}

// Choose selects the provider for a program whose user has not named a provider. The result
// "reason" is a sentence that tells the user why Choose selected the provider. Choose prefers RDMA
// hardware, then the provider "udp" (the kernel's UDP), then the provider "net" (Go's package net),
// then libfabric's udp provider ("ofi/udp"). The result "chosen" is the index of the selected
// provider's Info in the argument "infos". If no provider in "infos" reaches a network, the result
// "chosen" is -1. The argument "infos" must be in the order in which GetInfo returns the Infos.
// Choose never selects a provider that is made for tests, and never selects a provider that
// connects only processes on one host. If the argument "infos" contains the shared-memory provider,
// the result "reason" mentions that peers on this host could use shared memory.
func Choose(infos []Info) (chosen int, reason string) {
	chosen, reason = chooseNetwork(infos)
	if slices.ContainsFunc(infos, func(info Info) bool { return info.Provider == sharedMemory }) {
		reason += "; shared memory, provider " + sharedMemory + ", is faster between processes of one " +
			"user on this host that see the same /dev/shm"
	}
	return chosen, reason
}

// sharedMemory is the name of the shared-memory provider, which connects processes on one host.
const sharedMemory = "shm"

// Sockets returns "udp" if this program has registered the provider "udp" (the kernel's UDP
// sockets), and otherwise "net" (UDP by Go's package net). If the program has registered neither
// provider for UDP sockets, Sockets returns "udp", so that the error of a later call names "udp".
func Sockets() string { return socketsOf(Families()) }

func socketsOf(families []string) string {
	if !slices.Contains(families, "udp") && slices.Contains(families, "net") {
		return "net"
	}
	return "udp"
}

// OverSockets reports whether a provider belongs to the family "udp" or "net", whose endpoint
// addresses consist of an IP address and a port. For example, the provider "udp;nogso" belongs to
// the family "udp".
func OverSockets(provider string) bool {
	family := FamilyOf(provider)
	return family == "udp" || family == "net"
}

func chooseNetwork(infos []Info) (chosen int, reason string) {
	if i := slices.IndexFunc(infos, isHardware); i >= 0 {
		_, device, _ := strings.Cut(infos[i].Provider, "/")
		return i, "RDMA hardware was found: " + device + " device " + infos[i].Domain
	}
	for _, c := range []struct{ name, reason string }{
		{"udp", "no RDMA hardware was found; udp calls the kernel's UDP directly"},
		{"net", "no RDMA hardware was found, and no provider udp; net is UDP by Go's package net"},
		{
			"ofi/udp",
			"no RDMA hardware was found, and no provider udp or net; ofi/udp is libfabric's UDP",
		},
	} {
		i := slices.IndexFunc(infos, func(info Info) bool { return info.Provider == c.name })
		if i >= 0 {
			return i, c.reason
		}
	}
	return -1, "no provider here reaches a network"
}

// isHardware reports whether a provider with unreliable endpoints uses network hardware instead of
// the kernel's network. For a provider with reliable endpoints, isHardware returns false, because
// Choose selects only providers with unreliable endpoints.
func isHardware(info Info) bool {
	_, name, ok := strings.Cut(info.Provider, "/")
	if !ok || info.Reliable || !slices.Contains(hardware, name) {
		return false
	}
	return !slices.ContainsFunc(softwareDevices, func(prefix string) bool {
		return strings.HasPrefix(info.Domain, prefix)
	})
}
