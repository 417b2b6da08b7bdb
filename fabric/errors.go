package fabric

import (
	"errors"
	"fmt"
	"syscall"
)

// Providers return errors that wrap the following errors, so that callers can test for these errors
// with errors.Is.
var (
	// ErrAgain means that the call failed because a queue was full. After ErrAgain, the caller should
	// call Poll, and then repeat the failed call.
	ErrAgain = errors.New("fabric: queue full, try again")
	// ErrClosed means that the Domain or Endpoint was closed.
	ErrClosed = errors.New("fabric: closed")
	// ErrNotSupported means that the provider does not implement the operation.
	ErrNotSupported = errors.New("fabric: not supported by this provider")
	// ErrNoProvider means that no registered provider matches the hints.
	ErrNoProvider = errors.New("fabric: no such provider")
	// ErrUnavailable means that the provider exists but cannot run on this machine, for example
	// because a library or a device is missing. The text of an error that wraps ErrUnavailable says
	// what is missing.
	ErrUnavailable = errors.New("fabric: provider not available here")
	// ErrBadName means that an argument is not a valid endpoint name of this provider.
	ErrBadName = errors.New("fabric: malformed endpoint name")
	// ErrBadConfig means that a buffer size or a queue depth in the configuration is out of its range.
	ErrBadConfig = errors.New("fabric: invalid configuration")
)

// Error describes the failure of one call of a provider, such as fi_endpoint.
type Error struct {
	Provider string // such as "ofi/udp"
	Op       string // the failing call, such as "fi_endpoint"
	Errno    int    // positive errno, or a provider-specific number above 255
	Text     string // the provider's own text for the error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s (errno %d)", e.Provider, e.Op, e.Text, e.Errno)
}

// Is lets errors.Is compare an Error with a system error number such as syscall.EADDRINUSE.
func (e *Error) Is(target error) bool {
	errno, ok := target.(syscall.Errno)
	return ok && e.Errno > 0 && e.Errno < 256 && int(errno) == e.Errno
}
