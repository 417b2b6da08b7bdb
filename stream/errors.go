package stream

import "errors"

// Errors of the package; test for them with errors.Is.
var (
	// ErrConfig: a value of a Config is out of its range; the error says which.
	ErrConfig = errors.New("stream: invalid configuration")
	// ErrMismatch: the two sides were started with parameters that do not fit each other.
	ErrMismatch = errors.New("stream: parameters do not fit")
	// ErrIdentity: bytes or text are not an identity, or an identity of the wrong role.
	ErrIdentity = errors.New("stream: malformed identity")
	// ErrExchange: identities could not be exchanged: a file, the peer's address, the text of a
	// person.
	ErrExchange = errors.New("stream: identities not exchanged")
	// ErrTimeout: the peer did not connect, or made no progress, within the configured time.
	ErrTimeout = errors.New("stream: time is over")
	// ErrStalled: a reader has released no region for Config.Timeout, while the sender may not drop
	// messages.
	ErrStalled = errors.New("stream: the receiver's reader stands still")
	// ErrPeerLost: the peer does not answer any more, or was restarted.
	ErrPeerLost = errors.New("stream: peer lost")
	// ErrPeerFailed: the peer has reported that it ends with an error. The text repeats that error.
	ErrPeerFailed = errors.New("stream: peer failed")
	// ErrClosed: the port, the sender or the receiver was closed on this side.
	ErrClosed = errors.New("stream: closed")
	// ErrFile: a data file or a ring does not fit, or cannot be read or written.
	ErrFile = errors.New("stream: file")
	// ErrTaken: another peer has the place at present. Try again later.
	ErrTaken = errors.New("stream: taken")
	// ErrOverrun: there is no free region now, and the caller does not want to wait.
	ErrOverrun = errors.New("stream: no region is free")
)
