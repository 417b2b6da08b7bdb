package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// The errors of package pml can be tested with errors.Is.
var (
	// ErrConfig means that a field of Config is out of its range.
	ErrConfig = errors.New("pml: invalid configuration")
	// ErrTruncated means that a message is longer than the receive buffer. After ErrTruncated, the
	// receive buffer contains the beginning of the message.
	ErrTruncated = errors.New("pml: message truncated")
	// ErrShort means that a message is shorter than the buffer of an exact receive (Request.Exact).
	// After ErrShort, the message is at the beginning of the receive buffer.
	ErrShort = errors.New("pml: message too short")
	// ErrCancelled means that a receive was cancelled before a message matched the receive.
	ErrCancelled = errors.New("pml: cancelled")
	// ErrPeer means that one of the two sides has ended the connection to the peer (the peer is
	// "gone"). An ErrPeer wraps the reason why the connection has ended. If a send ends with ErrPeer,
	// its error wraps either ErrUndelivered or ErrUnknown in addition to ErrPeer.
	ErrPeer = errors.New("pml: peer is gone")
	// ErrUndelivered means that the peer has not received the data of the message, and will not
	// receive it. Despite ErrUndelivered, the peer might have received the announcement of the
	// message, including the header of an active message.
	ErrUndelivered = errors.New("pml: message not delivered")
	// ErrUnknown means that data of the message was sent, but that it is not known whether the peer
	// has received all of the data.
	ErrUnknown = errors.New("pml: unknown whether the message was delivered")
	// ErrEager means that a message in mode Eager exceeds the size limit for eager messages
	// (Config.EagerBytes, Config.UnexpectedBytes).
	ErrEager = errors.New("pml: message too long to leave at once")
	// ErrProtocol means that the peer has violated the protocol of package pml. After
	// ErrProtocol, the connection to the peer is closed.
	ErrProtocol = errors.New("pml: protocol violated")
	// ErrTransfer means that the sender could not transfer the data into the receive buffer.
	ErrTransfer = errors.New("pml: transfer failed")
	// ErrBusy means that the Request is in use.
	ErrBusy = errors.New("pml: request in use")
	// ErrNotInit means that Start was called for a Request without SendInit or RecvInit.
	ErrNotInit = errors.New("pml: request not initialized")
	// ErrMessage means that the Message was already received or dropped.
	ErrMessage = errors.New("pml: message received before")
	// ErrNoHandler means that the peer has no handler for the id of an announced active message.
	ErrNoHandler = errors.New("pml: peer has no handler")
	// ErrHeader means that the header of an active message is longer than HeaderMax.
	ErrHeader = errors.New("pml: header too long")
)

// Config has the settings of a Layer. The zero value selects the defaults. All peers of a job must
// have the same values of all fields of Config that are not functions, and the same
// btl.Config.FragmentBytesMax.
type Config struct {
	// Tag is the btl tag that the Layer uses, from 0 to btl.TagMax.
	Tag btl.Tag
	// EagerBytes is the maximum size of an eager message, whose data is sent before a receive has
	// matched the message. EagerBytes is at most 1 MiB, and 0 means 64 KiB. A negative value of
	// EagerBytes disables eager messages. An eager message must fit into the largest fragment of the
	// module.
	EagerBytes int
	// UnexpectedBytes is the maximum total size of the unexpected messages from one peer, at most 1
	// GiB. The caller's header of each active message, and the data plus 64 bytes of each eager
	// message, count towards UnexpectedBytes. An UnexpectedBytes of 0 means 1 MiB.
	UnexpectedBytes int
	// GoneBytes is the maximum memory for unexpected messages from peers whose connections have ended,
	// at most 1<<40 bytes. Each ended connection with unexpected messages counts towards GoneBytes as
	// 4096 bytes, and each unexpected message as 256 bytes plus its data. A GoneBytes of 0 means eight
	// times UnexpectedBytes. If GoneBytes is exceeded, the Layer finds the peer address whose messages
	// use the most bytes, and drops the messages of the oldest connection of this address.
	GoneBytes int64
	// TotalBytes is the maximum memory for all connected peers together, from eight times
	// UnexpectedBytes to 1<<40 bytes. Unsent control messages and unexpected messages count towards
	// TotalBytes, and each unexpected message counts as 256 bytes plus its data. A TotalBytes of 0
	// means 1024 times UnexpectedBytes. When TotalBytes is exceeded, the Layer finds the host whose
	// peers use the most memory, and ends the connection to the peer of this host that uses the most
	// memory. Messages of connections that have just ended, which the next calls of Progress count
	// towards GoneBytes, can use TotalBytes more.
	TotalBytes int64
	// EnvelopesMax limits the number of unexpected messages from one peer, including announced
	// messages. EnvelopesMax is a power of two, from 4 to 1<<20. An EnvelopesMax of 0 means 4096.
	EnvelopesMax int
	// Random returns random numbers for the request ids in the protocol. If Random is nil, the request
	// ids are consecutive, so that a peer can easily guess an id. A peer that guesses a request id can
	// only make its own transfers fail.
	Random func() uint64
	// Number returns the Peer.Number of a new Peer. The Layer calls Number when it makes the Peer for
	// an endpoint, before the first message of the peer is matched. If the peer has opened the
	// connection, Number can read the peer's label (ep.PeerLabel). If Number is nil, new Peers have
	// the number 0. Number must not call methods of the Layer.
	Number func(ep *btl.Endpoint) uint32
}

