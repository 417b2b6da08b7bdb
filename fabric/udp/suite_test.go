//go:build linux

package udp_test

import (
	"net/netip"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

// variant is the suite's Fixture of the provider with options, at a local address.
func variant(o udp.Options, node string) fabrictest.Fixture {
	p := udp.New(o)
	return fabrictest.Fixture{
		Name: "udp at " + node,
		Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
			tb.Helper()
			infos, err := p.GetInfo(fabric.Hints{Node: node})
			if err != nil || len(infos) == 0 {
				tb.Fatalf("node %s: %d infos, %v", node, len(infos), err)
			}
			d, err := p.Open(infos[0], cfg)
			if err != nil {
				tb.Fatal(err)
			}
			return d
		},
	}
}

// variants are the combinations of options that the suite tests.
var variants = []struct {
	name    string
	options udp.Options
	node    string
}{
	{"default", udp.Options{}, "127.0.0.1"},
	{"nogso", udp.Options{NoGSO: true}, "127.0.0.1"},
	{"nogro", udp.Options{NoGRO: true}, "127.0.0.1"},
	{"nommsg", udp.Options{NoMmsg: true}, "127.0.0.1"},
	{"bare", udp.Options{NoGSO: true, NoGRO: true, NoMmsg: true}, "127.0.0.1"},
	{"ip6", udp.Options{}, "::1"},
}

func TestSuite(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			needNode(t, v.node)
			if (testenv.Race || testing.Short()) && v.options != (udp.Options{}) {
				t.Skip("the same threads as by default, and slow")
			}
			fabrictest.Run(t, variant(v.options, v.node))
		})
	}
	for name, cfg := range map[string]fabric.EndpointConfig{
		"smallest receive buffer": {RecvBufferBytes: 1},
		"small receive buffer":    {RecvBufferBytes: 208 << 10},
		"system's receive buffer": {RecvBufferBytes: -1},
		"shallow":                 {RxDepth: 33, TxDepth: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if testenv.Race || testing.Short() {
				t.Skip("the same threads as by default, and slow")
			}
			f := variant(udp.Options{}, "127.0.0.1")
			f.Endpoint = cfg
			fabrictest.Run(t, f)
		})
	}
}

// needNode skips a test if this host does not have the address.
func needNode(t *testing.T, node string) {
	t.Helper()
	if netip.MustParseAddr(node).Is4() {
		return
	}
	infos, err := udp.New(udp.Options{}).GetInfo(fabric.Hints{Node: node})
	if err == nil && len(infos) > 0 {
		return
	}
	testenv.Missing(t, "needs the address %s (IPv6): %v", node, err)
}

func BenchmarkSuite(b *testing.B) {
	for _, v := range variants {
		b.Run(v.name, func(b *testing.B) { fabrictest.Bench(b, variant(v.options, v.node)) })
	}
}
