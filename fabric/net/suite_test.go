package net_test

import (
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	_ "gobtl/fabric/net"
	"gobtl/internal/testenv"
)

// at is the suite's view of providers at a local address: each domain is of the next one.
func at(node string, providers ...string) fabrictest.Fixture {
	opened := 0
	return fabrictest.Fixture{
		Name: "net at " + node,
		Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
			tb.Helper()
			hints := fabric.Hints{Provider: providers[opened%len(providers)], Node: node}
			opened++
			infos, err := fabric.GetInfo(hints)
			if err != nil {
				tb.Fatal(err)
			}
			d, err := fabric.Open(infos[0], cfg)
			if err != nil {
				tb.Fatal(err)
			}
			return d
		},
	}
}

// needNode skips a test whose address this host does not have.
func needNode(t *testing.T, node string) {
	t.Helper()
	if _, err := fabric.GetInfo(fabric.Hints{Provider: "net", Node: node}); err != nil {
		testenv.Missing(t, "needs the address %s: %v", node, err)
	}
}

func TestSuite(t *testing.T) {
	for name, node := range map[string]string{"ip4": "127.0.0.1", "ip6": "::1"} {
		t.Run(name, func(t *testing.T) {
			needNode(t, node)
			fabrictest.Run(t, at(node, "net"))
		})
	}
	for name, cfg := range map[string]fabric.EndpointConfig{
		"smallest receive buffer": {RecvBufferBytes: 1},
		"system's receive buffer": {RecvBufferBytes: -1},
		"shallow":                 {RxDepth: 33, TxDepth: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if testenv.Race || testing.Short() {
				t.Skip("the same goroutines as by default")
			}
			f := at("127.0.0.1", "net")
			f.Endpoint = cfg
			fabrictest.Run(t, f)
		})
	}
}

func BenchmarkSuite(b *testing.B) { fabrictest.Bench(b, at("127.0.0.1", "net")) }
