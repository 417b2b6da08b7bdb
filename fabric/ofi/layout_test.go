//go:build linux && cgo

package ofi

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"gobtl/fabric"
)

// providerLimits are the sizes that real providers report.
var providerLimits = map[string]limits{
	"udp":     {maxMsgBytes: 1472, injectBytes: 1472, txDepth: 1024, rxDepth: 1024, iovLimit: 4},
	"verbs":   {maxMsgBytes: 4096, prefixBytes: 40, rxPrefix: true, injectBytes: 256, txDepth: 384},
	"efa":     {maxMsgBytes: 8760, prefixBytes: 40, txPrefix: true, rxPrefix: true},
	"usnic":   {maxMsgBytes: 1536, prefixBytes: 64, txPrefix: true, rxPrefix: true, injectBytes: 950},
	"sockets": {maxMsgBytes: math.MaxUint64 - 4096, injectBytes: 255, txDepth: 256, rxDepth: 256},
	"psm3":    {maxMsgBytes: math.MaxUint32, injectBytes: 64, txDepth: math.MaxUint64},
	// A prefix that no mode requests does not exist.
	"unused": {maxMsgBytes: 9000, prefixBytes: 64, injectBytes: 100},
}

func TestPrefixArithmetic(t *testing.T) {
	tests := []struct {
		prov string
		want layout
	}{
		{"udp", layout{strideBytes: 1536, sizeBytes: 1472, mtuBytes: 1472, injectBytes: 1472}},
		{"verbs", layout{
			strideBytes: 64 + 4096, headroomBytes: 64, rxPrefixBytes: 40,
			sizeBytes: 4056, mtuBytes: 4056, injectBytes: 256,
		}},
		{"efa", layout{
			strideBytes: 64 + 8768, headroomBytes: 64, txPrefixBytes: 40, rxPrefixBytes: 40,
			sizeBytes: 8720, mtuBytes: 8720,
		}},
		{"usnic", layout{
			strideBytes: 64 + 1536, headroomBytes: 64, txPrefixBytes: 64, rxPrefixBytes: 64,
			sizeBytes: 1472, mtuBytes: 1472, injectBytes: 886,
		}},
		{"sockets", layout{strideBytes: 1088, sizeBytes: 1024, mtuBytes: 1024}},
		{"psm3", layout{strideBytes: 65536, sizeBytes: 65507, mtuBytes: 65507, injectBytes: 64}},
		{"unused", layout{strideBytes: 9024, sizeBytes: 9000, mtuBytes: 9000, injectBytes: 100}},
	}
	for _, tt := range tests {
		t.Run(tt.prov, func(t *testing.T) {
			tt.want.count = defaultBuffers
			got, err := newLayout(providerLimits[tt.prov].tamed(tt.prov, 117), fabric.DomainConfig{})
			if err != nil || got != tt.want {
				t.Errorf("newLayout = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestQuirks checks that the workarounds for a provider follow the provider's version.
func TestQuirks(t *testing.T) {
	wide := limits{maxMsgBytes: 1 << 30, injectBytes: 4096, reliable: true}
	for _, tt := range []struct {
		prov      string
		major     uint32
		mtu, kept int
		flags     uint32
	}{
		{"shm", 117, 4096, 0, 0},
		{"shm", 122, 4096, 0, 0},
		{"shm", 200, 4096, 256, 4},
		{"shm", 201, 4096, 256, 4},
		{"shm", 205, 4096, 256, 4},
		{"shm", 300, 4096, 256, 4},
		{"tcp", 206, maxSegmentBytes, 0, 8},
		{"sockets", 117, socketsMTUBytes, 0, 3},
		{"sockets", 206, socketsMTUBytes, 0, 3},
	} {
		l := wide.tamed(tt.prov, tt.major)
		flags := uint32(l.quirks.flags())
		if l.mtuBytes() != tt.mtu || l.quirks.keptPeers != tt.kept || flags != tt.flags {
			t.Errorf("%s %d: MTU %d, quirks %+v, flags %d; want MTU %d, %d peers kept, flags %d", tt.prov,
				tt.major, l.mtuBytes(), l.quirks, flags, tt.mtu, tt.kept, tt.flags)
		}
	}
}

// TestSocketsUnderWay checks that the bytes in flight of an endpoint of the sockets provider stay
// below a receive window.
func TestSocketsUnderWay(t *testing.T) {
	for _, prov := range []string{"ofi/sockets", "ofi/sockets+rdm"} {
		d := open(t, prov, fabric.DomainConfig{Buffers: 1})
		ep, err := d.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c := ep.Caps()
		most := c.TxDepth * (c.MTUBytes + socketsHeaderBytes)
		if most > socketsUnderWayBytes || c.InjectBytes > 0 {
			t.Errorf("%s: %d bytes under way, want at most %d; %d bytes are injected beside them", prov,
				most, socketsUnderWayBytes, c.InjectBytes)
		}
	}
}

// TestLayoutModel draws the values of a provider and a caller, and checks that the slots have room
// for these values.
func TestLayoutModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits{
			maxMsgBytes: rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 1<<17)).Draw(t, "max"),
			prefixBytes: rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 256)).Draw(t, "prefix"),
			injectBytes: rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 1<<13)).Draw(t, "inject"),
			txPrefix:    rapid.Bool().Draw(t, "tx"),
			rxPrefix:    rapid.Bool().Draw(t, "rx"),
		}
		cfg := fabric.DomainConfig{
			Buffers:     rapid.OneOf(rapid.Int(), rapid.IntRange(0, 1<<16)).Draw(t, "buffers"),
			BufferBytes: rapid.OneOf(rapid.Int(), rapid.IntRange(0, 1<<16)).Draw(t, "bytes"),
		}
		lay, err := newLayout(l, cfg)
		if err != nil {
			if !errors.Is(err, fabric.ErrBadConfig) && !errors.Is(err, fabric.ErrUnavailable) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if lay.headroomBytes%cacheLineBytes != 0 || lay.strideBytes%cacheLineBytes != 0 {
			t.Fatalf("%+v: callers' bytes do not start on cache lines", lay)
		}
		if lay.headroomBytes < max(lay.txPrefixBytes, lay.rxPrefixBytes) {
			t.Fatalf("%+v: no room for the prefix", lay)
		}
		if lay.strideBytes < lay.headroomBytes+lay.sizeBytes+slackBytes {
			t.Fatalf("%+v: a slot reaches into the next one", lay)
		}
		if lay.injectBytes > lay.mtuBytes || lay.mtuBytes < 1 || lay.mtuBytes > maxDatagramBytes {
			t.Fatalf("%+v: sizes out of order", lay)
		}
		if uint64(lay.mtuBytes)+l.prefix() > max(l.maxMsgBytes, uint64(lay.mtuBytes)) {
			t.Fatalf("%+v: MTU and prefix are more than max_msg_size", lay)
		}
	})
}

