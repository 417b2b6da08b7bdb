package inet

import (
	"errors"
	"net/netip"
	"testing"

	"gobtl/fabric"
)

func TestNames(t *testing.T) {
	for _, text := range []string{"192.0.2.1:1", "127.0.0.1:65535", "[::1]:80", "[fe80::1]:9"} {
		ap := netip.MustParseAddrPort(text)
		version := 4
		if ap.Addr().Is6() {
			version = 6
		}
		got, err := DecodeName(EncodeName(ap), version)
		if err != nil || got != ap {
			t.Errorf("%v became %v, %v", ap, got, err)
		}
		if _, err := DecodeName(EncodeName(ap), 10-version); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("%v as a name of the other IP version: %v", ap, err)
		}
	}
	zoned := netip.MustParseAddrPort("[fe80::1%eth0]:9")
	if got := EncodeName(zoned); len(got) != nameBytes6 {
		t.Errorf("the name of %v has %d bytes", zoned, len(got))
	}
	for _, text := range []string{
		"192.0.2.1:0", "0.0.0.0:5", "255.255.255.255:5", "224.0.0.1:5", "[::]:5", "[ff02::1]:5",
		"[::ffff:192.0.2.1]:5",
	} {
		ap := netip.MustParseAddrPort(text)
		name := EncodeName(ap)
		version := int(name[0])
		if _, err := DecodeName(name, version); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("%v is taken as a peer: %v", ap, err)
		}
	}
}

func TestNode(t *testing.T) {
	lo := Local{
		Device: "lo", Index: 1, MTUBytes: 65536, Addr: netip.MustParseAddr("127.0.0.1"),
		Network: netip.MustParsePrefix("127.0.0.0/8"),
	}
	link := Local{
		Device: "eth0", Index: 3, MTUBytes: 1500, Addr: netip.MustParseAddr("fe80::1%eth0"),
		Network: netip.MustParsePrefix("fe80::/64"),
	}
	for _, tc := range []struct {
		node string
		l    Local
		ok   bool
		addr string
		port uint16
	}{
		{"", lo, true, "127.0.0.1", 0},
		{"lo", lo, true, "127.0.0.1", 0},
		{"eth0", lo, false, "", 0},
		{"127.0.0.1", lo, true, "127.0.0.1", 0},
		{"127.0.0.1:99", lo, true, "127.0.0.1", 99},
		{"127.0.0.1:99,7", lo, true, "127.0.0.1", 99},
		{"::ffff:127.0.0.1", lo, true, "127.0.0.1", 0},
		{"127.9.9.9", lo, true, "127.9.9.9", 0},
		{"128.0.0.1", lo, false, "", 0},
		{"fe80::1", link, true, "fe80::1%eth0", 0},
		{"fe80::1%eth0", link, true, "fe80::1%eth0", 0},
		{"fe80::1%3", link, true, "fe80::1%eth0", 0},
		{"fe80::1%eth1", link, false, "", 0},
		{"[fe80::1%eth0]:7", link, true, "fe80::1%eth0", 7},
		{"fe80::2", link, false, "", 0},
		{":99", lo, true, "127.0.0.1", 99},
		{":99,7", link, true, "fe80::1%eth0", 99},
		{"0.0.0.0:99", lo, true, "127.0.0.1", 99},
		{"0.0.0.0", lo, true, "127.0.0.1", 0},
		{"0.0.0.0:99", link, false, "", 0},
		{"[::]:99", link, true, "fe80::1%eth0", 99},
		{"eth0:99", link, true, "fe80::1%eth0", 99},
		{"eth0:99", lo, false, "", 0},
		{"localhost:99", lo, true, "127.0.0.1", 99},
		{"localhost", link, false, "", 0},
		{"127.0.0.1:65535,99", lo, true, "127.0.0.1", 65535},
	} {
		want, err := parseNode(tc.node)
		if err != nil {
			t.Errorf("node %q: %v", tc.node, err)
		}
		got, ok := want.match(tc.l)
		if ok != tc.ok || ok && (got.Addr.String() != tc.addr || got.Ports[0] != tc.port) {
			t.Errorf("node %q on %v: %v %v %d", tc.node, tc.l.Addr, ok, got.Addr, got.Ports)
		}
	}
	if lo.PayloadBytes() != 65507 || link.PayloadBytes() != 1452 {
		t.Errorf("payloads of %d and %d bytes", lo.PayloadBytes(), link.PayloadBytes())
	}
}
