package stream

import (
	"fmt"
	"time"
)

// Mode defines how a stream handles loss.
type Mode uint8

// The modes.
const (
	// Reliable: no message is missing. The sender puts messages into those regions of the
	// receiver's ring that the reader has released, and waits for free regions.
	Reliable Mode = iota
	// Unreliable: the sender never waits for receivers. Lost messages are counted.
	Unreliable
)

func (m Mode) String() string {
	if m == Unreliable {
		return "unreliable"
	}
	return "reliable"
}

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	switch string(text) {
	case "reliable":
		*m = Reliable
	case "unreliable":
		*m = Unreliable
	default:
		return fmt.Errorf("%w: mode %q: reliable or unreliable", ErrConfig, text)
	}
	return nil
}

// Overrun defines the handling of a message for which no region is free.
type Overrun uint8

// The policies.
const (
	// Block: the message waits. In the unreliable mode it waits in the socket of the receiver,
	// whose buffer may then overflow. The kernel counts the packets that it drops there, with a run
	// of datagrams as one packet.
	Block Overrun = iota
	// Drop: the message is dropped, and counted.
	Drop
)

// Config configures a sender or a receiver of a stream. Both sides must agree on MessageBytes (of
// the rings), Messages, First and Mode. A receiver whose Messages is 0 accepts the sender's value.
type Config struct {
	Mode Mode
	// Messages is the total number of messages. 0 means that the stream lasts until Sender.Finish.
	Messages uint64
	// First is the ordinal of the first message, the same on both sides. First+Messages must not
	// exceed 2^63.
	First uint64
	// Overrun is how a receiver of the unreliable mode handles a message for which no region is
	// free, and how Sender.Next behaves without a free region.
	Overrun Overrun
	// Unmonitored turns the states of regions off. A sender sends the regions over and over,
	// populated or not. A receiver overwrites regions even if they were not read. A sender must not
	// combine it with Messages 0.
	Unmonitored bool
	// Timeout is how long a side continues without a packet of its peer, and how long a reliable
	// sender waits for a free region at the receiver. 0 means 10 s; 100 ms to 1 h.
	Timeout time.Duration
	// Meet bounds the time until the peers are connected, from the call of Send or Receive on. 0
	// means 1 minute.
	Meet time.Duration

	// Only restricts the peers: a sender has only the receivers of Connect, and a receiver only the
	// first sender that says hello. This suits identities that are exchanged by hand. If one of
	// these peers has incompatible parameters, the stream ends at once, with the reason. Without
	// Only just that peer is refused, and the side waits for other peers until Meet.
	Only bool
	// Refused is called for each peer that is refused because it does not fit, or that refuses this
	// side. It is called on the engine's goroutine, as Sample. It may be nil.
	Refused func(Refusal)

	// Begin is called when the peers are ready, before the first message can arrive. It is called
	// on the engine's goroutine, as Sample. It may be nil.
	Begin func()
	// Sample is called with the counters after every Every messages that have been sent, as far as
	// this side knows, but at most once per pass of the engine. It is called on the engine's
	// goroutine, and must neither block nor call the Port. With Every 0 or a nil Sample there are
	// no calls.
	Every  uint64
	Sample func(Stats)

	// Of a sender alone:

	// Receivers is the number of receivers for which the sender waits before it starts: the first
	// ones that are ready, or with Only all receivers of Connect. 0 means 1. A negative value means
	// that the sender does not wait. In the unreliable mode a receiver that joins later gets the
	// messages sent after it has joined. A reliable stream that has begun refuses further
	// receivers.
	Receivers int
	// BitsPerSecond bounds the rate of the messages' bytes; 0: as fast as possible.
	BitsPerSecond float64
	// Delay is the least time between the beginnings of two messages. With a Delay messages are
	// never sent together, and are not sent faster after a stall. 0 means no delay.
	Delay time.Duration
	// DatagramBytes bounds the datagrams of the unreliable mode, headers of 24 bytes included. 0
	// means the largest size that all receivers at the start accept. A receiver that accepts less
	// than 1200 bytes, and less than DatagramBytes, is refused, so that one small path does not
	// slow down all others.
	DatagramBytes int
	// Group is a multicast address with port, "239.1.2.3:5000": all receivers listen there instead of
	// getting datagrams each. Unreliable mode, where the provider is a fabric.Grouper.
	Group string

	// Of a receiver alone:

	// Grace is how long a receiver waits for datagrams on their way, after the sender's end and the
	// latest datagram with new data. The whole wait is at most Grace plus Timeout, unless the
	// receiver's own reader delays it. 0 means 200 ms. For a sender it is the longest Grace that a
	// receiver may have, and 0 means Timeout.
	Grace time.Duration
	// Gap is called with each range of missing ordinals, first to last, in rising order. Arrival is
	// called for each datagram that arrives. Both are called on the engine's goroutine, and must
	// neither block nor call the Port. Both may be nil.
	Gap     func(first, last uint64)
	Arrival func(Arrival)
}

// Arrival describes an arriving datagram of the unreliable mode, or run of messages of the reliable
// mode.
type Arrival struct {
	Key      uint64 // of the stream
	Ordinal  uint64 // of the message
	Messages uint64 // of the run; 1 for a datagram
	Datagram uint32 // its number within the message
	Bytes    int    // payload
	New      bool   // and not a duplicate, say
}

const ordinalsMax = 1 << 63

// withDefaults fills in zero fields, and returns an error for values out of range.
func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name     string
		value    *time.Duration
		def, min time.Duration
	}{
		{"Timeout", &c.Timeout, 10 * time.Second, 100 * time.Millisecond},
		{"Meet", &c.Meet, time.Minute, time.Millisecond},
		{"Grace", &c.Grace, 200 * time.Millisecond, time.Millisecond},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < f.min || *f.value > time.Hour {
			return c, fmt.Errorf("%w: %s is %v, want %v to 1h", ErrConfig, f.name, *f.value, f.min)
		}
	}
	if c.Receivers == 0 {
		c.Receivers = 1
	}
	if c.Sample == nil {
		c.Every = 0
	}
	c.Receivers = max(c.Receivers, 0)
	switch {
	case c.Mode > Unreliable:
		return c, fmt.Errorf("%w: Mode is %d", ErrConfig, c.Mode)
	case c.First > ordinalsMax || c.Messages > ordinalsMax-c.First:
		return c, fmt.Errorf("%w: ordinals beyond 2^63", ErrConfig)
	case c.BitsPerSecond != 0 && !(c.BitsPerSecond >= 1e3 && c.BitsPerSecond <= 1e13):
		return c, fmt.Errorf("%w: BitsPerSecond is %v, want 1e3 to 1e13", ErrConfig, c.BitsPerSecond)
	case c.Delay < 0 || c.Delay > time.Hour:
		return c, fmt.Errorf("%w: Delay is %v, want 0 to 1h", ErrConfig, c.Delay)
	case c.Group != "" && c.Mode != Unreliable:
		return c, fmt.Errorf("%w: Group is for the unreliable mode", ErrConfig)
	case c.Receivers == 0 && c.Mode != Unreliable:
		return c, fmt.Errorf("%w: a reliable stream needs a receiver to start", ErrConfig)
	case c.DatagramBytes != 0 && c.DatagramBytes <= headerBytes:
		return c, fmt.Errorf("%w: DatagramBytes is %d, want more than %d", ErrConfig, c.DatagramBytes,
			headerBytes)
	}
	return c, nil
}
