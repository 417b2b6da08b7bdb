package launch

import "errors"

// Callers of package launch can test for the following errors with errors.Is.
var (
	// ErrEnvironment means that a launcher's environment variables contradict each other or have
	// invalid values.
	ErrEnvironment = errors.New("launch: environment makes no sense")
	// ErrNoPMI means that a launcher without PMI-1 has started several processes, which cannot
	// exchange their addresses without PMI-1. The text of an error that wraps ErrNoPMI tells the user
	// how to start the job with PMI-1.
	ErrNoPMI = errors.New("launch: started by a launcher without PMI-1")
	// ErrProtocol means that the launcher has violated the protocol.
	ErrProtocol = errors.New("launch: launcher breaks the protocol")
	// ErrRefused means that the launcher has replied to a request with a refusal.
	ErrRefused = errors.New("launch: launcher refuses")
	// ErrGone means that the launcher has closed the connection to this rank, usually because a rank
	// of the job has failed.
	ErrGone = errors.New("launch: launcher is gone")
	// ErrTimeout means that the launcher has not replied before the timeout, or that some ranks have
	// not called Fence or Join before the timeout.
	ErrTimeout = errors.New("launch: timeout")
	// ErrRendezvous occurs only with a launcher that does not support PMI-1. ErrRendezvous means that
	// this rank cannot reach rank 0 of its job, or has reached rank 0 of a different job.
	ErrRendezvous = errors.New("launch: no rendezvous")
	// ErrNoValue means that the requested rank has not published a value under the requested key
	// before the latest Fence.
	ErrNoValue = errors.New("launch: no such value")
	// ErrKey means that a key is invalid, or that this rank has already published a value under the
	// key. A valid key consists of 1 to KeyBytesMax characters, which are letters, digits, '-' and
	// '_'.
	ErrKey = errors.New("launch: invalid key")
	// ErrTooLarge means that a value is longer than ValueBytesMax bytes.
	ErrTooLarge = errors.New("launch: value too large")
	// ErrRank means that the job has no such rank.
	ErrRank = errors.New("launch: no such rank")
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("launch: invalid configuration")
	// ErrContext means that the context is nil. A call that returns ErrContext has no effect.
	ErrContext = errors.New("launch: nil context")
	// ErrFinalized means that this process has already finalized or aborted the job.
	ErrFinalized = errors.New("launch: finalized")
)
