package stream

import (
	"fmt"
	"time"
)

// Mode defines how a stream handles lost messages.
type Mode uint8

// The modes.
const (
	// Reliable means that all messages arrive. In the reliable mode, the sender writes messages
	// only to regions of the receiver's ring that the reader has released. In the reliable mode,
	// the sender waits if no region is free.
	Reliable Mode = iota
	// Unreliable means that the sender does not wait for a slow receiver. In the unreliable mode, lost
	// messages are counted. Over a network with a flow control for each receiver, such as shared
	// memory, the sender goes at the speed of its fastest receiver.
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

// Overrun defines what a sender or receiver does with a message for which no region is free.
type Overrun uint8

// The policies.
const (
	// Block means that the message waits until a region is free. In the unreliable mode, Block leaves
	// the message in the receiver's socket buffer, which may overflow. The kernel counts the packets
	// that a full socket buffer drops (Stats.SocketDrops). Several datagrams that the kernel has
	// coalesced into one packet count as one packet in Stats.SocketDrops. A message that waits for a
	// free region delays all streams of the port. If the port has more than one stream, a message
	// waits for a free region at most 50 ms. In the long run, the receivers of a port, one at a time,
	// delay its streams for at most a quarter of the time in total. A message that has waited for its
	// longest permitted time is dropped and counted, as with the policy Drop.
	Block Overrun = iota
	// Drop means that the message is dropped and counted.
	Drop
)

// Config has the settings of a sender or a receiver. Both sides must have rings with the same
// MessageBytes, and the same values of Messages, First and Mode. A receiver whose Messages is 0
// accepts any number of messages from the sender.
type Config struct {
	Mode Mode
	// Messages is the total number of messages. A Messages of 0 means that the stream lasts until
	// Sender.Finish.
	Messages uint64
	// First is the ordinal (number) of the first message. First+Messages must not exceed 2^63.
	First uint64
	// Overrun defines how a receiver of the unreliable mode handles a message for which no
	// region is free. Overrun defines whether Sender.Next waits for a free region.
	Overrun Overrun
	// Unmonitored makes the stream ignore the states of regions. An Unmonitored sender sends all
	// regions repeatedly, whether they are populated or not. An Unmonitored sender requires that
	// Messages is set. An Unmonitored receiver overwrites regions even if the reader has not read
	// them.
	Unmonitored bool
	// Timeout is how long a sender or receiver waits for a packet from the peer before the stream
	// fails. A reliable sender waits for a free region at the receiver for at most Timeout. For the
	// acknowledgement of a put, a reliable sender waits for at most 30 times Timeout plus one second
	// for each 8 KiB of the put. After the last put, a reliable sender waits for the acknowledgement
	// of all control messages for at most 30 times Timeout plus one second for each 8 KiB of other
	// puts to the receiver. The range of Timeout is 100 ms to 1 h, and a Timeout of 0 means 10 s.
	Timeout time.Duration
	// Meet is the time limit from the call of Send or Receive until the peers are connected. A Meet of
	// 0 means 1 minute.
	Meet time.Duration

	// If the field Only is true, only peers that the program has chosen can take part in the stream.
	// If Only is true, a sender accepts only the receivers that were passed to Connect, and a receiver
	// accepts only the first sender that connects. The field Only is meant for programs whose users
	// exchange the identities by hand. If the field Only is true, the stream ends when a peer has
	// incompatible parameters. If the field Only is false, a peer with incompatible parameters is
	// refused, and the stream waits for compatible peers until the time limit Meet is over.
	Only bool
	// Refused is called for each peer that this side refuses, and for each peer that refuses this
	// side. Refused runs on the engine's goroutine, and must not block or call the Port. Refused
	// may be nil.
	Refused func(Refusal)

	// Begin is called when the peers are ready, before the first message can arrive. Begin runs on
	// the engine's goroutine, and must not block or call the Port. Begin may be nil.
	Begin func()
	// Sample is called with the counters when the number of sent messages, as far as this side knows
	// it, reaches a multiple of the field Every. Sample is called at most once per Progress of the
	// engine. Sample runs on the engine's goroutine, and must not block or call the Port. If Every is
	// 0, Sample is not called. Sample may be nil.
	Every  uint64
	Sample func(Stats)

	// The fields below are for senders only.

	// Receivers is the number of receivers for which the sender waits before the stream starts. If the
	// field Only is true, the sender waits for all receivers that were passed to Connect. A Receivers
	// of 0 means 1. If Receivers is negative, the sender does not wait for receivers. In the
	// unreliable mode, a receiver that joins later gets the messages that are sent after it has
	// joined. A reliable stream in progress refuses new receivers.
	Receivers int
	// JoinersMax limits the number of receivers that have joined the stream after its start. Without a
	// multicast group (Group), each receiver costs the sender a separate copy of the stream. Receivers
	// on one host can use at most a quarter of JoinersMax, but one receiver per host is always
	// allowed. The sender refuses a receiver that would exceed JoinersMax, with ErrTaken as the
	// reason. A JoinersMax of 0 means 32. With a negative JoinersMax, no receiver may join after the
	// start of the stream. For a stream to a multicast group (Group), JoinersMax has no effect.
	JoinersMax int
	// BitsPerSecond limits the rate of payload bits for each receiver. Without a multicast group
	// (Group), the sender's total rate can be as high as BitsPerSecond times the number of receivers.
	// A BitsPerSecond of 0 means no limit.
	BitsPerSecond float64
	// Delay is the minimum time between the beginnings of two messages. If Delay is set, each message
	// is sent separately, and a sender that has fallen behind does not send faster to catch up. A
	// Delay of 0 means no delay.
	Delay time.Duration
	// DatagramBytes is the largest size of datagrams in the unreliable mode, including 24 bytes of
	// headers. If DatagramBytes is 0, the sender uses the largest size that is accepted by all
	// receivers that are ready at the start. The sender refuses a receiver whose largest datagram size
	// is below the smaller of 1200 bytes and DatagramBytes, because this receiver would slow down the
	// stream for all receivers. A receiver refuses a sender that splits messages into datagrams below
	// the smaller of 1200 bytes and the receiver's own largest size.
	DatagramBytes int
	// Group is a multicast address with port, for example "239.1.2.3:5000". If the field Group is set,
	// the sender sends each datagram once, and all receivers listen to the multicast address. A port
	// receives from at most eight groups, and from at most four groups for the senders of one host.
	// Group requires the unreliable mode and a provider that implements fabric.Grouper.
	Group string

	// The fields below are for receivers only, except Grace, which both sides use.

	// After the sender's end message, a receiver waits for late datagrams until none has arrived for
	// the time Grace. The whole wait for late datagrams is at most Grace plus Timeout, unless the
	// receiver's own reader delays the datagrams. A receiver's Grace of 0 means 200 ms. For a sender,
	// Grace is the largest Grace that a receiver is allowed to have, and a Grace of 0 means Timeout.
	Grace time.Duration
	// Gap is called for each range of consecutive messages that are missing in the received stream.
	// The arguments of Gap are the ordinals of the first and the last message of the range, and the
	// ranges come in ascending order. Arrival is called for each datagram that arrives. Gap and
	// Arrival run on the engine's goroutine, and must not block or call the Port. Gap and Arrival may
	// be nil.
	Gap     func(first, last uint64)
	Arrival func(Arrival)
}

// Arrival describes a received datagram of the unreliable mode, or several consecutive received
// messages of the reliable mode.
type Arrival struct {
	Key      uint64 // key of the stream
	Ordinal  uint64 // ordinal of the first message
	Messages uint64 // number of messages; 1 for a datagram
	Datagram uint32 // number of the datagram within the message
	Bytes    int    // payload size
	New      bool   // not a duplicate, stale or foreign datagram
}

const ordinalsMax = 1 << 63

// withDefaults replaces zero fields by the default values, and returns an error for values out of
// range.
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
	if c.JoinersMax == 0 {
		c.JoinersMax = 32
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
