package net_test

import (
	"bytes"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

// TestBesideUDP runs the suite with every second domain of provider udp: both have one wire.
func TestBesideUDP(t *testing.T) {
	for name, node := range map[string]string{"ip4": "127.0.0.1", "ip6": "::1"} {
		t.Run(name, func(t *testing.T) {
			needNode(t, node)
			if testenv.Race || testing.Short() {
				t.Skip("the same goroutines as alone, and slow")
			}
			fabrictest.Run(t, at(node, "net", "udp"))
			fabrictest.Run(t, at(node, "udp", "net"))
		})
	}
}

// TestInfoLikeUDP compares what the two tell of an address, where peers depend on it.
func TestInfoLikeUDP(t *testing.T) {
	for _, node := range []string{"127.0.0.1", "::1", "", "127.0.0.1:4000"} {
		of := func(provider string) []fabric.Info {
			infos, err := fabric.GetInfo(fabric.Hints{Provider: provider, Node: node})
			if err != nil {
				t.Fatal(err)
			}
			return infos
		}
		ours, theirs := of("net"), of("udp")
		if len(ours) != len(theirs) {
			t.Fatalf("node %q: %d addresses, udp has %d", node, len(ours), len(theirs))
		}
		for i, a := range ours {
			b := theirs[i]
			if a.Wire != b.Wire || a.AddrFormat != b.AddrFormat || a.MTUBytes != b.MTUBytes ||
				a.Src != b.Src || a.Domain != b.Domain || a.Fabric != b.Fabric {
				t.Errorf("node %q: %+v, udp has %+v", node, a, b)
			}
		}
	}
}

// TestNamesLikeUDP has each write the other's names.
func TestNamesLikeUDP(t *testing.T) {
	ours := at("127.0.0.1", "net").Open(t, fabric.DomainConfig{Buffers: 2})
	theirs := at("127.0.0.1", "udp").Open(t, fabric.DomainConfig{Buffers: 2})
	defer ours.Close()
	defer theirs.Close()
	for _, pair := range [][2]fabric.Domain{{ours, theirs}, {theirs, ours}} {
		e, err := pair[0].OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		text := pair[0].(fabric.Addresser).FormatName(e.Name())
		name, _, err := pair[1].(fabric.Addresser).ParseAddress(text)
		if err != nil || !bytes.Equal(name, e.Name()) {
			t.Errorf("%x is written %q, and read as %x, %v", e.Name(), text, name, err)
		}
	}
}
