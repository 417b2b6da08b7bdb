package fabric

import "testing"

// TestSocketsOf: a program without provider udp, as on other systems than Linux, uses net.
func TestSocketsOf(t *testing.T) {
	for _, c := range []struct {
		families []string
		want     string
	}{
		{[]string{"mem", "net", "ofi", "udp"}, "udp"}, {[]string{"net", "ofi"}, "net"}, {nil, "udp"},
	} {
		if got := socketsOf(c.families); got != c.want {
			t.Errorf("%q: %q, want %q", c.families, got, c.want)
		}
	}
}
