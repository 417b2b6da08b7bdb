package stream

import "errors"

// Errors of the package; test for them with errors.Is.
var (
	// ErrConfig: a value of a Config is out of its range; the error says which.
	ErrConfig = errors.New("stream: invalid configuration")
	// ErrMismatch: the two sides were started with parameters that do not fit each other.
	ErrMismatch = errors.New("stream: parameters do not fit")
	// ErrIdentity: bytes or text that are no identity, or one of the wrong role.
	ErrIdentity = errors.New("stream: malformed identity")
	// ErrExchange: identities could not be exchanged: a file, the peer's address, the text of a
	// person.
	ErrExchange = errors.New("stream: identities not exchanged")
	// ErrTimeout: the peer was not met, or did not go on, in the configured time.
	ErrTimeout = errors.New("stream: time is over")
	// ErrStalled: a reader has given no region back for Config.Timeout, while the sender may not drop.
	ErrStalled = errors.New("stream: the receiver's reader stands still")
	// ErrPeerLost: the peer does not answer any more, or was restarted.
	ErrPeerLost = errors.New("stream: peer lost")
	// ErrPeerFailed: the peer has told that it ends with an error, which the text repeats.
	ErrPeerFailed = errors.New("stream: peer failed")
	// ErrClosed: the port, the sender or the receiver was closed on this side.
	ErrClosed = errors.New("stream: closed")
	// ErrFile: a data file or a ring does not fit, or cannot be read or written.
	ErrFile = errors.New("stream: file")
	// ErrTaken: the place is another peer's, for now. Try again.
	ErrTaken = errors.New("stream: taken")
	// ErrOverrun: there is no free region now, and the caller does not want to wait.
	ErrOverrun = errors.New("stream: no region is free")
)
