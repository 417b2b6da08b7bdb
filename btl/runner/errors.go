package runner

import "errors"

// The errors below can be tested with errors.Is. The errors of the module are defined in package
// btl.
var (
	// ErrInHandler means that a callback has called a method that waits, which would be a deadlock.
	ErrInHandler = errors.New("runner: a callback must not wait")
	// ErrNotStarted means that a layer, such as call.Node, was used before its Runner was started.
	ErrNotStarted = errors.New("runner: not started")
	// ErrTaken means that an earlier Runner drives, or has driven, the module (see New).
	ErrTaken = errors.New("runner: the module has a Runner already")
	// ErrInUse means that the context was cancelled, and that the transport might still read or write
	// the caller's memory. The error that wraps ErrInUse is an InUse, whose method Free tells when the
	// transport no longer uses the memory.
	ErrInUse = errors.New("runner: memory may still be in use")
)

// InUse is the error of a call whose context was cancelled while the transport might still use the
// caller's memory. InUse wraps ErrInUse and the context's error.
type InUse struct {
	err  error
	free chan struct{}
}

// Error implements error.
func (e *InUse) Error() string { return ErrInUse.Error() + ": " + e.err.Error() }

// Unwrap returns ErrInUse and the context's error.
func (e *InUse) Unwrap() []error { return []error{ErrInUse, e.err} }

// Free returns a channel that is closed when the transport no longer uses the caller's
// memory. The channel that Free returns is closed at the latest when the message, its
// endpoint, or the Runner ends.
func (e *InUse) Free() <-chan struct{} { return e.free }
