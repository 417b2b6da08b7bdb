package runner

import "errors"

// Errors of the package; test for them with errors.Is. Errors of the module are defined in
// package btl.
var (
	// ErrInHandler means that a callback has called a method that waits, and would wait for
	// itself.
	ErrInHandler = errors.New("runner: a callback must not wait")
	// ErrNotStarted means that a layer, such as call.Node, was used before its Runner was
	// started.
	ErrNotStarted = errors.New("runner: not started")
	// ErrInUse means that the context has ended, and the transport may still read or write the
	// caller's memory. The error is an InUse, whose Free method tells when the memory is free.
	ErrInUse = errors.New("runner: memory may still be in use")
)

// InUse is the error of a call whose context has ended while the transport may still use the
// call's memory. InUse wraps ErrInUse and the context's error.
type InUse struct {
	err  error
	free chan struct{}
}

// Error implements error.
func (e *InUse) Error() string { return ErrInUse.Error() + ": " + e.err.Error() }

// Unwrap returns ErrInUse and the context's error.
func (e *InUse) Unwrap() []error { return []error{ErrInUse, e.err} }

// Free returns a channel that is closed when the transport no longer uses the caller's memory.
// The channel is closed at the latest when the message, its endpoint, or the Runner ends.
func (e *InUse) Free() <-chan struct{} { return e.free }