func TestLayoutRefuses(t *testing.T) {
	udp := providerLimits["udp"]
	for _, tt := range []struct {
		name string
		l    limits
		cfg  fabric.DomainConfig
		want error
	}{
		{"negative count", udp, fabric.DomainConfig{Buffers: -1}, fabric.ErrBadConfig},
		{"negative size", udp, fabric.DomainConfig{BufferBytes: -1}, fabric.ErrBadConfig},
		{"too many", udp, fabric.DomainConfig{Buffers: maxBuffers + 1}, fabric.ErrBadConfig},
		{"too large", udp, fabric.DomainConfig{BufferBytes: maxBufferBytes + 1}, fabric.ErrBadConfig},
		{
			"too much", udp,
			fabric.DomainConfig{Buffers: maxBuffers, BufferBytes: maxBufferBytes},
			fabric.ErrBadConfig,
		},
		{"no MTU", limits{}, fabric.DomainConfig{}, fabric.ErrUnavailable},
		{
			"prefix only",
			limits{maxMsgBytes: 40, prefixBytes: 40, txPrefix: true},
			fabric.DomainConfig{},
			fabric.ErrUnavailable,
		},
		{
			"huge prefix",
			limits{maxMsgBytes: 1 << 40, prefixBytes: 1 << 33, rxPrefix: true},
			fabric.DomainConfig{},
			fabric.ErrUnavailable,
		},
	} {
		if _, err := newLayout(tt.l, tt.cfg); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, tt := range []struct {
		asked    int
		provider uint64
		want     int
	}{
		{0, 1024, 1024},
		{1, 1024, 1},
		{1024, 1024, 1024},
		{5000, 1024, 1024},
		{0, math.MaxUint64, maxDepth},
		{math.MaxInt, math.MaxUint64, maxDepth},
		{0, 0, 1},
		{9, 0, 1},
	} {
		got, err := depth("TxDepth", tt.asked, tt.provider)
		if err != nil || got != tt.want {
			t.Errorf("depth(%d, %d) = %d, %v; want %d", tt.asked, tt.provider, got, err, tt.want)
		}
	}
	if _, err := depth("TxDepth", -1, 1024); !errors.Is(err, fabric.ErrBadConfig) {
		t.Errorf("depth(-1) = %v, want ErrBadConfig", err)
	}
}
