package stream

import (
	"errors"
	"strings"

	"gobtl/internal/plain"
)

// The errors of package stream can be tested with errors.Is.
var (
	// ErrConfig means that a value of a Config is out of its range. The text of an ErrConfig
	// names the value.
	ErrConfig = errors.New("stream: invalid configuration")
	// ErrMismatch means that the parameters of the two sides are incompatible.
	ErrMismatch = errors.New("stream: parameters do not fit")
	// ErrIdentity means that a text does not encode an identity, or that an identity has the wrong
	// role.
	ErrIdentity = errors.New("stream: malformed identity")
	// ErrExchange means that the exchange of identities failed, because of a file, the peer's address,
	// or an invalid text.
	ErrExchange = errors.New("stream: identities not exchanged")
	// ErrTimeout means that the peer did not connect or made no progress within the configured
	// time.
	ErrTimeout = errors.New("stream: time is over")
	// ErrStalled means that the stream must not drop messages, but the receiver's reader has released
	// no region for Config.Timeout.
	ErrStalled = errors.New("stream: the receiver's reader stands still")
	// ErrPeerLost means that the peer does not respond any more, or was restarted.
	ErrPeerLost = errors.New("stream: peer lost")
	// ErrPeerFailed means that the peer has ended with an error. The text of an ErrPeerFailed
	// contains the error of the peer.
	ErrPeerFailed = errors.New("stream: peer failed")
	// ErrClosed means that this side has closed the port, the sender or the receiver.
	ErrClosed = errors.New("stream: closed")
	// ErrFile means that a data file or a ring file has the wrong size or format, or cannot be read
	// or written.
	ErrFile = errors.New("stream: file")
	// ErrTaken means that another peer is using the sender or receiver at present. After
	// ErrTaken, the caller may try to connect again later.
	ErrTaken = errors.New("stream: taken")
	// ErrOverrun means that no region is free, and that the configuration forbids waiting.
	ErrOverrun = errors.New("stream: no region is free")
)

const prefix = "stream: " // of the text of each error

// inner returns err without the prefix of package stream, for use in an error whose text already
// has the prefix.
func inner(err error) error { return plain.Inner(prefix, err) }

// reasonOf returns the text of a peer's error without the prefix of package stream.
func reasonOf(text string) string { return strings.TrimPrefix(plain.Line(text), prefix) }
