package layers

import (
	"math"
	"testing"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// TestLoadPace holds that a stream of a rate sends no more than that, and no more than its window.
func TestLoadPace(t *testing.T) {
	const messageBytes = 1000
	s := loadStream{window: 2, messages: messages{size: messageBytes}}
	s.start(0.5, 100) // 500 MB/s: a message each 2 us.
	sent := 0
	for now := mono.Time(0); now < 1_000_000; now += 100 {
		for s.due(100 + now) {
			s.offered += messageBytes
			sent++
		}
	}
	if sent < 499 || sent > 502 {
		t.Errorf("%d messages in 1 ms, want 500", sent)
	}
	s.start(0, 0)
	s.inFlight = 1
	if !s.due(0) {
		t.Error("nothing is due of a stream without limit")
	}
	s.inFlight = 2
	if s.due(0) {
		t.Error("more is due than the window allows")
	}
}

// TestPace holds that no more messages are due than the rate allows, and that what was not sent is
// made up for.
func TestPace(t *testing.T) {
	var p pace
	p.start(0, 0)
	if p.due(5, 100) != math.MaxInt64 {
		t.Error("a stream without a rate has to wait")
	}
	p.start(1, 1000) // a byte a nanosecond
	if n := p.due(1000, 0); n != math.MaxInt64 {
		t.Errorf("%d messages of no bytes are due", n)
	}
	sent := int64(0)
	for _, c := range []struct {
		now  mono.Time
		want int64
	}{{1000, 1}, {1099, 1}, {1100, 2}, {1100, 2}, {2000, 11}, {1_000_000, 9991}} {
		n := p.due(c.now, 100)
		sent += n
		p.offered += float64(100 * n)
		if sent != c.want {
			t.Errorf("%d messages by %d, want %d", sent, c.now, c.want)
		}
	}
}

func TestDatagramBytes(t *testing.T) {
	for _, c := range []struct {
		provider, src, format string
		mtu, want             int
	}{
		{"udp", "127.0.0.1", "udp/ip4", 1500, 1472},
		{"udp;nogso", "::1", "udp/ip6", 1500, 1452},
		{"udp", "fe80::1%eth0", "", 9000, 8952},
		{"ofi/udp", "127.0.0.1", "FI_SOCKADDR_IN", 1500, 1472},
		{"ofi/udp+offload", "", "FI_SOCKADDR_IN6", 1500, 1452},
		{"ofi/udp", "::ffff:192.0.2.1", "FI_SOCKADDR_IN", 1500, 1472},
		{"ofi/udp;ofi_rxd", "127.0.0.1", "FI_SOCKADDR_IN", 1500, 1500},
		{"ofi/verbs", "", "FI_ADDR_IB_UD", 2048, 2048},
		{"mem/local", "", "mem:<number>", 1500, 1500},
		{"udp", "127.0.0.1", "udp/ip4", 0, 0},
		{"udp", "127.0.0.1", "udp/ip4", 10, 1},
	} {
		info := fabric.Info{Provider: c.provider, Src: c.src, AddrFormat: c.format}
		if got := datagramBytes(&info, c.mtu); got != c.want {
			t.Errorf("%s %s, MTU %d: %d, want %d", c.provider, c.src, c.mtu, got, c.want)
		}
	}
}

// TestPaceNext checks the instant up to which a stream without room may sleep.
func TestPaceNext(t *testing.T) {
	var p pace
	p.start(0, 1000)
	if got := p.next(5000); got != 5000 {
		t.Errorf("without a rate the next message is due at %d", got)
	}
	p.start(1, 1000) // a byte a nanosecond
	p.offered = 300
	next := p.next(5000)
	if p.due(next-2, 100) != 0 || p.due(next, 100) != 1 {
		t.Errorf("%d messages are due before %d, %d then", p.due(next-2, 100), next, p.due(next, 100))
	}
	if got := p.next(1200); got != 1200 {
		t.Errorf("sleeps until %d, and the phase ends at 1200", got)
	}
}
