package agent

import (
	"net/netip"
	"testing"

	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// TestOwnerInVLAN: an ARP request of a VLAN says nothing of the device's addresses.
func TestOwnerInVLAN(t *testing.T) {
	arp := []byte{
		0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9,
	}
	head := []byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2}
	for tag, want := range map[string]bool{
		"": true, "\x81\x00\x00\x05": false, "\x81\x00\x00\x00": true,
	} {
		f := append(append(append([]byte(nil), head...), tag...), 8, 6)
		f = append(f, arp...)
		i, ok := vnic.Inspect(f)
		if !ok {
			t.Fatalf("%q: no frame", tag)
		}
		own := []tap.Addr{{IP: netip.MustParseAddr("10.0.0.1")}}
		var o owners
		if err := o.check(1, own); err != nil {
			t.Fatal(err)
		}
		o.hear(2, 7, f, &i)
		if err := o.check(3, own); (err != nil) != want {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}