// messageOverhead is the number of bytes that is added to the size of each message that counts
// towards Config.UnexpectedBytes.
const messageOverhead = 64

const (
	goneFactor    = 8
	goneBytesMax  = 1 << 40
	totalFactor   = 1024
	totalLeast    = 8
	totalBytesMax = 1 << 40
	// For each ended connection with unexpected messages, the Layer adds goneBytes to the memory of
	// the messages when it computes the sum that Config.GoneBytes limits. For each unexpected message,
	// the Layer counts messageBytes plus the size of the data towards all limits on memory.
	goneBytes    = 4096
	messageBytes = 256
)

func (c Config) withDefaults() Config {
	if c.EagerBytes == 0 {
		c.EagerBytes = 64 << 10
	}
	if c.UnexpectedBytes == 0 {
		c.UnexpectedBytes = 1 << 20
	}
	if c.GoneBytes == 0 {
		c.GoneBytes = goneFactor * int64(c.UnexpectedBytes)
	}
	if c.TotalBytes == 0 {
		c.TotalBytes = min(totalFactor*int64(c.UnexpectedBytes), totalBytesMax)
	}
	if c.EnvelopesMax == 0 {
		c.EnvelopesMax = 4096
	}
	if c.Random == nil {
		count := uint64(0)
		c.Random = func() uint64 { count++; return count }
	}
	return c
}

// Validate returns an error that wraps ErrConfig if a field is out of its range, and nil otherwise.
// Before Validate is called, all zero fields must have been replaced by their defaults.
func (c Config) Validate() error {
	switch {
	case c.Tag > btl.TagMax:
		return fmt.Errorf("%w: Tag is %d, at most %d", ErrConfig, c.Tag, btl.TagMax)
	case c.EagerBytes > 1<<20:
		return fmt.Errorf("%w: EagerBytes is %d, at most 1 MiB", ErrConfig, c.EagerBytes)
	case c.UnexpectedBytes < messageOverhead || c.UnexpectedBytes > 1<<30:
		return fmt.Errorf("%w: UnexpectedBytes is %d, want %d to 1 GiB", ErrConfig, c.UnexpectedBytes,
			messageOverhead)
	case c.GoneBytes < 0 || c.GoneBytes > goneBytesMax:
		return fmt.Errorf("%w: GoneBytes is %d, want 0 to 1<<40", ErrConfig, c.GoneBytes)
	case c.TotalBytes < totalLeast*int64(c.UnexpectedBytes) || c.TotalBytes > totalBytesMax:
		return fmt.Errorf("%w: TotalBytes is %d, want %d to 1<<40", ErrConfig, c.TotalBytes,
			totalLeast*int64(c.UnexpectedBytes))
	case c.EnvelopesMax < 4 || c.EnvelopesMax > 1<<20 || c.EnvelopesMax&(c.EnvelopesMax-1) != 0:
		return fmt.Errorf("%w: EnvelopesMax is %d, want a power of two, 4 to 1<<20", ErrConfig,
			c.EnvelopesMax)
	}
	return nil
}

// mayLeave returns ErrEager if a message in mode Eager is too long to be sent eagerly, and nil
// otherwise. A message in mode Eager has at most three quarters of UnexpectedBytes, because the
// peer might have received up to a quarter of UnexpectedBytes without having reported it (see
// Layer.took).
func (c *Config) mayLeave(bytes int, mode Mode) error {
	most := min(c.EagerBytes, c.UnexpectedBytes-c.UnexpectedBytes/4-messageOverhead)
	if mode == Eager && bytes > most {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrEager, bytes, most)
	}
	return nil
}
