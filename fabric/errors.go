package fabric

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors of the vocabulary; providers wrap them, callers test with errors.Is.
var (
	// ErrAgain: a queue is full now. Poll and try again.
	ErrAgain = errors.New("fabric: queue full, try again")
	// ErrClosed: the Domain or Endpoint was closed.
	ErrClosed = errors.New("fabric: closed")
	// ErrNotSupported: the provider cannot do this at all.
	ErrNotSupported = errors.New("fabric: not supported by this provider")
	// ErrNoProvider: no registered provider matches the hints.
	ErrNoProvider = errors.New("fabric: no such provider")
	// ErrUnavailable: the provider is known but cannot run here (library left out of the build, no
	// device); the wrapping error says what is missing.
	ErrUnavailable = errors.New("fabric: provider not available here")
	// ErrBadName: bytes that are no endpoint name of this provider.
	ErrBadName = errors.New("fabric: malformed endpoint name")
	// ErrBadConfig: a size or depth out of range.
	ErrBadConfig = errors.New("fabric: invalid configuration")
)

// Error is the failure of one provider operation.
type Error struct {
	Provider string // "ofi/udp"
	Op       string // the failing call, "fi_endpoint"
	Errno    int    // positive errno, or a provider-specific number above 255
	Text     string // the provider's own words for it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s (errno %d)", e.Provider, e.Op, e.Text, e.Errno)
}

// Is makes errors.Is(err, syscall.EADDRINUSE) and the like work.
func (e *Error) Is(target error) bool {
	errno, ok := target.(syscall.Errno)
	return ok && e.Errno > 0 && e.Errno < 256 && int(errno) == e.Errno
}
