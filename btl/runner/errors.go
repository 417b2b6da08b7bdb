package runner

import "errors"

// Errors of the package; test for them with errors.Is. Those of the module are of package btl.
var (
	// ErrInHandler: a method that waits was called from a callback, which would wait for itself.
	ErrInHandler = errors.New("runner: a callback must not wait")
	// ErrNotStarted: there is no Runner yet. A layer, such as call.Node, was used before its Start.
	ErrNotStarted = errors.New("runner: not started")
	// ErrInUse: the context has ended, and the memory of the message may still be read, or written.
	// The error is an InUse, which tells when the memory is free.
	ErrInUse = errors.New("runner: memory may still be in use")
)

// InUse is the error of a call whose context has ended while its memory may still be in use. It is
// ErrInUse, and the context's error.
type InUse struct {
	err  error
	free chan struct{}
}

// Error implements error.
func (e *InUse) Error() string { return ErrInUse.Error() + ": " + e.err.Error() }

// Unwrap returns both errors.
func (e *InUse) Unwrap() []error { return []error{ErrInUse, e.err} }

// Free is closed when the memory is the caller's again: with the end of the message, of its
// endpoint, or of the Runner.
func (e *InUse) Free() <-chan struct{} { return e.free }
