//go:build linux && cgo

package ofi

import (
	"bytes"
	"errors"
	"testing"

	"gobtl/fabric"
)

// hosts opens a domain, and returns the domain as an Addresser.
func hosts(t *testing.T, provider, node string) fabric.Addresser {
	t.Helper()
	d, err := fabric.Open(fabric.Info{Provider: provider, Node: node}, fabric.DomainConfig{Buffers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	a, ok := d.(fabric.Addresser)
	if !ok {
		t.Fatalf("%s at %s does not tell hosts apart", provider, node)
	}
	return a
}

// TestHostOfName checks that all ports of an IPv4 address are one host, and all addresses of an
// IPv6 network of 64 bits.
func TestHostOfName(t *testing.T) {
	for _, tt := range []struct {
		node string
		name []byte
		host []byte
		text string
	}{
		{"127.0.0.1", sockIn("192.0.2.1", 99), []byte{192, 0, 2, 1}, "192.0.2.1:99"},
		{"127.0.0.1", sockIn("192.0.2.1", 100), []byte{192, 0, 2, 1}, "192.0.2.1:100"},
		{"127.0.0.1", sockIn("192.0.2.2", 99), []byte{192, 0, 2, 2}, "192.0.2.2:99"},
		{
			"::1", sockIn6("2001:db8:1:2:3:4:5:6", 99, 0, 0),
			[]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2},
			"[2001:db8:1:2:3:4:5:6]:99",
		},
		{
			"::1", sockIn6("2001:db8:1:2::7", 100, 0, 0),
			[]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2},
			"[2001:db8:1:2::7]:100",
		},
		{
			"::1", sockIn6("::ffff:192.0.2.1", 99, 0, 0), []byte{192, 0, 2, 1}, "[::ffff:192.0.2.1]:99",
		},
	} {
		d := hosts(t, "ofi/udp", tt.node)
		if host := d.Host(tt.name); !bytes.Equal(host, tt.host) {
			t.Errorf("%s: the host is %x, want %x", tt.text, host, tt.host)
		}
		if text := d.FormatName(tt.name); text != tt.text {
			t.Errorf("%x is written as %q, want %q", tt.name, text, tt.text)
		}
		first, second, err := d.ParseAddress(tt.text + ",7")
		if err != nil || !bytes.Equal(first, tt.name) || !bytes.Equal(d.Host(second), tt.host) {
			t.Errorf("%s is read as %x and %x, %v; want %x", tt.text, first, second, err, tt.name)
		}
	}
}

// TestHostOfOtherName checks names and texts that are no addresses of the domain.
func TestHostOfOtherName(t *testing.T) {
	d := hosts(t, "ofi/udp", "127.0.0.1")
	for _, name := range [][]byte{nil, {1}, sockIn("192.0.2.1", 99)[:7], sockIn("0.0.0.0", 99)} {
		_ = d.Host(name)
		if text := d.FormatName(name); bytes.ContainsAny([]byte(text), ".:") {
			t.Errorf("%x is written as %q", name, text)
		}
	}
	for _, text := range []string{
		"[2001:db8::1]:99", "[::ffff:192.0.2.1]:99x", "0.0.0.0:99", "192.0.2.1", "192.0.2.1:65535",
	} {
		if _, _, err := d.ParseAddress(text); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("%q is read: %v", text, err)
		}
	}
	if _, _, err := hosts(t, "ofi/udp", "::1").ParseAddress("192.0.2.1:99"); !errors.Is(err,
		fabric.ErrBadName) {
		t.Errorf("an IPv4 address in an IPv6 domain: %v", err)
	}
}

// TestWhichTellHosts checks that exactly the domains whose names are IP addresses tell hosts apart.
func TestWhichTellHosts(t *testing.T) {
	for provider, node := range map[string]string{
		"ofi/udp+offload": "127.0.0.1", "ofi/tcp": "127.0.0.1", "ofi/udp;ofi_rxd": "127.0.0.1",
	} {
		hosts(t, provider, node)
	}
	d, err := fabric.Open(fabric.Info{Provider: "ofi/shm"}, fabric.DomainConfig{Buffers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, ok := d.(fabric.Addresser); ok {
		t.Error("ofi/shm tells hosts apart")
	}
}
