package main

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

func TestWindowList(t *testing.T) {
	for _, c := range []struct {
		text string
		want windowList
		json string
	}{
		{"1", windowList{1}, "1"},
		{"1, 8,65536", windowList{1, 8, 65536}, "[1,8,65536]"},
	} {
		var l windowList
		if err := l.UnmarshalText([]byte(c.text)); err != nil || !slices.Equal(l, c.want) {
			t.Errorf("%q: %v, %v", c.text, l, err)
		}
		if b, err := json.Marshal(l); err != nil || string(b) != c.json {
			t.Errorf("%q: %s, %v", c.text, b, err)
		}
	}
	if b, err := json.Marshal(windowList(nil)); err != nil || string(b) != "64" {
		t.Errorf("none: %s, %v", b, err)
	}
	for _, text := range []string{"", "0", "-1", "65537", "8,", "x"} {
		if (&windowList{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestWindowsOfTests(t *testing.T) {
	for _, c := range []struct {
		test      string
		sizeBytes int
		asked     windowList
		want      []int
	}{
		{testRate, 8, nil, []int{1, 8, 64, 512}},
		{testRate, 8, windowList{4, 2, 4}, []int{4, 2}},
		{testRate, 1 << 20, windowList{8, 64, 512}, []int{8, 64}}, // 512 MiB are too many.
		{testBW, 8, nil, []int{64}},
		{testBW, 8, windowList{1, 2}, []int{1, 2}},
		{testLat, 8, windowList{3, 4}, []int{3}},
		{testPutLat, 8, nil, []int{64}},
		{testLatLoad, 8, nil, []int{2}},
		{testLatLoad, 8, windowList{1, 64, 128}, []int{1, 64}}, // Of the load's size, 1 MiB.
	} {
		f := benchFlags{Window: c.asked, LoadSize: 1 << 20}
		if got := f.windows(c.test, c.sizeBytes); !slices.Equal(got, c.want) {
			t.Errorf("%s of %d, %v: %v, want %v", c.test, c.sizeBytes, c.asked, got, c.want)
		}
	}
}

func TestLoadList(t *testing.T) {
	var l loadList
	if err := l.UnmarshalText([]byte("1%, 100%,max,1%")); err != nil ||
		!slices.Equal(l, loadList{1, 100, loadMax}) {
		t.Errorf("%v, %v", l, err)
	}
	if b, err := json.Marshal(l); err != nil || string(b) != `["1%","100%","max"]` {
		t.Errorf("%s, %v", b, err)
	}
	for _, text := range []string{"", "0%", "101%", "50", "max%", "idle", "-5%", "x%", "1%,"} {
		if (&loadList{}).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestLoadPace holds that a stream of a rate sends no more than that, and no more than its window.
func TestLoadPace(t *testing.T) {
	s := loadStream{window: 2}
	const messageBytes = 1000
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

func TestLoadSpecValidate(t *testing.T) {
	good := roundSpec{
		Test: testLatLoad, Layer: layerBTL, SizeBytes: 8, Window: 64, Load: loadMax, LoadBytes: 1 << 20,
		PeerTimeoutNs: int64(time.Second),
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*roundSpec){
		"test":          func(s *roundSpec) { s.Test = "all" },
		"layer":         func(s *roundSpec) { s.Layer = "x" },
		"size":          func(s *roundSpec) { s.SizeBytes = -1 },
		"window":        func(s *roundSpec) { s.Window = 65 },
		"no window":     func(s *roundSpec) { s.Window = 0 },
		"load":          func(s *roundSpec) { s.Load = loadMax + 1 },
		"negative load": func(s *roundSpec) { s.Load = -1 },
		"load size":     func(s *roundSpec) { s.LoadBytes = 33 << 20 },
		"load no size":  func(s *roundSpec) { s.LoadBytes = -1 },
		"timeout":       func(s *roundSpec) { s.PeerTimeoutNs = 0 },
	} {
		s := good
		change(&s)
		if s.validate() == nil {
			t.Errorf("%s: accepted", name)
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
