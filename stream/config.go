package stream

import (
	"fmt"
	"time"
)

// Mode says what a stream does about loss.
type Mode uint8

// The modes.
const (
	// Reliable: nothing is missing. The sender puts messages into the receiver's ring, as far as the
	// reader has given regions back, and waits for it.
	Reliable Mode = iota
	// Unreliable: the sender waits for nobody; what is lost is counted.
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

// Overrun says what is done with a message for which no region is free.
type Overrun uint8

// The policies.
const (
	// Block: it waits. In the unreliable mode it waits at the receiver's socket, whose buffer then
	// overflows; what the kernel drops there it counts, a run of datagrams as one.
	Block Overrun = iota
	// Drop: it is dropped, and counted.
	Drop
)

// Config says how a stream is sent or received. Both sides must agree on MessageBytes (the rings'),
// Messages, First and Mode; only a receiver whose Messages is 0 takes the sender's.
type Config struct {
	Mode Mode
	// Messages is how many there are in all; 0: until Sender.Finish.
	Messages uint64
	// First is the ordinal of the first one, the same on both sides. First+Messages must not exceed
	// 2^63.
	First uint64
	// Overrun is what a receiver does with a message of the unreliable mode for which no region is
	// free, and what Sender.Next does when there is none.
	Overrun Overrun
	// Unmonitored leaves the states of regions alone: a sender sends the regions again and again,
	// populated or not; a receiver overwrites them whether or not they were read. Not together with
	// Messages 0 on a sender.
	Unmonitored bool
	// Timeout is how long a side goes on without a sign of life of its peer, and a reliable sender
	// without a free region at the receiver. 0 means 10 s; 100 ms to 1 h.
	Timeout time.Duration
	// Meet is how long the peers have to meet, from the call of Send or Receive on. 0 means 1 minute.
	Meet time.Duration

	// Only says that there is no other peer than those who are connected (of a sender), or the first
	// that says hello (of a receiver), as where a person carries the identities: when one of them does
	// not fit the stream ends at once, with the reason. Without it such a peer is refused alone, and
	// others are waited for until Meet.
	Only bool
	// Refused is told of each peer that does not fit, or does not want this side; on the engine's
	// goroutine, as Sample. nil is nobody.
	Refused func(Refusal)

	// Begin is called when the peers are ready, before the first message can come; on the engine's
	// goroutine, as Sample. nil is nobody.
	Begin func()
	// Sample is told the counters each time that Every more messages have been sent, as far as this
	// side knows; at most once a pass of the engine. It is called on the engine's goroutine, and must
	// neither block nor call the Port. Every 0 or a nil Sample is never.
	Every  uint64
	Sample func(Stats)

	// Of a sender alone:

	// Receivers is how many it waits for before it starts: the first that are ready, or with Only all
	// that are connected. 0 means 1; negative: none, also those who come later get what is sent from
	// then on (unreliable mode). Of a reliable stream that has begun others are refused.
	Receivers int
	// BitsPerSecond bounds the rate of the messages' bytes; 0: as fast as possible.
	BitsPerSecond float64
	// Delay is the least time between the beginnings of two messages, which are never sent together
	// then, nor faster after a hold-up; 0: none.
	Delay time.Duration
	// DatagramBytes bounds the datagrams of the unreliable mode, headers of 24 bytes included. 0: the
	// most that all take who are there at the start. A receiver that takes less than 1200, and less
	// than this, is refused: one slow path does not slow down all others.
	DatagramBytes int
	// Group is a multicast address with port, "239.1.2.3:5000": all receivers listen there instead of
	// getting datagrams each. Unreliable mode, where the provider is a fabric.Grouper.
	Group string

	// Of a receiver alone:

	// Grace is how long it waits, after the sender's end and the latest datagram that brought news,
	// for what may still be on its way; in all no longer than Grace and Timeout, as long as its own
	// reader holds nothing up. 0 means 200 ms. Of a sender: the longest Grace that a receiver may
	// have; 0 means Timeout.
	Grace time.Duration
	// Gap is told which ordinals, first to last, are not among the data, in rising order; Arrival of
	// each datagram that arrives. Both are called on the engine's goroutine, and must neither block
	// nor call the Port; nil is nobody.
	Gap     func(first, last uint64)
	Arrival func(Arrival)
}

// Arrival is a datagram of the unreliable mode, or a run of messages of the reliable one, as it
// arrives.
type Arrival struct {
	Key      uint64 // of the stream
	Ordinal  uint64 // of the message
	Messages uint64 // of the run; 1 for a datagram
	Datagram uint32 // its number within the message
	Bytes    int    // payload
	New      bool   // and not a duplicate, say
}

const ordinalsMax = 1 << 63

// withDefaults fills in what is zero and says what is out of range.
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
