//go:build linux && cgo

package ofi

import (
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/internal/testenv"
)

func loopback(prov string) func(testing.TB, fabric.DomainConfig) fabric.Domain {
	return func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain { return open(tb, prov, cfg) }
}

func fake(device string) func(testing.TB, fabric.DomainConfig) fabric.Domain {
	return func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
		return openFake(tb, device, cfg)
	}
}

func TestConformanceUDP(t *testing.T) {
	fabrictest.Run(t, fabrictest.Fixture{Name: "ofi/udp", Open: loopback("ofi/udp")})
}

// notRaced skips a test of a provider if the race detector is on.
func notRaced(t *testing.T) {
	t.Helper()
	if testenv.Race {
		t.Skip("the race detector sees nothing of the provider's own threads, and TestConformanceUDP " +
			"shows it the same lines of this package")
	}
}

func TestConformanceSockets(t *testing.T) {
	notRaced(t)
	const slow = "its threads and its TCP carry a few thousand datagrams a second on a busy machine"
	fabrictest.Run(t, fabrictest.Fixture{
		Name: "ofi/sockets",
		Open: loopback("ofi/sockets"),
		Skip: map[string]string{
			"Overflow":      "TCP drops nothing: the flood goes on arriving after the test has drained it",
			"NoAllocations": slow, "RandomTraffic": slow, "ConcurrentDomains": slow,
			// TestConformanceUDP runs the same lines of this package.
			"EqualBursts": slow, "MixedBursts": slow, "RecvCapacityBursts": slow,
			"GatherLengths": slow, "SurplusWaits": slow,
		},
	})
}

func TestConformanceFakeUD(t *testing.T) {
	fabrictest.Run(t, fabrictest.Fixture{Name: "fake ud", Open: fake("ud")})
}

func TestConformanceFakeNIC(t *testing.T) {
	fabrictest.Run(t, fabrictest.Fixture{Name: "fake nic", Open: fake("nic")})
}
