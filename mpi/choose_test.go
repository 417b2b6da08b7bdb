package mpi

import (
	"errors"
	"testing"
)

// Addresses of the tests, by the device that they are of.
func at(format, src, network, device string) address {
	return address{Format: format, Src: src, Network: network, Device: device}
}
func eth(src string) address    { return at("udp/ip4", src, "10.0.0.0/24", "eth0") }
func docker(src string) address { return at("udp/ip4", src, "172.17.0.0/16", "docker0") }
func lo() address               { return at("udp/ip4", "127.0.0.1", "127.0.0.0/8", "lo") }
func six(src string) address    { return at("udp/ip6", src, "2001:db8::/64", "eth0") }
func link(src string) address   { return at("udp/ip6", src, "fe80::/64", "eth0") }
func other(src, network string) address {
	return at("udp/ip4", src, network, "eth1")
}

// offerOf returns the offer of a rank, which does not tell its CPUs.
func offerOf(host string, addrs ...address) offer { return offer{Host: host, Addrs: addrs} }

// Each rank takes the address by which the others reach it, whatever the order of its devices.
func TestChooseAddress(t *testing.T) {
	for name, test := range map[string]struct {
		offers []offer
		want   []string
		err    error
	}{
		"docker0 first, the same everywhere": {
			offers: []offer{
				offerOf("a", docker("172.17.0.1"), eth("10.0.0.1"), lo()),
				offerOf("b", docker("172.17.0.1"), eth("10.0.0.2"), lo()),
			},
			want: []string{"10.0.0.1", "10.0.0.2"},
		},
		"a network of its own first": {
			offers: []offer{
				offerOf("a", other("10.244.1.1", "10.244.1.0/24"), eth("10.0.0.1")),
				offerOf("b", other("10.244.2.1", "10.244.2.0/24"), eth("10.0.0.2")),
				offerOf("b", other("10.244.2.1", "10.244.2.0/24"), eth("10.0.0.2")),
			},
			want: []string{"10.0.0.1", "10.0.0.2", "10.0.0.2"},
		},
		"no network in common": {
			offers: []offer{
				offerOf("a", other("10.1.0.1", "10.1.0.0/24"), docker("172.17.0.1")),
				offerOf("b", docker("172.17.0.1"), other("10.2.0.1", "10.2.0.0/24")),
			},
			want: []string{"10.1.0.1", "10.2.0.1"},
		},
		"IPv6 alone in common": {
			offers: []offer{
				offerOf("a", docker("172.17.0.1"), six("2001:db8::1"), link("fe80::1%eth0"), lo()),
				offerOf("b", docker("172.17.0.1"), six("2001:db8::2"), link("fe80::2%eth0"), lo()),
			},
			want: []string{"2001:db8::1", "2001:db8::2"},
		},
		"one host with two names": {
			offers: []offer{offerOf("a", docker("172.17.0.1")), offerOf("a", docker("172.17.0.1"))},
			want:   []string{"172.17.0.1", "172.17.0.1"},
		},
		"nothing but what all have": {
			offers: []offer{offerOf("a", docker("172.17.0.1")), offerOf("b", docker("172.17.0.1"))},
			want:   []string{"172.17.0.1", "172.17.0.1"},
			err:    ErrAddress,
		},
		"the link, where the others are alike": {
			offers: []offer{
				offerOf("a", docker("172.17.0.1"), link("fe80::1%eth0"), lo()),
				offerOf("b", docker("172.17.0.1"), link("fe80::2%eth0"), lo()),
			},
			want: []string{"172.17.0.1", "172.17.0.1"},
			err:  ErrAddress,
		},
		"a link's own alone": {
			offers: []offer{
				offerOf("a", lo(), link("fe80::1%eth0")), offerOf("b", lo(), link("fe80::2%eth0")),
			},
			want: []string{"fe80::1%eth0", "fe80::2%eth0"},
		},
		"loopback": {
			offers: []offer{offerOf("a", lo()), offerOf("b", eth("10.0.0.2"))},
			want:   []string{"127.0.0.1", "10.0.0.2"},
			err:    ErrAddress,
		},
		"IPv4 and IPv6": {
			offers: []offer{offerOf("a", eth("10.0.0.1")), offerOf("b", six("2001:db8::2"))},
			want:   []string{"10.0.0.1", "2001:db8::2"},
			err:    ErrAddress,
		},
	} {
		t.Run(name, func(t *testing.T) {
			chosen := make([]int, len(test.offers))
			for rank, o := range test.offers {
				chosen[rank] = chooseAddress(test.offers, rank, commonFormat(test.offers))
				if got := o.Addrs[chosen[rank]].Src; got != test.want[rank] {
					t.Errorf("rank %d takes %s, want %s", rank, got, test.want[rank])
				}
			}
			if err := clash(test.offers, chosen, 0); !errors.Is(err, test.err) {
				t.Errorf("%v, want: %v", err, test.err)
			}
		})
	}
}
