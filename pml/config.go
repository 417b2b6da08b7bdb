package pml

import (
	"errors"
	"fmt"

	"gobtl/btl"
)

// Errors of the package; test for them with errors.Is.
var (
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("pml: invalid configuration")
	// ErrTruncated: the message is longer than the memory of its receive. The memory contains the
	// beginning of the message.
	ErrTruncated = errors.New("pml: message truncated")
	// ErrShort: the message is shorter than the memory of its receive, which asked for an exact
	// length (see Request.Exact). The message is at the beginning of the memory.
	ErrShort = errors.New("pml: message too short")
	// ErrCancelled: the receive was cancelled before it was matched.
	ErrCancelled = errors.New("pml: cancelled")
	// ErrPeer: the peer is gone, or its endpoint was closed. The error also wraps the reason, and for
	// a send ErrUndelivered or ErrUnknown.
	ErrPeer = errors.New("pml: peer is gone")
	// ErrUndelivered: the peer certainly has not received the message, and never will. At most it
	// knows that the message was announced, and an announced active message's header.
	ErrUndelivered = errors.New("pml: message not delivered")
	// ErrUnknown: bytes of the message have left, and it is not known whether the peer has received
	// all of them.
	ErrUnknown = errors.New("pml: unknown whether the message was delivered")
	// ErrEager: a message of the mode Eager is longer than Config allows messages that leave at once.
	ErrEager = errors.New("pml: message too long to leave at once")
	// ErrProtocol: the peer has violated the protocol of this layer, and the connection to it is
	// ended.
	ErrProtocol = errors.New("pml: protocol violated")
	// ErrTransfer: the sender could not write into the memory of the receive.
	ErrTransfer = errors.New("pml: transfer failed")
	// ErrBusy: the Request is in use.
	ErrBusy = errors.New("pml: request in use")
	// ErrNotInit: the Request was not prepared for Start.
	ErrNotInit = errors.New("pml: request not initialized")
	// ErrMessage: the message of a probe or a handler has already been received.
	ErrMessage = errors.New("pml: message received before")
	// ErrNoHandler: the peer has no handler for the id of an announced active message.
	ErrNoHandler = errors.New("pml: peer has no handler")
	// ErrHeader: the header of an active message is longer than HeaderMax.
	ErrHeader = errors.New("pml: header too long")
)

// Config tunes a Layer; the zero value is a good default. All peers of a job must have the same
// Config, over modules with the same btl.Config.FragmentBytesMax.
type Config struct {
	// Tag is the module's tag that the Layer uses, 0 to btl.TagMax.
	Tag btl.Tag
	// EagerBytes is the largest eager message, which is sent before its receive is matched, up to 1
	// MiB. 0 means 64 KiB; a negative value turns eager sends off. The largest fragment that the
	// module can send at once also bounds it.
	EagerBytes int
	// UnexpectedBytes bounds the unreceived data of one peer, up to 1 GiB. Each message counts 64
	// bytes more than its size. 0 means 1 MiB.
	UnexpectedBytes int
	// GoneBytes bounds the bytes of unreceived messages that are kept of peers that are gone, up to
	// 1<<40. Each peer counts 4096 bytes more, and each message 256. 0 means eight times
	// UnexpectedBytes. Above the bound, the peer address with the most bytes loses the messages of
	// its oldest connection.
	GoneBytes int64
	// EnvelopesMax bounds the number of unreceived messages of one peer, including announced ones.
	// It is a power of two, 4 to 1<<20. 0 means 4096.
	EnvelopesMax int
	// Random returns random numbers for the ids of requests on the wire. nil means consecutive ids,
	// which a peer can easily guess. With a guessed id a peer can only make its own transfers fail.
	Random func() uint64
}

// messageOverhead is the number of bytes that a message counts in addition to its size.
const messageOverhead = 64

const (
	goneFactor   = 8
	goneBytesMax = 1 << 40
	// goneBytes is the memory of a peer that is gone, without its messages. messageBytes is the
	// memory of a message, without its data.
	goneBytes    = 4096
	messageBytes = 256
)

// withDefaults fills in the zero fields.
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
	if c.EnvelopesMax == 0 {
		c.EnvelopesMax = 4096
	}
	if c.Random == nil {
		count := uint64(0)
		c.Random = func() uint64 { count++; return count }
	}
	return c
}

// Validate reports the first value out of range of a configuration without zero fields.
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
	case c.EnvelopesMax < 4 || c.EnvelopesMax > 1<<20 || c.EnvelopesMax&(c.EnvelopesMax-1) != 0:
		return fmt.Errorf("%w: EnvelopesMax is %d, want a power of two, 4 to 1<<20", ErrConfig,
			c.EnvelopesMax)
	}
	return nil
}

// mayLeave returns ErrEager for a message of the mode Eager that might never leave at once. A peer
// that keeps nothing may have reported a quarter less than it has taken: see Layer.took.
func (c *Config) mayLeave(bytes int, mode Mode) error {
	most := min(c.EagerBytes, c.UnexpectedBytes-c.UnexpectedBytes/4-messageOverhead)
	if mode == Eager && bytes > most {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrEager, bytes, most)
	}
	return nil
}
