package plan

import (
	"errors"
	"fmt"
)

// Spec has the parameters of a round for both sides. A round is one run of one test, size and
// layer.
type Spec struct {
	// Number identifies a round of a session.
	Number    uint64 `json:"number"`
	Test      string `json:"test"`
	Layer     string `json:"layer"`
	SizeBytes int    `json:"size_bytes"`
	Window    int    `json:"window"`
	Verify    bool   `json:"verify"`
	// The following fields are the lengths of the warm-up and of the measurement on the client, in
	// messages or as a time.
	WarmupMessages int64 `json:"warmup_messages"`
	WarmupNs       int64 `json:"warmup_ns"`
	Messages       int64 `json:"messages"`
	DurationNs     int64 `json:"duration_ns"`
	// Handle is the sender's exposed region, for the peer's puts.
	Handle uint64 `json:"handle,omitempty"`
	// PeerTimeoutNs is the time after which a round without arrivals ends.
	PeerTimeoutNs int64 `json:"peer_timeout_ns"`
	// GapNs is the pause between two messages of a ping-pong.
	GapNs int64 `json:"gap_ns,omitempty"`
	// Places is the number of messages that are written one after the other, if it is not Window.
	Places int `json:"places,omitempty"`
	// BytesPerNs limits the rate of each side in tests of a stream, and 0 means no limit.
	BytesPerNs float64 `json:"bytes_per_ns,omitempty"`
	// Load is the stream beside the ping-pong of lat_load, in Window messages of LoadBytes.
	Load      Load `json:"load,omitempty"`
	LoadBytes int  `json:"load_bytes,omitempty"`
}

// String returns a name of the round as text.
func (s *Spec) String() string {
	return fmt.Sprintf("%s %s (%s)", s.Test, SizeText(s.SizeBytes), s.Layer)
}

// Place is the position, in messages, that is written from a slot.
func (s *Spec) Place(slot uint32) uint32 {
	if s.Places == 0 {
		return slot
	}
	return slot % uint32(s.Places)
}

// windowBytes is the size of the messages that the window counts.
func (s *Spec) windowBytes() int {
	if s.Test == TestLatLoad {
		return s.LoadBytes
	}
	return s.SizeBytes
}

const (
	// inFlightBytesMax limits the memory of a window, which is smaller for large messages, but at
	// least two messages within roundBytesMax.
	inFlightBytesMax = 64 << 20
	// roundBytesMax limits the memory of a window of several messages.
	roundBytesMax = 1 << 30
)

// WindowFor is the window that is used for a size if the given window is requested.
func WindowFor(window, sizeBytes int) int {
	if sizeBytes == 0 {
		return window
	}
	least := max(1, min(2, roundBytesMax/sizeBytes))
	return min(window, max(least, inFlightBytesMax/sizeBytes))
}

// Validate returns an error for a spec that this side cannot run. The spec may come from the
// network.
func (s *Spec) Validate() error {
	var tests TestList
	switch {
	case tests.UnmarshalText([]byte(s.Test)) != nil || len(tests) != 1:
		return fmt.Errorf("unknown test %q", s.Test)
	case s.Layer != LayerRaw && s.Layer != LayerBTL && s.Layer != LayerRunner:
		return fmt.Errorf("unknown layer %q", s.Layer)
	case s.SizeBytes < 0 || s.SizeBytes > SizeBytesMax:
		return fmt.Errorf("size %d out of range", s.SizeBytes)
	case s.Load < 0 || s.Load > LoadMax || s.LoadBytes < 0 || s.LoadBytes > int(loadSizeMax):
		return fmt.Errorf("load %d of %d bytes out of range", s.Load, s.LoadBytes)
	case s.Window < 1 || s.Window > WindowFor(windowMax, s.windowBytes()):
		return fmt.Errorf("window %d out of range for messages of %d bytes (1 to %d)", s.Window,
			s.windowBytes(), WindowFor(windowMax, s.windowBytes()))
	case s.GapNs < 0 || s.GapNs > int64(gapMax):
		return errors.New("gap out of range")
	case s.Places < 0 || s.Places > s.Window || s.Places > 0 && s.Verify:
		return fmt.Errorf("%d places for a window of %d", s.Places, s.Window)
	case !(s.BytesPerNs >= 0) || s.BytesPerNs > bitRateMax.BytesPerNs():
		return errors.New("rate out of range")
	case s.PeerTimeoutNs <= 0:
		return errors.New("peer timeout out of range")
	}
	return nil
}
