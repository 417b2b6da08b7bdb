package plan

import (
	"math"
	"testing"
	"time"
)

func TestRoundSpecValidate(t *testing.T) {
	good := Spec{Test: TestBW, Layer: LayerBTL, SizeBytes: 8, Window: 64, PeerTimeoutNs: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Spec){
		"test":         func(s *Spec) { s.Test = "x" },
		"tests":        func(s *Spec) { s.Test = "lat,bw" },
		"all":          func(s *Spec) { s.Test = "all" },
		"layer":        func(s *Spec) { s.Layer = LayerBoth },
		"size":         func(s *Spec) { s.SizeBytes = -1 },
		"large size":   func(s *Spec) { s.SizeBytes = SizeBytesMax; s.SizeBytes++ },
		"window":       func(s *Spec) { s.Window = 0 },
		"large window": func(s *Spec) { s.Window = windowMax + 1 },
		"memory":       func(s *Spec) { s.SizeBytes, s.Window = 1<<30, 64 },
		"large memory": func(s *Spec) { s.SizeBytes, s.Window = SizeBytesMax, 2 },
		"timeout":      func(s *Spec) { s.PeerTimeoutNs = 0 },
		"places":       func(s *Spec) { s.Places = -1 },
		"many places":  func(s *Spec) { s.Places = 65 },
		"rate":         func(s *Spec) { s.BytesPerNs = -1 },
		"no rate":      func(s *Spec) { s.BytesPerNs = math.NaN() },
		"read places":  func(s *Spec) { s.Places, s.Verify = 4, true },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for sizeBytes, window := range map[int]int{
		32 << 20: 2, 512 << 20: 2, 512<<20 + 1: 1, SizeBytesMax: 1,
	} {
		if got := WindowFor(64, sizeBytes); got != window {
			t.Errorf("a window of %d for %d bytes, want %d", got, sizeBytes, window)
		}
	}
}

func TestLoadSpecValidate(t *testing.T) {
	good := Spec{
		Test: TestLatLoad, Layer: LayerBTL, SizeBytes: 8, Window: 64, Load: LoadMax, LoadBytes: 1 << 20,
		PeerTimeoutNs: int64(time.Second),
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Spec){
		"test":          func(s *Spec) { s.Test = "all" },
		"layer":         func(s *Spec) { s.Layer = "x" },
		"size":          func(s *Spec) { s.SizeBytes = -1 },
		"window":        func(s *Spec) { s.Window = 65 },
		"no window":     func(s *Spec) { s.Window = 0 },
		"load":          func(s *Spec) { s.Load = LoadMax + 1 },
		"negative load": func(s *Spec) { s.Load = -1 },
		"load size":     func(s *Spec) { s.LoadBytes = 33 << 20 },
		"load no size":  func(s *Spec) { s.LoadBytes = -1 },
		"timeout":       func(s *Spec) { s.PeerTimeoutNs = 0 },
	} {
		s := good
		change(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What comes from the slots of a window goes to as many places, or to the first few in turn.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		places     int
		slot, want uint32
	}{{0, 63, 63}, {1, 63, 0}, {4, 3, 3}, {4, 63, 3}, {4, 60, 0}, {64, 63, 63}} {
		s := Spec{Window: 64, Places: c.places}
		if got := s.Place(c.slot); got != c.want {
			t.Errorf("slot %d of 64, %d places: %d, want %d", c.slot, c.places, got, c.want)
		}
	}
}

func TestBitRate(t *testing.T) {
	for text, want := range map[string]BitRate{
		"1000": 1000, "1K": 1e3, "500M": 5e8, "2.5g": 2.5e9, "10T": 1e13,
	} {
		var r BitRate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "G", "1KB", "-1G", "999", "11T", "NaN", "1e400", "1 G", "InfG"} {
		var r BitRate
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
	if BitRate(1e9).BytesPerNs() != 0.125 {
		t.Error("1 Gbit/s is 125 MB/s")
	}
}
