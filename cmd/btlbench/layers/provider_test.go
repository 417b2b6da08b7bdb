package layers

import (
	"strings"
	"testing"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// TestMTURange: the range of --mtu is that of the transport's datagrams and the raw layer's, with
// the headers of the network, and an error says the range.
func TestMTURange(t *testing.T) {
	for _, tc := range []struct {
		provider, source string
		layer            string
		low, high        int
		want             string
	}{
		{"udp", "127.0.0.1", plan.LayerBTL, 540, 65535, "540 to 65535 bytes with udp over IPv4"},
		{"udp", "::1", plan.LayerBTL, 560, 65535, "560 to 65535 bytes with udp over IPv6"},
		{"mem/local", "", plan.LayerBTL, 512, 65507, "512 to 65507 bytes with mem/local"},
		{"udp", "127.0.0.1", plan.LayerRaw, 76, 65535, "76 to 65535 bytes with udp over IPv4"},
	} {
		info := fabric.Info{Provider: tc.provider, Src: tc.source, MTUBytes: 65507}
		for mtu, ok := range map[int]bool{
			0: true, 1: false, tc.low - 1: false, tc.low: true, tc.high: true, tc.high + 1: false,
		} {
			err := checkMTU(&info, &Config{Layers: []string{tc.layer}, MTUBytes: mtu})
			if (err == nil) != ok || err != nil && !strings.HasSuffix(err.Error(), ": "+tc.want) {
				t.Errorf("%+v, MTU %d: %v", tc, mtu, err)
			}
			if tc.layer != plan.LayerBTL || mtu > tc.high && tc.source == "::1" {
				continue
			}
			_, err = btl.Config{MTUBytes: datagramBytes(&info, mtu)}.WithDefaults(info)
			if (err == nil) != ok {
				t.Errorf("%+v: the transport says of MTU %d: %v", tc, mtu, err)
			}
		}
	}
}
